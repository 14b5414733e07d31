// The launcher: from any folder, through a link, and on a machine where something is missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command.h"

namespace launcher_test {

using namespace meshbed::test;

namespace {

namespace fs = std::filesystem;

const std::string kLauncher = std::string(MESHBED_SOURCE_DIR) + "/meshbed";
// The launcher works on the build that this test belongs to.
const std::string kWithThisBuild = "MESHBED_BUILD_DIR='" + std::string(MESHBED_BINARY_DIR) + "' ";

/// A folder with stand-ins for programs of the system, to be put before PATH.
std::string stand_ins(const std::string& name, const std::vector<std::pair<std::string, std::string>>& scripts) {
  const std::string folder = scratch_folder(name);
  for (const auto& [program, script] : scripts) {
    const fs::path path = fs::path(folder) / program;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  return folder;
}

}  // namespace

TEST_CASE("the launcher works from another folder and through a link") {
  const std::string folder = scratch_folder("launcher");
  fs::create_symlink(kLauncher, folder + "/try");
  const CommandResult result =
      run_command_line("cd '" + folder + "' && " + kWithThisBuild + "./try --version 2>/dev/null");
  CHECK(result.status == 0);
  CHECK(result.output == "meshbed 0.1.0\n");
}

TEST_CASE("relative paths are the caller's, and standard output is the command's alone") {
  const std::string folder = scratch_folder("launcher_paths");
  fs::copy_file(std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml", folder + "/here.toml");
  const CommandResult result = run_command_line("cd '" + folder + "' && " + kWithThisBuild + "'" + kLauncher +
                                                "' run here.toml --json --no-trace 2>/dev/null");
  CHECK(result.status == 0);
  CHECK(result.output.rfind("{\n  \"scenario\": \"here\"", 0) == 0);
  CHECK(fs::exists(folder + "/results/here/sim/summary.json"));
}

TEST_CASE("--no-install names what is missing with the line that installs it, and touches nothing") {
  const std::string programs = stand_ins("launcher_missing", {{"dpkg-query", "exit 1"}, {"apt-get", "touch called"}});
  const std::string build = scratch_folder("launcher_missing_build");
  const CommandResult result =
      run_command_line("cd '" + programs + "' && PATH='" + programs + "':$PATH MESHBED_BUILD_DIR='" + build + "' '" +
                       kLauncher + "' --no-install --version 2>&1");
  CHECK(result.status == 2);
  CHECK(result.output.find("needs these packages: g++ cmake ninja-build libsimgrid-dev") != std::string::npos);
  CHECK(result.output.find("apt-get install -y --no-install-recommends g++ cmake") != std::string::npos);
  CHECK_FALSE(fs::exists(programs + "/called"));
  CHECK(fs::is_empty(build));
}

TEST_CASE("missing packages are installed, as root or through sudo") {
  const std::string programs = stand_ins(
      "launcher_install",
      {{"dpkg-query", "case \"$*\" in *ninja-build) [ -e \"$0.done\" ] || exit 1;; esac; echo installed"},
       {"apt-get", "echo apt-get \"$@\" >>\"$(dirname \"$0\")/log\"; touch \"$(dirname \"$0\")/dpkg-query.done\""},
       {"sudo", "exec \"$@\""},
       {"cmake", "exit 7"}});
  const std::string build = scratch_folder("launcher_install_build");
  const CommandResult result = run_command_line("PATH='" + programs + "':$PATH MESHBED_BUILD_DIR='" + build + "' '" +
                                                kLauncher + "' --version 2>&1");
  CHECK(result.status == 2);  // the stand-in for cmake fails, and that is said
  CHECK(result.output.find("configure failed") != std::string::npos);
  std::ifstream log(programs + "/log");
  std::string update, install;
  std::getline(log, update);
  std::getline(log, install);
  CHECK(update == "apt-get update -qq");
  CHECK(install == "apt-get install -y --no-install-recommends ninja-build");
}

TEST_CASE("what only the emulated world needs is asked for by its commands alone") {
  const std::string programs =
      stand_ins("launcher_emu", {{"dpkg-query",
                                  "case \"$*\" in *qemu-system-x86 | *iproute2) exit 1;; esac; "
                                  "echo installed"},
                                 {"cmake", "exit 7"}});
  const std::string build = scratch_folder("launcher_emu_build");
  const auto said_to = [&](const std::string& arguments) {
    return run_command_line("PATH='" + programs + "':$PATH MESHBED_BUILD_DIR='" + build + "' '" + kLauncher +
                            "' --no-install " + arguments + " 2>&1")
        .output;
  };
  for (const char* emu : {"run x.toml --world emu", "perf --world=emu", "conformance x.so --world emu",
                          "compare sim emu", "shell node0", "bench perftest x.toml"}) {
    CHECK(said_to(emu).rfind("meshbed: needs these packages: qemu-system-x86 iproute2\n", 0) == 0);
  }
  // In the host's own kernel there are no virtual machines.
  for (const char* namespaces : {"emu up x.toml", "run x.toml --world emu --backend namespaces"}) {
    CHECK(said_to(namespaces).rfind("meshbed: needs these packages: iproute2\n", 0) == 0);
  }
  // The stand-in for cmake is as far as these come.
  for (const char* other : {"run x.toml", "run emu.toml --world sim", "perf emu", "compare a b", "shell --help", "emu",
                            "bench", "bench perftest x.toml --world metal", "emu down", "emu up x.toml --dry-run"}) {
    CHECK(said_to(other).rfind("meshbed: configure failed", 0) == 0);
  }
}

TEST_CASE("what counts instructions is asked for by bench cost alone") {
  const std::string programs =
      stand_ins("launcher_cost",
                {{"dpkg-query", "case \"$*\" in *valgrind) exit 1;; esac; echo installed"}, {"cmake", "exit 7"}});
  const std::string build = scratch_folder("launcher_cost_build");
  const auto said_to = [&](const std::string& arguments) {
    return run_command_line("PATH='" + programs + "':$PATH MESHBED_BUILD_DIR='" + build + "' '" + kLauncher +
                            "' --no-install " + arguments + " 2>&1")
        .output;
  };
  CHECK(said_to("bench cost").rfind("meshbed: needs these packages: valgrind\n", 0) == 0);
  for (const char* other : {"bench", "bench cost --help", "cost"}) {
    CHECK(said_to(other).rfind("meshbed: configure failed", 0) == 0);
  }
}

TEST_CASE("the test command explains itself, and refuses what it does not know") {
  const CommandResult help = run_command_line(kWithThisBuild + "'" + kLauncher + "' test --help");
  CHECK(help.status == 0);
  CHECK(help.output.rfind("usage: ./meshbed test [--quick]\n", 0) == 0);
  const CommandResult wrong = run_command_line(kWithThisBuild + "'" + kLauncher + "' test --fast 2>&1");
  CHECK(wrong.status == 2);
  CHECK(wrong.output == "meshbed: test: there is no option '--fast'; usage: ./meshbed test [--quick]\n");
}

TEST_CASE("a build folder that cannot be written to is named, with the variable that moves it") {
  // Nobody, root included, can make a folder below a file.
  const std::string build = scratch_folder("launcher_foreign") + "/file";
  std::ofstream(build) << "x";
  const CommandResult result =
      run_command_line("MESHBED_BUILD_DIR='" + build + "/build' '" + kLauncher + "' --version 2>&1");
  CHECK(result.status == 2);
  CHECK(result.output.rfind("meshbed: cannot write to the build folder " + build + "/build (owner: ", 0) == 0);
  CHECK(result.output.find("Set MESHBED_BUILD_DIR to a folder of your own") != std::string::npos);
}

TEST_CASE("a build folder of another checkout, or from another place, is configured afresh") {
  const std::string folder = scratch_folder("launcher_moved");
  // Stand-ins that write what the launcher reads: nothing is built here.
  const std::string tools = stand_ins(
      "launcher_moved_tools",
      {{"cmake",
        "while [ \"$1\" != -S ]; do shift; done; mkdir -p \"$4\"; touch \"$4/build.ninja\"; echo \"$2\" >>'" + folder +
            "/log'; printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nCMAKE_CACHEFILE_DIR:INTERNAL=%s\n' \"$2\" \"$4\" "
            ">\"$4/CMakeCache.txt\""},
       {"ninja", "exit 0"}});
  for (const char* checkout : {"/a", "/b"}) {
    fs::create_directories(folder + checkout + "/tests");
    fs::copy_file(kLauncher, folder + checkout + "/meshbed");
    fs::copy_file(std::string(MESHBED_SOURCE_DIR) + "/tests/run_tests.sh", folder + checkout + "/tests/run_tests.sh");
  }
  fs::create_directories(folder + "/build/bin");
  fs::copy_file("/bin/true", folder + "/build/bin/meshbed");
  const auto run = [&](const std::string& checkout, const std::string& build) {
    return run_command_line("PATH='" + tools + "':$PATH MESHBED_BUILD_DIR='" + folder + build + "' '" + folder +
                            checkout + "/meshbed' --version 2>&1");
  };
  const std::string afresh = "was configured for another checkout or in another place: it is configured afresh";
  const auto starts_afresh = [&](const CommandResult& result) {
    CHECK_MESSAGE(result.status == 0, result.output);
    return result.output.find(afresh) != std::string::npos;
  };
  CHECK_FALSE(starts_afresh(run("/a", "/build")));
  CHECK_FALSE(starts_afresh(run("/a", "/build")));
  CHECK(starts_afresh(run("/b", "/build")));
  fs::rename(folder + "/build", folder + "/moved");
  CHECK(starts_afresh(run("/b", "/moved")));
  CHECK_FALSE(starts_afresh(run("/b", "/moved")));
  CHECK(run_command_line("wc -l <'" + folder + "/log'").output == "3\n");
}

TEST_CASE("the test command counts what ctest and doctest say, crashes and skips included") {
  const std::string folder = scratch_folder("launcher_counts");
  std::ofstream(folder + "/log") << R"(1/3 Testing: good
[doctest] test cases:  5 |  5 passed | 0 failed | 2 skipped
TEST CASE:  it needs a locale

./tests/x.cpp:9: MESSAGE: skipped: no such locale

Test Passed.
2/3 Testing: bad
TEST CASE:  it adds

./tests/x.cpp:12: ERROR: CHECK( 1 + 1 == 3 ) is NOT correct!
  values: CHECK( 2 == 3 )

[doctest] test cases:  4 |  3 passed | 1 failed | 0 skipped
Test Failed.
3/3 Testing: crashed
Segmentation fault
Test Failed.
)";
  const auto read = [&](const std::string& how) {
    return run_command_line("bash -c '. \"" MESHBED_SOURCE_DIR "/tests/run_tests.sh\"; " + how + " \"" + folder +
                            "/log\" asan/'");
  };
  CHECK(read("read_ctest_log").output ==
        "good 4 0 1\n"
        "- good: it needs a locale: no such locale\n"
        "bad 3 1 0\n"
        "crashed 0 1 0\n");
  CHECK(read("read_failures").output ==
        "asan/bad: it adds\n"
        "  ./tests/x.cpp:12: ERROR: CHECK( 1 + 1 == 3 ) is NOT correct!\n"
        "    values: CHECK( 2 == 3 )\n");
}

TEST_CASE("every shell script is one") {
  for (const char* script : {"meshbed", "tests/run_tests.sh", "emu/guest_init.sh", ".ci/run"}) {
    const CommandResult parsed = run_command_line("bash -n '" MESHBED_SOURCE_DIR "/" + std::string(script) + "' 2>&1");
    CHECK_MESSAGE(parsed.status == 0, script, ": ", parsed.output);
  }
}

}  // namespace launcher_test
