// [workload] nccl: which libnccl.so.2 a program's ranks find, and that the report names it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"
#include "tests/support/fat_binary.h"

namespace nccl_choice_test {

using namespace meshbed::test;

namespace {

/// A program that prints the version of its NCCL, and a folder with another NCCL, of version 2.30.7.
class Choice {
 public:
  explicit Choice(const std::string& name) : programs_(name) {
    std::filesystem::create_directory(programs_.folder() + "/own");
    std::ofstream(programs_.folder() + "/own.c")
        << "int ncclGetVersion(int* version) { *version = 23007; return 0; }\n";
    const CommandResult made = run_command_line(fmt::format(
        "cc -shared -fPIC -Wl,-soname,libnccl.so.2 -o '{0}/own/libnccl.so.2' '{0}/own.c' 2>&1", programs_.folder()));
    REQUIRE_MESSAGE(made.status == 0, made.output);
    programs_.compile("c++ -Wl,-rpath,'$ORIGIN/own'", "asks", R"(
#include <cstdio>
#include <nccl.h>
int main() {
  int version = 0;
  const int result = ncclGetVersion(&version);
  std::printf("version %d\n", version);
  return result;
}
)");
  }

  CommandResult run(const std::string& nccl) const {
    return programs_.run("asks", 2, nccl.empty() ? "" : "nccl = \"" + nccl + "\"",
                         "[environment]\nNCCL_CUMEM_ENABLE = \"0\"\n");
  }
  nlohmann::json summary() const {
    std::ifstream file(programs_.folder() + "/results/ring/sim/summary.json");
    return nlohmann::json::parse(file);
  }
  std::string folder() const { return programs_.folder(); }

 private:
  Programs programs_;
};

std::string sha256_of(const std::string& file) {
  return run_command_line("sha256sum '" + file + "' | cut -c1-64 | tr -d '\\n'").output;
}

/// What has what a library of NCCL's has for `nccl check`: PTX, the shared runtime, its version.
void make_stand_in(const std::string& folder) {
  std::ofstream(folder + "/nccl.c") << "const char* version_text = \"NCCL version 2.30.7+cuda13.0\";\n"
                                       "int ncclGetVersion(int* version) { *version = 23007; return 0; }\n"
                                       "int ncclCommInitRank(void) { return 0; }\n"
                                    << fat_binary_source({{true, 90}});
  const CommandResult made = run_command_line(fmt::format(
      "cd '{0}' && cc -shared -fPIC -Wl,-soname,libnccl.so.2 -Wl,--no-as-needed -o libnccl.so.2.30.7 nccl.c "
      "-L'{1}/cuda-lib' -l:libcudart.so.13 2>&1",
      folder, kBuild));
  REQUIRE_MESSAGE(made.status == 0, made.output);
}

constexpr const char* kIdle = "NCCL_CUMEM_ENABLE does nothing here";

}  // namespace

TEST_CASE("the drop-in is what a program of NCCL finds by default, and the report says so") {
  const Choice choice("nccl-choice-dropin");
  for (const std::string nccl : {"", "drop-in"}) {
    const CommandResult run = choice.run(nccl);
    CAPTURE(run.output);
    CHECK(run.status == 0);
    const std::string file = kBuild + "/nccl-lib/libnccl.so.2", sha256 = sha256_of(file);
    const nlohmann::json summary = choice.summary().at("nccl");
    CHECK(summary.at("file") == file);
    CHECK(summary.at("sha256") == sha256);
    CHECK(lines_with(run.output, fmt::format("nccl {}: {}, SHA-256 {}\n", summary.at("version").get<std::string>(),
                                             file, sha256.substr(0, 16))) == 1);
    CHECK(lines_with(run.output, kIdle) == 1);
  }
}

TEST_CASE("a program finds the NCCL that its scenario names, or the one it would find on this machine") {
  const Choice choice("nccl-choice-own");
  for (const std::string nccl : {"own/libnccl.so.2", "system"}) {
    const CommandResult run = choice.run(nccl);
    CAPTURE(run.output);
    CHECK(run.status == 0);
    const std::string file = std::filesystem::canonical(choice.folder() + "/own/libnccl.so.2").string();
    CHECK(lines_with(run.output, "version 23007\n") == 2);
    CHECK(lines_with(run.output, fmt::format("nccl 2.30.7: {}, SHA-256 {}\n", file, sha256_of(file).substr(0, 16))) ==
          1);
    CHECK(choice.summary().at("nccl") == nlohmann::json{{"file", file},
                                                        {"version", "2.30.7"},
                                                        {"sha256", sha256_of(file)},
                                                        {"decisions", nlohmann::json::array()}});
    CHECK(lines_with(run.output, kIdle) == 0);  // NCCL itself reads it
  }
  const CommandResult missing = choice.run("none.so");
  CAPTURE(missing.output);
  CHECK(missing.status == 2);
  CHECK(lines_with(missing.output,
                   "nccl: there is no file 'none.so'; name a libnccl.so, or \"drop-in\" or \"system\"") == 1);
  std::filesystem::remove(choice.folder() + "/own/libnccl.so.2");
  const CommandResult other = choice.run("system");
  CAPTURE(other.output);
  if (other.status == 0) {  // this machine has one
    CHECK(choice.summary().at("nccl").at("file").get<std::string>().find(choice.folder()) == std::string::npos);
  } else {
    CHECK(other.status == 2);
    CHECK(lines_with(other.output, "nccl: no libnccl.so.2 is in the program's run path, LD_LIBRARY_PATH") == 1);
  }
}

TEST_CASE("nccl run: a program on a library that the user names, each rank with its output, and the report") {
  const std::string folder = scratch_folder("nccl-run");
  make_stand_in(folder);
  const Programs programs("nccl-run-program");
  programs.compile("c++", "asks", R"(
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
int main(int count, char** words) {
  int version = 0;
  const int result = ncclGetVersion(&version);
  std::printf("version %d, %d words, the last %s, plugin %s\n", version, count, words[count - 1],
              std::getenv("NCCL_NET_PLUGIN"));
  return result;
}
)");
  const auto run = [&](const std::string& options) {
    return run_command_line(fmt::format("cd '{}' && '{}/bin/meshbed' nccl run {} -- '{}/asks' -b 'two \"words\"' 2>&1",
                                        folder, kBuild, options, programs.folder()));
  };
  const std::string ring = "--scenario " MESHBED_SOURCE_DIR "/scenarios/ring4.toml";
  const CommandResult right = run("--nccl libnccl.so.2.30.7 --gpu H100 " + ring);
  CAPTURE(right.output);
  CHECK(right.status == 0);
  CHECK(lines_with(right.output, ": version 23007, 3 words, the last two \"words\", plugin mesh\n") == 4);
  CHECK(lines_with(right.output, "nccl 2.30.7: " + folder) == 1);
  CHECK(lines_with(right.output, "BROKEN") == 0);  // what the scenario expects of its own workload

  const auto refused = [&](const std::string& options, const std::string& words) {
    const CommandResult result = run(options);
    CAPTURE(result.output);
    CHECK(result.status == 2);
    CHECK(lines_with(result.output, words) == 1);
  };
  refused("--nccl libnccl.so.2.30.7 " + ring,
          "nccl run: node0 has no GPU of a model, and NCCL needs one for each rank: --gpu H100");
  refused("--nccl libnccl.so.2.30.7 --gpu GB10 " + ring,
          "GB10 (sm_121) needs PTX for compute_120; this has compute_90");
  refused("--nccl none.so --gpu H100 " + ring, "none.so");
  refused("--nccl libnccl.so.2.30.7 --gpu H100", "nccl run: --scenario FILE: on which cluster?");
  refused("--nccl '" + kBuild + "/nccl-lib/libnccl.so.2' --gpu H100 " + ring, "is not NVIDIA's NCCL");
}

TEST_CASE(
    "nccl run on this machine: processes that meet, each with its output and its GPU, and none outlives a failure") {
  const std::string folder = scratch_folder("nccl-host");
  make_stand_in(folder);
  std::filesystem::create_symlink("libnccl.so.2.30.7", folder + "/libnccl.so.2");
  const Programs programs("nccl-host-program");
  // Rank 1 says where it listens through the other's port: they meet over the loopback, whichever comes first.
  programs.compile("c++ -I" MESHBED_SOURCE_DIR "/plugin/dropin/mpi", "meets", R"(
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mpi.h>
#include <nccl.h>
#include <unistd.h>
int main(int count, char** words) {
  int version = 0, sum = 0, rank = 0, gpus = 0;
  ncclGetVersion(&version);
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&version, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  auto* devices = (int (*)(int*))dlsym(dlopen("libcudart.so.13", RTLD_NOW), "cudaGetDeviceCount");
  devices(&gpus);
  std::printf("sum %d, %d GPU, host %s, last word %s\n", sum, gpus, std::getenv("NCCL_HOSTID"), words[count - 1]);
  std::fflush(stdout);
  if (words[count - 1][0] == 'f') {
    if (rank == 1) return 3;
    pause();  // for ever, as a rank does whose peer is gone
  }
  MPI_Finalize();
}
)",
                   "-L" + kBuild + "/mpi-lib -lmpi");
  const auto run = [&](const std::string& word, const std::string& options = "") {
    return run_command_line(
        fmt::format("cd '{0}' && '{1}/bin/meshbed' nccl run --nccl libnccl.so.2 --gpu H100 --world host {2} --results "
                    "'{0}/results' "
                    "--scenario '{3}/scenarios/pair.toml' -- '{4}/meets' {5} 2>&1",
                    folder, kBuild, options, MESHBED_SOURCE_DIR, programs.folder(), word));
  };
  const CommandResult right = run("well");
  CAPTURE(right.output);
  CHECK(right.status == 0);
  for (const int rank : {0, 1}) {
    CHECK(lines_with(right.output, fmt::format("rank{0}: sum 46014, 1 GPU, host node{0}, last word well\n", rank)) ==
          1);
  }
  CHECK(lines_with(right.output, "nccl 2.30.7: " + folder + "/libnccl.so.2") == 1);
  const CommandResult failed = run("fails");
  CAPTURE(failed.output);
  CHECK(failed.status == 3);
  CHECK(lines_with(failed.output, "meshbed: rank 1 ended with status 3\n") == 1);
  CHECK(run("well", "--json").status == 2);
}

TEST_CASE("nccl run in emulated nodes: ranks find the user's NCCL, the plugins, and the MPI by which they meet") {
  const std::string folder = scratch_folder("nccl-emu");
  make_stand_in(folder);
  std::filesystem::create_symlink("libnccl.so.2.30.7", folder + "/libnccl.so.2");
  // A colon that nothing follows: nothing is booted for it.
  const CommandResult result = run_command_line(
      fmt::format("cd '{0}' && LD_LIBRARY_PATH=/own '{1}/bin/meshbed' nccl run --nccl libnccl.so.2 --gpu H100 --world "
                  "emu --scenario '{2}/scenarios/pair.toml' -- true : 2>&1",
                  folder, kBuild, MESHBED_SOURCE_DIR));
  CAPTURE(result.output);
  CHECK(result.status == 2);
  CHECK(lines_with(result.output, "is empty") == 1);
  CHECK(lines_with(result.output,
                   fmt::format(" --env LD_LIBRARY_PATH={0}:{1}/lib:{1}/mpi-lib:/own ", folder, kBuild)) == 1);
}

}  // namespace nccl_choice_test
