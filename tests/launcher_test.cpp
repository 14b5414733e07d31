// The launcher: from any folder, through a link, and on a machine where something is missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/launcher_checkout.h"

namespace launcher_test {

using namespace meshbed::test;

namespace {

// The launcher works on the build that this test belongs to.
const std::string kWithThisBuild = "MESHBED_BUILD_DIR='" + std::string(MESHBED_BINARY_DIR) + "' ";

/// What the launcher says with these stand-ins where it may install nothing.
std::string without_install(const std::string& programs, const std::string& build, const std::string& arguments) {
  return run_command_line("PATH='" + programs + "':$PATH MESHBED_BUILD_DIR='" + build + "' '" + kLauncher +
                          "' --no-install " + arguments + " 2>&1")
      .output;
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
                       kLauncher + "' --no-install env 2>&1");
  CHECK(result.status == 2);
  CHECK(result.output.find("needs these packages: g++ cmake ninja-build mold libsimgrid-dev") != std::string::npos);
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
  const CommandResult result =
      run_command_line("PATH='" + programs + "':$PATH MESHBED_BUILD_DIR='" + build + "' '" + kLauncher + "' env 2>&1");
  CHECK(result.status == 2);  // the stand-in for cmake fails, and that is said
  CHECK(result.output.find("configure failed") != std::string::npos);
  std::ifstream log(programs + "/log");
  std::string update, install;
  std::getline(log, update);
  std::getline(log, install);
  CHECK(update == "apt-get update -qq");
  CHECK(install == "apt-get install -y --no-install-recommends ninja-build");
}

TEST_CASE("the packages of a group are asked for where the program lists it, and not before") {
  const Checkout checkout("launcher_groups");
  const std::string pair = scenario_file("pair");
  const auto printed_for = [&](const std::string& arguments) {
    return checkout.run("--no-install " + arguments + " 2>&1").output;
  };
  const auto is_missing = [&](const std::string& packages) {
    checkout.stand_in("dpkg-query", "case \"$*\" in " + packages + ") exit 1;; esac; echo installed");
  };
  is_missing("*qemu-system-x86 | *iproute2");
  for (const std::string& emu : {"run " + pair + " --world emu", std::string("perf --world=emu"),
                                 std::string("shell node0"), std::string("bench perftest x.toml")}) {
    CHECK_MESSAGE(
        printed_for(emu).find("meshbed: needs these packages: qemu-system-x86 iproute2\n") != std::string::npos, emu);
  }
  for (const std::string& namespaces :
       {std::string("emu up x.toml"), "run " + pair + " --world emu --backend namespaces"}) {
    CHECK_MESSAGE(printed_for(namespaces).find("meshbed: needs these packages: iproute2\n") != std::string::npos,
                  namespaces);
  }
  is_missing("*valgrind");
  CHECK(printed_for("bench cost").find("meshbed: needs these packages: valgrind\n") != std::string::npos);
  is_missing("*perftest");
  CHECK(printed_for("bench perftest x.toml").find("meshbed: needs these packages: perftest\n") != std::string::npos);
  is_missing("*pybind11-dev");
  CHECK(printed_for("install '" + checkout.folder + "/prefix'").find("meshbed: needs these packages: pybind11-dev\n") !=
        std::string::npos);
  is_missing("*qemu-system-x86 | *iproute2 | *valgrind | *perftest | *pybind11-dev");
  for (const std::string& other : {"run " + pair, std::string("bench"), std::string("emu down")}) {
    CHECK_MESSAGE(printed_for(other).find("meshbed " + other.substr(0, 3)) != std::string::npos, other);
  }
}

TEST_CASE("the test command explains itself, and refuses what it does not know") {
  const CommandResult help = run_command_line(kWithThisBuild + "'" + kLauncher + "' test --help");
  CHECK(help.status == 0);
  CHECK(help.output.rfind("usage: ./meshbed test [options]\n", 0) == 0);
  for (const char* word : {"--full", "--stage", "--room", "--quick", "ordinary", "walks", "emu", "other-compiler",
                           "asan", "tsan", "memcheck", "clang-tidy"}) {
    CHECK_MESSAGE(help.output.find("\n  " + std::string(word) + " ") != std::string::npos, word);
  }
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"--fast", "there is no option '--fast'; ./meshbed test --help lists them"},
      {"--stage", "--stage needs a name; ./meshbed test --help lists them"},
      {"--stage moon",
       "there is no stage 'moon'; stages are: ordinary walks emu other-compiler asan tsan memcheck clang-tidy fuzz "
       "page"},
      {"--quick --stage asan", "--quick runs only the ordinary suites; it cannot be combined with a stage"},
      {"--stage=tsan --room=net", "no stage of tsan has a suite of net"},
  };
  for (const auto& [arguments, answer] : wrong) {
    const CommandResult result = run_command_line(kWithThisBuild + "'" + kLauncher + "' test " + arguments + " 2>&1");
    CHECK(result.status == 2);
    CHECK(result.output == "meshbed: test: " + answer + "\n");
  }
  const CommandResult room = run_command_line(kWithThisBuild + "'" + kLauncher + "' test --room cellar 2>&1");
  CHECK(room.status == 2);
  CHECK(room.output.rfind("meshbed: test: there is no room 'cellar'; rooms are: base cli coll ", 0) == 0);
  CHECK(room.output.find(" house\n") != std::string::npos);
}

TEST_CASE("install needs one folder, and its help lists the installed files") {
  const std::string install = kWithThisBuild + "'" + kLauncher + "' install ";
  for (const char* wrong : {"", "one two", "--prefix", "''"}) {
    const CommandResult result = run_command_line(install + wrong + " 2>&1");
    CHECK(result.status == 2);
    CHECK(result.output == "meshbed: install needs one folder: ./meshbed install PREFIX\n");
  }
  const CommandResult help = run_command_line(install + "--help");
  CHECK(help.status == 0);
  CHECK(help.output.find("PREFIX/lib/libmeshbed.so") != std::string::npos);
}

TEST_CASE("a build folder that cannot be written to is named, with the variable that moves it") {
  // No user, root included, can make a folder below a file.
  const std::string build = scratch_folder("launcher_foreign") + "/file";
  std::ofstream(build) << "x";
  const CommandResult result = run_command_line("MESHBED_BUILD_DIR='" + build + "/build' '" + kLauncher + "' env 2>&1");
  CHECK(result.status == 2);
  CHECK(result.output.rfind("meshbed: cannot write to the build folder " + build + "/build (owner: ", 0) == 0);
  CHECK(result.output.find("Set MESHBED_BUILD_DIR to a folder of your own") != std::string::npos);
}

TEST_CASE("a build folder of another checkout, or from another place, is configured again") {
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
    copy_launcher(folder + checkout);
  }
  fs::create_directories(folder + "/build/bin");
  fs::copy_file("/bin/true", folder + "/build/bin/meshbed");
  const auto run = [&](const std::string& checkout, const std::string& build) {
    return run_command_line("PATH='" + tools + "':$PATH MESHBED_BUILD_DIR='" + folder + build + "' '" + folder +
                            checkout + "/meshbed' env 2>&1");
  };
  const std::string again = "was configured for another checkout or in another place: it will be configured again";
  const auto configures_again = [&](const CommandResult& result) {
    CHECK_MESSAGE(result.status == 0, result.output);
    return result.output.find(again) != std::string::npos;
  };
  CHECK_FALSE(configures_again(run("/a", "/build")));
  CHECK_FALSE(configures_again(run("/a", "/build")));
  CHECK(configures_again(run("/b", "/build")));
  fs::rename(folder + "/build", folder + "/moved");
  CHECK(configures_again(run("/b", "/moved")));
  CHECK_FALSE(configures_again(run("/b", "/moved")));
  CHECK(run_command_line("wc -l <'" + folder + "/log'").output == "3\n");
}

TEST_CASE("a build says how far it is: at once, again after a while, and on standard error alone") {
  const Checkout checkout("launcher_progress");
  const std::string said = checkout.folder + "/said";
  // An earlier build took ten minutes for each of these.
  std::ofstream log(checkout.folder + "/build/.ninja_log");
  log << "# ninja log v5\n";
  for (const char* output : {"CMakeFiles/net_objects.dir/Unity/unity_0_cxx.cxx.o", "bin/meshbed"}) {
    log << "0\t600000\t0\t" << output << "\t0\n";
  }
  log.close();
  // Each step waits until the one before it, or that none is done yet, has been said.
  checkout.stand_in("ninja", R"(
case "$*" in
*build.ninja) exit 0 ;;
*" -n "*) wait_for() { :; } ;;
*) wait_for() { until grep -q "$1" ')" +
                                 said + R"('; do sleep 0.05; done; } ;;
esac
wait_for ': 0 of 3 done'
echo '[1/3] Building CXX object CMakeFiles/net_objects.dir/Unity/unity_0_cxx.cxx.o'
wait_for ': 1 of 3 done'
echo '[2/3] Building CXX object CMakeFiles/net_objects.dir/Unity/unity_1_cxx.cxx.o'
wait_for ': 2 of 3 done'
echo '[3/3] Linking CXX executable bin/meshbed')");
  CHECK(checkout.run("lint x.toml 2>'" + said + "'", "MESHBED_PROGRESS_SECONDS=1 ").output == "meshbed lint x.toml\n");
  const std::string text = run_command_line("cat '" + said + "'").output;
  const auto has_line = [&](const std::string& pattern) {
    return run_command_line("grep -cE '^meshbed: build: " + pattern + "$' '" + said + "'").output != "0\n";
  };
  CHECK_MESSAGE(has_line("0 of 3 done, about .* left; compiling plugin/net \\(1 of 2\\)"), text);
  CHECK_MESSAGE(has_line("1 of 3 done, [0-9]+ s gone.*; compiling plugin/net \\(2 of 2\\)"), text);
  CHECK_MESSAGE(has_line("2 of 3 done, [0-9]+ s gone.*; linking bin/meshbed"), text);
}

TEST_CASE("nothing to build is not worth a word, and is not asked twice") {
  const Checkout checkout("launcher_idle");
  checkout.run("lint x.toml 2>&1");  // configured now
  checkout.stand_in("ninja",
                    "case \"$*\" in *build.ninja) ;; *' -n '*) echo 'ninja: no work to do.' ;; *) exit 1;; esac");
  CHECK(checkout.run("lint x.toml 2>&1").output == "meshbed lint x.toml\n");
}

TEST_CASE("what failed to build is shown, without the steps that did not") {
  const Checkout checkout("launcher_failed");
  checkout.run("lint x.toml 2>&1");
  // The plan of this many steps takes seconds to read, which the first line does not tell.
  const std::string ninja =
      "case \"$*\" in *build.ninja) exit 0 ;; *' -n '*) seq 60000 | sed 's,.*,[&/60000] a&,'; exit 0 ;; esac\n"
      "echo '[1/60000] a1'\necho 'FAILED: b'\necho 'x.cpp:1: error: no'\nexit 1";
  checkout.stand_in("ninja", ninja);
  const auto [status, output] = checkout.run("lint x.toml 2>&1", "MESHBED_PROGRESS_SECONDS=3600 ");
  CHECK(status == 2);
  CHECK(output == "meshbed: build: 0 of 60000 done; a1\nFAILED: b\nx.cpp:1: error: no\nmeshbed: build failed\n");
}

TEST_CASE("each stage of the test asks for the packages that it needs itself") {
  const std::string programs =
      stand_ins("launcher_stages",
                {{"dpkg-query",
                  "case \"$*\" in *clang | *clang-* | *valgrind | *qemu-* | *openmpi-bin) exit 1;; esac; "
                  "echo installed"},
                 {"cmake", "while [ \"$1\" != -B ]; do shift; done; mkdir -p \"$2\"; touch \"$2/build.ninja\""}});
  const std::string build = scratch_folder("launcher_stages_build");
  const auto asks_for = [&](const std::string& arguments) {
    const std::string said = without_install(programs, build, "test " + arguments);
    const std::string start = "needs these packages: ";
    const std::size_t at = said.find(start);
    return at == std::string::npos ? said : said.substr(at + start.size(), said.find('\n', at) - at - start.size());
  };
  CHECK(asks_for("") == "clang-format qemu-system-x86");
  CHECK(asks_for("--stage walks") == "valgrind");
  CHECK(asks_for("--stage emu") == "qemu-system-x86 openmpi-bin");
  CHECK(asks_for("--stage other-compiler") == "clang");
  CHECK(asks_for("--stage memcheck --stage asan") == "valgrind");
  CHECK(asks_for("--stage=clang-tidy") == "clang clang-tidy");
  CHECK(asks_for("--stage fuzz") == "clang");
  CHECK(asks_for("--room worlds") == "qemu-system-x86");
  CHECK(asks_for("--full") == "clang-format qemu-system-x86 valgrind openmpi-bin clang clang-tidy");
}

TEST_CASE("the test runs its stages in one go, sets how much the tests do, and sums up") {
  const Checkout checkout("launcher_test_stages");
  checkout.stand_in("clang-format", "exit 0");
  checkout.stand_in("git", "echo x.cpp");
  // Prints its arguments, and writes a log of one test case in the suite's place.
  checkout.stand_in("ctest", R"(
folder=$2
echo "ctest ${folder##*/} emu=${MESHBED_TEST_EMU-no} walks=${MESHBED_TEST_WALKS-no} $*" | sed 's/--test-dir [^ ]* //' >>')" +
                                 checkout.folder + R"(/log'
mkdir -p "$folder/Testing/Temporary"
cat >"$folder/Testing/Temporary/LastTest.log" <<END
1/1 Testing: net/1
[begins] it adds
[ends] 2.500 s, passed: it adds
[doctest] test cases:  1 |  1 passed | 0 failed | 0 skipped
Test Passed.
END)");
  const auto test = [&](const std::string& arguments) {
    std::ofstream(checkout.folder + "/log").close();
    std::ofstream(checkout.folder + "/ninja.log").close();
    return checkout.run("test " + arguments + " 2>/dev/null");
  };
  const auto log_has = [&](const std::string& text) {
    return run_command_line("cat '" + checkout.folder + "/log' '" + checkout.folder + "/ninja.log'")
               .output.find(text) != std::string::npos;
  };
  const CommandResult ordinary = test("");
  CHECK(ordinary.status == 0);
  CHECK(ordinary.output.find("net                             1 passed, 0 failed, 0 skipped\n"
                             "format                          1 passed, 0 failed, 0 skipped\n"
                             "the slowest test cases:\n     2.5 s  net: it adds\n"
                             "stages:\n  ordinary ") == 0);
  CHECK(ordinary.output.find("\n2 passed, 0 failed, 0 skipped\n") != std::string::npos);
  CHECK(log_has("ctest build emu=short walks=no "));
  CHECK(log_has(" all worlds cost_programs\n"));

  CHECK(test("--quick").output.find("format") == std::string::npos);
  CHECK(log_has("ctest build emu=no walks=no "));

  CHECK(test("--room net").status == 0);
  CHECK(log_has(" -R ^(net)(/[0-9]+)?$ "));
  CHECK(log_has(" net_tests\n"));
  CHECK_FALSE(log_has(" all"));

  const CommandResult landing = test("--stage tsan --stage asan --stage ordinary");
  CHECK(landing.output.find("\nasan/net                        1 passed") < landing.output.find("\ntsan/net "));
  CHECK(landing.output.find("\n4 passed, 0 failed, 0 skipped\n") != std::string::npos);
  CHECK(log_has("ctest build-asan emu=no walks=no "));
  CHECK(log_has("base_tests models_tests net_tests cli_tests trace_tests cuda_tests\n"));

  checkout.stand_in("npm", "exit 127");
  const CommandResult full = test("--full");
  CHECK(full.output.find("\n  skipped  page: npm or node does not run here\n") != std::string::npos);
  CHECK(full.output.find("\n  ordinary, walks ") != std::string::npos);
  CHECK(log_has("ctest build emu=full walks=full -j"));
  CHECK(log_has(" -R ^(emu|worlds|contract)(/[0-9]+)?$ --timeout 5400"));
  CHECK(log_has(" walks=ends -j"));
  CHECK(log_has(" -R ^memcheck/(net|verbs|host|engine|coll|trace)(/[0-9]+)?$ "));

  checkout.stand_in("ctest", "exit 0");
  CHECK(test("").status != 0);  // nothing ran
}

TEST_CASE("thousands of test cases are summed up to the last line") {
  const Checkout checkout("launcher_test_many");
  checkout.stand_in("clang-format", "exit 0");
  checkout.stand_in("git", "echo x.cpp");
  checkout.stand_in("ctest", R"(
mkdir -p "$2/Testing/Temporary"
{
  echo '1/1 Testing: net'
  for number in $(seq 5000); do
    echo "[begins] a test case that has a name as long as those of this project are, number $number"
    echo "[ends] 0.$number s, passed: a test case that has a name as long as those of this project are, number $number"
  done
  echo '[doctest] test cases:  5000 |  5000 passed | 0 failed | 0 skipped'
  echo 'Test Passed.'
} >"$2/Testing/Temporary/LastTest.log"
)");
  const CommandResult run = checkout.run("test --quick 2>/dev/null");
  CHECK(run.status == 0);
  CHECK(run.output.find(
            "\n     1.0 s  net: a test case that has a name as long as those of this project are, number 999") !=
        std::string::npos);
  const std::string last = "\n5000 passed, 0 failed, 0 skipped\n";
  CHECK(run.output.find(last) == run.output.size() - last.size());
}

TEST_CASE("the parts of a suite have all its test cases between them, each once") {
  const std::string program = "'" + fs::read_symlink("/proc/self/exe").string() + "' --list-test-cases";
  const std::string names = " | grep -v '^\\[doctest\\]\\|^====' | sort";
  const std::string parts = "(for part in 1 2 3; do MESHBED_SHARD=$part/3 " + program + "; done)";
  const std::string whole = run_command_line("env -u MESHBED_SHARD " + program + names).output;
  CHECK(whole.find("the parts of a suite") != std::string::npos);
  CHECK(run_command_line(parts + names).output == whole);
  CHECK(run_command_line("MESHBED_SHARD=4/3 " + program + " 2>&1").output ==
        "MESHBED_SHARD=4/3: say which part of how many, as 2/3\n");
}

TEST_CASE("the test command counts what ctest and doctest say, crashes and skips included") {
  const std::string folder = scratch_folder("launcher_counts");
  std::ofstream(folder + "/log") << R"(1/5 Testing: good/2
[doctest] test cases:  5 |  5 passed | 0 failed | 2 skipped
TEST CASE:  it needs a locale

./tests/x.cpp:9: MESSAGE: skipped: no such locale

Test Passed.
2/5 Testing: bad
TEST CASE:  it adds

./tests/x.cpp:12: ERROR: CHECK( 1 + 1 == 3 ) is NOT correct!
  values: CHECK( 2 == 3 )

[doctest] test cases:  4 |  3 passed | 1 failed | 0 skipped
Test Failed.
3/5 Testing: crashed
Segmentation fault
Test Failed.
4/5 Testing: good/1
[begins] it has no clock
./tests/x.cpp:9: MESSAGE: skipped: no clock
[ends] 0.500 s, passed: it has no clock
[doctest] test cases:  1 |  1 passed | 0 failed | 0 skipped
Test Passed.
5/5 Testing: slow
[begins] it adds
[ends] 1.500 s, passed: it adds
[begins] it waits: for nothing
<end of output>
Test time = 600.01 sec
----------------------------------------------------------
Test Failed.
)";
  const auto read = [&](const std::string& how) {
    return run_command_line("bash -c '. \"" MESHBED_SOURCE_DIR "/tests/run_tests.sh\"; " + how + " \"" + folder +
                            "/log\" asan/'");
  };
  CHECK(read("read_ctest_log").output ==
        "good 4 0 2\n"
        "- good: it needs a locale: no such locale\n"
        "- good: it has no clock: no clock\n"
        "bad 3 1 0\n"
        "crashed 0 1 0\n"
        "slow 1 1 0\n");
  CHECK(read("read_failures").output ==
        "asan/bad: it adds\n"
        "  ./tests/x.cpp:12: ERROR: CHECK( 1 + 1 == 3 ) is NOT correct!\n"
        "    values: CHECK( 2 == 3 )\n"
        "asan/crashed: no test case was running\n"
        "  cut off here\n"
        "asan/slow: it waits: for nothing\n"
        "  cut off here, 600.01 s after the test began\n");
  CHECK(read("read_case_times").output == "0.500 asan/good: it has no clock\n1.500 asan/slow: it adds\n");
  CHECK(read("read_failed_tests").output.find("Testing: good") == std::string::npos);
}

TEST_CASE("a failed run ends with the failed cases and the file that has their whole output") {
  const std::string folder = scratch_folder("failed-run");
  const auto run = [&](const std::string& command) {
    return run_command_line("bash -c 'build=\"" + folder +
                            "\"; . \"" MESHBED_SOURCE_DIR "/tests/run_tests.sh\"; check a/b " + command +
                            "; report_tests' 2>/dev/null");
  };
  const CommandResult failed = run("bash -c \"printf \\\"line 1\\nerror: line 2\\n\\\"; false\"");
  CAPTURE(failed.output);
  CHECK(failed.status == 1);
  const std::string file = folder + "/failed/a-b.txt";
  CHECK(failed.output.find("failed:\na/b: error: line 2\ntheir whole output:\n  " + file + "\n0 passed, 1 failed") !=
        std::string::npos);
  std::ifstream kept(file);
  const std::string text((std::istreambuf_iterator<char>(kept)), {});
  CHECK(text == "line 1\nerror: line 2\n");
  const CommandResult passed = run("true");
  CAPTURE(passed.output);
  CHECK(passed.status == 0);
  CHECK(passed.output.find("whole output") == std::string::npos);
}

TEST_CASE("each build folder of the launcher is configured with a preset that exists") {
  const std::string presets = run_command_line("cd '" MESHBED_SOURCE_DIR "' && cmake --list-presets").output;
  std::istringstream named(run_command_line("cd '" MESHBED_SOURCE_DIR
                                            "' && sed -n 's/.*configure \"$[a-z]*\" \\([a-z-]*\\).*/\\1/p' meshbed "
                                            "tests/run_tests.sh | sort -u")
                               .output);
  int count = 0;
  for (std::string preset; named >> preset; ++count) {
    CHECK_MESSAGE(presets.find("\"" + preset + "\"") != std::string::npos, preset);
  }
  CHECK(count == 6);
}

TEST_CASE("every shell script is one") {
  for (const char* script :
       {"meshbed", "cmake/launcher/help.sh", "cmake/launcher/install.sh", "cmake/launcher/packages.sh",
        "cmake/launcher/progress.sh", "tests/run_tests.sh", "tests/page/stage.sh", "emu/guest_init.sh", ".ci/run"}) {
    const CommandResult parsed = run_command_line("bash -n '" MESHBED_SOURCE_DIR "/" + std::string(script) + "' 2>&1");
    CHECK_MESSAGE(parsed.status == 0, script, ": ", parsed.output);
  }
}

}  // namespace launcher_test
