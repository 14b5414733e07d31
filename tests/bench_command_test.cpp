// meshbed bench as a user calls it: what it refuses, and what its results hold. Speed is nobody's promise here.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace bench_command_test {

using namespace meshbed::test;

namespace {

CommandResult command(const std::string& arguments) { return run_command_line(meshbed_program() + " " + arguments); }
/// Both streams together.
CommandResult command_all(const std::string& arguments) { return command(arguments + " 2>&1"); }

bool is_one_line(const std::string& text) { return std::count(text.begin(), text.end(), '\n') == 1; }

}  // namespace

TEST_CASE("bench refuses numbers that it cannot use") {
  for (const char* option : {"--repetitions 0", "--repetitions -1", "--message-bytes 6", "--message-bytes many"}) {
    CAPTURE(option);
    const CommandResult refused = command_all(std::string("bench ") + option);
    CHECK(refused.status == 2);
    CHECK(is_one_line(refused.output));
  }
}

TEST_CASE("bench local has times of both libraries, each of as many iterations; without mpirun it says so") {
  const CommandResult without = run_command_line("PATH=/nowhere " + meshbed_program() + " bench local");
  CHECK(without.status == 0);
  CHECK(without.output == "skipped: there is no mpirun of Open MPI to compare with (Debian: openmpi-bin)\n");
  CHECK(command_all("bench local --bytes 6").status == 2);
  const CommandResult run = command("bench local --json --ranks 3 --bytes 1M --iterations 2 --rounds 2");
  REQUIRE(run.status == 0);
  if (run.output.rfind("skipped: ", 0) == 0) {
    MESSAGE(run.output);
    return;
  }
  const auto result = nlohmann::json::parse(run.output);
  CHECK(result.at("rounds").size() == 2);
  for (const auto& round : result.at("rounds")) {
    for (const char* by : {"engine_ms", "mpi_ms"}) {
      REQUIRE(round.at(by).size() == 2);
      for (const auto& time : round.at(by)) CHECK(time.get<double>() > 0);
    }
  }
  CHECK(result.at("ratio").get<double>() > 0);
}

TEST_CASE("bench reduce --gpu: from pinned memory no faster than a copy from there, elsewhere as fast as the memory") {
  const CommandResult none = command_all("bench reduce --gpu");
  if (none.status != 0) CHECK(none.output.find("bench reduce --gpu: ") != std::string::npos);
  const std::string words = "bench reduce --gpu --mebibytes 2 --repetitions 1 --json";
  const CommandResult run = command("cuda run --virtual " + meshbed_program() + " " + words);
  REQUIRE(run.status == 0);
  const auto result = nlohmann::json::parse(run.output);
  CHECK(result.at("gpu") == "Meshbed simulated H100");
  CHECK(result.at("rows").size() == 14);
  for (const auto& row : result.at("rows")) {
    CAPTURE(row.dump());
    const bool pinned = row.at("arrived_in") == "pinned";
    CHECK(row.at("share_of_copy").get<double>() > (pinned ? 0.8 : 0.4));
    CHECK(row.at("share_of_copy").get<double>() < (pinned ? 1.1 : 1.5));
  }
}

TEST_CASE("bench reduce has a share for each type and each kind of vectors that the processor has") {
  const CommandResult run = command("bench reduce --mebibytes 1 --repetitions 1 --json");
  CHECK(run.status == 0);
  const auto result = nlohmann::json::parse(run.output);
  CHECK(result.at("rows").size() >= 7);
  for (const auto& row : result.at("rows")) CHECK(row.at("share_of_copy").get<double>() > 0);
  CHECK(command_all("bench reduce --mebibytes 0").status == 2);
}

}  // namespace bench_command_test
