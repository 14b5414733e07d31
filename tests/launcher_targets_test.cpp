// What a command line needs built and installed: `meshbed --needs` lists it, and the launcher does it before it starts
// the command.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/launcher_checkout.h"

namespace launcher_targets_test {

using namespace meshbed::test;

namespace {

/// What `meshbed --needs` prints of one kind, in one line: "worlds cuda_libraries".
std::string needs(const std::string& kind, const std::string& arguments) {
  const CommandResult listed = run_command_line(meshbed_program() + " --needs " + arguments);
  CHECK(listed.status == 0);
  std::istringstream lines(listed.output);
  std::string names;
  for (std::string each_kind, name; lines >> each_kind >> name;) {
    if (each_kind == kind) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}
std::string targets(const std::string& arguments) { return needs("target", arguments); }
std::string packages(const std::string& arguments) { return needs("packages", arguments); }

const std::string kPair = scenario_file("pair");
const std::string kGpus = scenario_file("triangle-gpu");

}  // namespace

TEST_CASE("a command line needs what it runs, and no more") {
  for (const char* help : {"", "--help", "-h", "--version", "help", "exec --help", "run --help", "run x.toml -h",
                           "bench cost --help", "perf -h", "nccl compare --help", "cuda --help", "cuda run --help",
                           "cuda run --gpu H100 --help", "install --help"}) {
    CHECK_MESSAGE(run_command_line(meshbed_program() + " --needs " + help).output.empty(), help);
  }
  for (const char* reads_only :
       {"lint x.toml", "topo check x.toml", "env", "state", "zernel x", "compare a b", "dance"}) {
    CHECK_MESSAGE(targets(reads_only) == "bin/meshbed", reads_only);
  }
  const std::string tools = "bin/meshbed bin/meshbed-tools";
  for (const char* reads_only : {"ring dump x", "models", "report x", "validate x.csv", "calibrate x.csv", "fidelity",
                                 "nccl check x", "cuda run", "diagnose x.log", "collect", "init x", "export x"}) {
    CHECK_MESSAGE(targets(reads_only) == tools, reads_only);
  }
  for (const std::string& simulates : {"run " + kPair, "run --seed 7 " + kPair + " --set workload.bytes=8",
                                       "run --world sim " + kPair, "run --world=sim " + kPair}) {
    CHECK_MESSAGE(targets(simulates) == "first_run", simulates);
  }
  for (const std::string& starts_ranks :
       {"run --world emu " + kPair, "run --world=metal " + kPair, std::string("shell node0"), std::string("doctor"),
        std::string("emu status"), "exec --scenario " + kPair + " -- y --help",
        "exec --scenario=" + kPair + " -- y -h"}) {
    CHECK_MESSAGE(targets(starts_ranks) == "worlds", starts_ranks);
  }
  for (const char* starts_ranks : {"perf all_reduce", "conformance", "fuzz --faults", "tune x.toml", "bench messages",
                                   "nccl run --nccl x -- y", "nccl compare --nccl x"}) {
    CHECK_MESSAGE(targets(starts_ranks) == "worlds bin/meshbed-tools cuda_libraries", starts_ranks);
  }
  CHECK(targets("sweep x.toml --fail each-cable") == "worlds bin/meshbed-tools cuda_libraries bin/meshbed-run");
  CHECK(targets("diagnose x.log --prove") == "worlds bin/meshbed-tools bin/meshbed-run");
  CHECK(targets("cuda run x --help") == tools + " cuda_libraries");
  CHECK(targets("cuda run --gpu H100 x") == tools + " cuda_libraries");
  CHECK(targets("bench cost") == "worlds bin/meshbed-tools cuda_libraries cost_programs");
  CHECK(targets("install x") == "installed");
}

TEST_CASE("which libraries a scenario needs is read from the scenario, with the settings of the command line") {
  const std::string folder = scratch_folder("launcher_scenarios");
  const std::string file = folder + "/some.toml";
  const auto targets_of_file = [&](const std::string& text, const std::string& settings = "") {
    std::ofstream(file) << text;
    return targets("run '" + file + "' " + settings);
  };
  const std::string cluster = "[topology]\nkind = \"ring\"\nnodes = 2\ngpus = 1\ngpu_model = \"H100\"\n";
  // A key outside of all tables stands before them.
  for (const std::string& has_gpus :
       {cluster + "[workload]\nmemory = \"gpu\"\n", cluster + "[workload]\n  memory='gpu'\n",
        "workload = {memory = \"gpu\"}\n" + cluster, "workload = { bytes = 8, memory = 'gpu' }\n" + cluster,
        "workload.memory = \"gpu\"\n" + cluster}) {
    CHECK_MESSAGE(targets_of_file(has_gpus) == "worlds cuda_libraries", has_gpus);
  }
  const std::string on_host = cluster + "[workload]\nmemory = \"host\"\n";
  CHECK(targets_of_file(on_host) == "first_run");
  const std::string program =
      "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nkind = \"program\"\nprogram = \"/bin/true\"\n";
  CHECK(targets_of_file(program) == "worlds");
  CHECK(targets_of_file(on_host, "--set workload.memory=gpu") == "worlds cuda_libraries");
  CHECK(targets_of_file(cluster + "[workload]\nmemory = \"gpu\"\n", "--set=workload.memory=host") == "first_run");
  CHECK(targets_of_file(cluster + "# memory = \"gpu\"\n[workload]\nbytes = 8\n") == "first_run");
  // Programs in emulated nodes find their node's GPUs.
  CHECK(targets("exec --scenario '" + file + "' -- y") == "worlds cuda_libraries");
  // A pipe can be read once, by the command.
  CHECK(run_command_line("bash -c \"" + meshbed_program() + " --needs run <(cat " + kPair + ")\"").output ==
        "target worlds\ntarget cuda_libraries\n");
}

TEST_CASE("a scenario that cannot be read needs the program alone, which reports what is wrong with it") {
  const std::string folder = scratch_folder("launcher_bad_scenarios");
  std::ofstream(folder + "/bad.toml") << "[workload]\nother_memory = \"gpu\"\n";
  const std::string bad = "'" + folder + "/bad.toml'";
  for (const std::string& refused : {std::string("run missing.toml"), "run " + bad, "run " + bad + " --world emu",
                                     "run " + kPair + " --set workload.memory=moon", "exec --scenario " + bad + " -- y",
                                     std::string("run --help=x"), std::string("run")}) {
    CHECK_MESSAGE(targets(refused) == "bin/meshbed", refused);
    CHECK_MESSAGE(packages(refused).empty(), refused);
    CHECK_MESSAGE(run_command_line(meshbed_program() + " " + refused + " 2>&1").status == 2, refused);
  }
}

TEST_CASE("packages of the emulated world, of perftest and of bench cost are needed by their commands alone") {
  for (const std::string& emu :
       {"run " + kPair + " --world emu", std::string("perf --world=emu"), std::string("conformance x.so --world emu"),
        std::string("compare sim emu"), std::string("shell node0"), "exec --scenario " + kPair + " -- y --help"}) {
    CHECK_MESSAGE(packages(emu) == "emu", emu);
  }
  // In the host's own kernel there are no virtual machines.
  for (const std::string& namespaces :
       {std::string("emu up x.toml"), "run " + kPair + " --world emu --backend namespaces",
        "run " + kPair + " --world=emu --backend=namespaces"}) {
    CHECK_MESSAGE(packages(namespaces) == "namespace", namespaces);
  }
  CHECK(packages("bench perftest x.toml") == "emu perftest");
  CHECK(packages("bench perftest x.toml --world metal") == "perftest");
  CHECK(packages("bench cost") == "cost");
  CHECK(packages("bench scale --most 8") == "cost");
  CHECK(packages("install x") == "python");
  for (const std::string& other :
       {"run " + kPair, "run " + kPair + " --world sim", std::string("perf emu"), std::string("compare a b"),
        std::string("shell --help"), std::string("emu"), std::string("bench"), std::string("bench cost --help"),
        std::string("cost"), std::string("emu down"), std::string("emu up x.toml --dry-run")}) {
    CHECK_MESSAGE(packages(other).empty(), other);
  }
}

TEST_CASE("the launcher builds the program first, and then what the program lists for the command line") {
  const Checkout checkout("launcher_targets");
  const auto built_for = [&](const std::string& arguments) {
    std::ofstream(checkout.folder + "/ninja.log").close();
    CHECK(checkout.run(arguments + " 2>/dev/null").status == 0);
    return run_command_line("sed 's/.* -j [0-9]* //' '" + checkout.folder + "/ninja.log'").output;
  };
  for (const char* help : {"", "--help", "--version", "run --help", "cuda run --help", "perf -h"}) {
    CHECK_MESSAGE(built_for(help).empty(), help);
  }
  CHECK(built_for("lint x.toml") == "bin/meshbed\n");
  CHECK(built_for("run missing.toml") == "bin/meshbed\n");
  CHECK(built_for("models") == "bin/meshbed\nbin/meshbed bin/meshbed-tools\n");
  CHECK(built_for("run " + kPair) == "bin/meshbed\nfirst_run\n");
  CHECK(built_for("exec --scenario " + kPair + " -- y --help") == "bin/meshbed\nworlds\n");
  CHECK(built_for("run " + kGpus) == "bin/meshbed\nworlds cuda_libraries\n");
  CHECK(built_for("cuda run x --help") == "bin/meshbed\nbin/meshbed bin/meshbed-tools cuda_libraries\n");
  CHECK(built_for("bench cost") == "bin/meshbed\nworlds bin/meshbed-tools cuda_libraries cost_programs\n");
}

TEST_CASE("the first build of all is of what a run needs, in one go") {
  const Checkout checkout("launcher_first");
  const std::string program = checkout.folder + "/build/bin/meshbed";
  fs::rename(program, checkout.folder + "/kept");
  checkout.stand_in("ninja", "case \"$*\" in *build.ninja | *' -n '*) exit 0 ;; esac\necho \"$@\" >>'" +
                                 checkout.folder + "/ninja.log'; cp '" + checkout.folder + "/kept' '" + program + "'");
  CHECK(checkout.run("run " + kPair + " 2>/dev/null").output.rfind("meshbed run ", 0) == 0);
  CHECK(run_command_line("sed 's/.* -j [0-9]* //' '" + checkout.folder + "/ninja.log'").output == "first_run\n");
}

TEST_CASE("help waits for no build: the last built program prints it, and before any build the launcher") {
  const Checkout checkout("launcher_help");
  checkout.stand_in("cmake", "echo cmake >>'" + checkout.folder + "/called'; exit 7");
  checkout.stand_in("dpkg-query", "echo dpkg-query >>'" + checkout.folder + "/called'; exit 1");
  for (const char* help : {"--help", "-h", "help", "--version", "run --help", "exec --scenario x --help"}) {
    CHECK(checkout.run(std::string(help) + " 2>&1").output == "meshbed " + std::string(help) + "\n");
  }
  // A program that was built before --needs existed.
  write_script(checkout.folder + "/build/bin/meshbed", "[ \"$1\" = --needs ] && exit 2; echo older \"$@\"");
  for (const char* help : {"--help", "--version", "run --help"}) {
    CHECK(checkout.run(std::string(help) + " 2>&1").output == "older " + std::string(help) + "\n");
  }
  fs::remove(checkout.folder + "/build/bin/meshbed");
  for (const char* help : {"--help", "-h", "help", "run --help", "bench cost -h"}) {
    const CommandResult shown = checkout.run(std::string(help) + " 2>&1");
    CHECK_MESSAGE(shown.status == 0, help);
    CHECK(shown.output.find("usage: ./meshbed COMMAND") != std::string::npos);
    CHECK(shown.output.find("Build first for the options of each command") != std::string::npos);
    // The commands are those of the program, in its words.
    const std::string usage = run_command_line(meshbed_program() + " --help").output;
    const std::size_t from = usage.find("\n  run"), to = usage.find("\n\nexit status");
    REQUIRE(to != std::string::npos);
    CHECK(shown.output.find(usage.substr(from, to - from)) != std::string::npos);
  }
  CHECK(checkout.run("--version 2>&1").output == run_command_line(meshbed_program() + " --version").output);
  const CommandResult nothing = checkout.run("2>/dev/null");
  CHECK(nothing.status == 2);
  CHECK(nothing.output.empty());
  CHECK_FALSE(fs::exists(checkout.folder + "/called"));
}

TEST_CASE("every command answers --help, whichever of the two programs has it, and one that is missing is said") {
  const std::string usage = run_command_line(meshbed_program() + " --help").output;
  int commands = 0;
  for (std::size_t at = usage.find("\n  "); at != std::string::npos; at = usage.find("\n  ", at + 1)) {
    const std::string name = usage.substr(at + 3, usage.find(' ', at + 3) - at - 3);
    if (name.empty() || name == "test" || name == "install") continue;  // the launcher's own
    ++commands;
    const CommandResult help = run_command_line(meshbed_program() + " " + name + " --help 2>&1");
    CHECK_MESSAGE(help.status == 0, name, ": ", help.output);
  }
  CHECK(commands == 32);
  const std::string programs = scratch_folder("launcher_programs");
  fs::copy_file(std::string(MESHBED_BINARY_DIR) + "/bin/meshbed", programs + "/meshbed");
  const CommandResult missing = run_command_line("'" + programs + "/meshbed' fuzz 2>&1");
  CHECK(missing.status == 2);
  CHECK_MESSAGE(missing.output.find("which cannot be started: No such file or directory; ./meshbed fuzz builds it") !=
                    std::string::npos,
                missing.output);
  const CommandResult help = run_command_line("'" + programs + "/meshbed' fuzz --help 2>&1");
  CHECK(help.status == 0);
  CHECK_MESSAGE(help.output.find("meshbed fuzz: random fault schedules") == 0, help.output);
  CHECK_MESSAGE(help.output.find("`./meshbed fuzz` builds it") != std::string::npos, help.output);
}

}  // namespace launcher_targets_test
