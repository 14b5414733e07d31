// A run repeats: same scenario and seed, same digest, whatever else is different.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace determinism_test {

using namespace meshbed::test;

namespace {

constexpr const char* kScenarios[]{"pair", "spark-triangle", "nccl-calls-triangle-sendrecv"};

/// `prefix` stands before the program ("LC_ALL=C ", "setarch -R "), `arguments` after the scenario.
std::string digest_of(const std::string& prefix, const std::string& program, const std::string& scenario,
                      const std::string& arguments = "") {
  const std::string results = scratch_folder("determinism");
  const CommandResult result = run_command_line(prefix + program + " run " + scenario_file(scenario) +
                                                " --no-trace --json --results '" + results + "' " + arguments);
  REQUIRE_MESSAGE(result.status == 0, prefix, " ", scenario, " ", arguments);
  return nlohmann::json::parse(result.output).at("digest");
}

std::string digest_of(const std::string& scenario) { return digest_of("", meshbed_program(), scenario); }

}  // namespace

TEST_CASE("same scenario and seed, same digest: three runs") {
  for (const char* scenario : kScenarios) {
    const std::string first = digest_of(scenario);
    CHECK(first.size() == 16);
    CHECK(digest_of(scenario) == first);
    CHECK(digest_of(scenario) == first);
  }
}

TEST_CASE("another scenario has another digest") { CHECK(digest_of("pair") != digest_of("spark-triangle")); }

TEST_CASE("same digest without address space randomisation") {
  if (run_command_line("setarch -R true 2>/dev/null").status != 0) {
    MESSAGE("skipped: setarch -R is not permitted here");
    return;
  }
  for (const char* scenario : kScenarios)
    CHECK(digest_of("setarch -R ", meshbed_program(), scenario) == digest_of(scenario));
}

TEST_CASE("same digest with every context factory") {
  for (const char* scenario : kScenarios) {
    const std::string expected = digest_of(scenario);
    for (const char* contexts : {"raw", "ucontext", "boost", "thread"}) {
      CHECK_MESSAGE(digest_of("", meshbed_program(), scenario, std::string("--contexts ") + contexts) == expected,
                    contexts);
    }
  }
}

TEST_CASE("same digest in another locale, another time zone and another folder") {
  for (const char* scenario : kScenarios) {
    const std::string expected = digest_of(scenario);
    CHECK(digest_of("LC_ALL=POSIX ", meshbed_program(), scenario) == expected);
    CHECK(digest_of("LC_ALL=C.UTF-8 TZ=Asia/Kolkata ", meshbed_program(), scenario) == expected);
    CHECK(digest_of("cd /tmp && ", meshbed_program(), scenario) == expected);
  }
}

TEST_CASE("same digest where numbers are written with a comma") {
  // Debian's locales package holds the sources of all locales; compiled, none but C is there.
  const std::string folder = scratch_folder("locales");
  const std::string compile = "localedef -i de_DE -f UTF-8 '" + folder + "/de_DE.UTF-8' >/dev/null 2>&1";
  if (run_command_line(compile).status != 0) {
    MESSAGE("skipped: localedef cannot make de_DE.UTF-8 here (package locales)");
    return;
  }
  CHECK(digest_of("LOCPATH='" + folder + "' LC_ALL=de_DE.UTF-8 ", meshbed_program(), "pair") == digest_of("pair"));
}

TEST_CASE("same digest where fresh and freed memory is filled with rubbish") {
  for (const char* scenario : kScenarios) {
    const std::string expected = digest_of(scenario);
    CHECK(digest_of("MALLOC_PERTURB_=165 ", meshbed_program(), scenario) == expected);
    CHECK(digest_of("MALLOC_PERTURB_=90 MALLOC_ARENA_MAX=1 ", meshbed_program(), scenario) == expected);
  }
}

TEST_CASE("four ranks and rubbish in freed memory: an ending thread touches nothing that its joiner freed") {
  // The joiner runs as soon as it is woken; with four ranks it did so before the waker had looked at its queue again.
  CHECK(digest_of("MALLOC_PERTURB_=165 ", meshbed_program(), "ring4") == digest_of("ring4"));
}

TEST_CASE("same digest under load") {
  const std::string expected = digest_of("spark-triangle");
  CHECK(digest_of("nice -n 19 ", meshbed_program(), "spark-triangle") == expected);
}

TEST_CASE("same digest with -O0 and with clang") {
  // The launcher builds them for the whole test and says where they are.
  const char* folders = std::getenv("MESHBED_OTHER_BUILDS");
  if (folders == nullptr) {
    MESSAGE("skipped: the other build is made by ./meshbed test --stage other-compiler");
    return;
  }
  std::istringstream list(folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    for (const char* scenario : kScenarios) {
      CHECK_MESSAGE(digest_of("", "'" + folder + "/bin/meshbed'", scenario) == digest_of(scenario), folder);
    }
  }
}

TEST_CASE("a seed repeats its run, and another seed shows in the digest, because it gives the ranks other data") {
  for (const char* scenario : kScenarios) {
    const auto digest = [&](const char* seed) {
      return digest_of("", meshbed_program(), scenario, std::string("--seed ") + seed);
    };
    CHECK(digest("7") == digest("7"));
    CHECK_MESSAGE(digest("7") != digest("8"), scenario);
    CHECK(digest("1") == digest_of(scenario));  // the default
    CHECK(digest("18446744073709551615") != digest("0"));
  }
}

TEST_CASE("the digest hashes what the ranks got, not the seed: where nothing is checked, the seed changes nothing") {
  const auto digest = [](const std::string& arguments) {
    const CommandResult result =
        run_command_line(meshbed_program() + " perf all_reduce -b 4K -e 4K --json --scenario " + scenario_file("pair") +
                         " 2>/dev/null " + arguments);
    REQUIRE(result.status == 0);
    return nlohmann::json::parse(result.output).at("digest").get<std::string>();
  };
  CHECK(digest("--seed 1") != digest("--seed 2"));
  CHECK(digest("-c 0 --seed 1") == digest("-c 0 --seed 2"));
}

TEST_CASE("connections that carry messages of no bytes: they are made, used and closed, twice the same way") {
  const std::string folder = scratch_folder("no_bytes");
  meshbed::testbed::write_text_file(
      folder + "/empty.toml",
      "[topology]\nkind = \"ring\"\nnodes = 4\n"
      "[workload]\nkind = \"reconnect\"\nbytes = 0\niterations = 3\nreceives = 5\nparts = 4\n");
  std::string digests[2];
  for (std::string& digest : digests) {
    const CommandResult result =
        run_command_line(meshbed_program() + " run '" + folder + "/empty.toml' --json --results '" + folder + "'");
    REQUIRE_MESSAGE(result.status == 0, result.output);
    const auto summary = nlohmann::json::parse(result.output);
    CHECK(summary.at("connections") == 12);
    digest = summary.at("digest");
  }
  CHECK(digests[0] == digests[1]);
}

TEST_CASE("a promise about a lost node is not kept by ranks that are stopped with the run before they miss it") {
  const std::string folder = scratch_folder("nobody_missed");
  meshbed::testbed::write_text_file(folder + "/lost.toml",
                                    "[topology]\nkind = \"line\"\nnodes = 4\n"
                                    "[workload]\nkind = \"reconnect\"\nbytes = \"256K\"\niterations = 4\nreceives = 6\n"
                                    "[[fault]]\nkind = \"node_kill\"\ntarget = \"node1\"\npoint = \"iteration\"\n"
                                    "iteration = 0\nat = \"50us\"\n"
                                    "[expect]\nwrong = 0\nlost = \"node1\"\n");
  const CommandResult result =
      run_command_line(meshbed_program() + " run '" + folder + "/lost.toml' --results '" + folder + "' 2>&1");
  CHECK(result.status == 1);
  CHECK_MESSAGE(result.output.find("3 ranks stopped with the run before they detected the loss") != std::string::npos,
                result.output);
}

}  // namespace determinism_test
