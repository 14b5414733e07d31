// meshbed bench as a user calls it: what it refuses, and what its results hold. No test here checks a speed.
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

TEST_CASE("bench reduce --gpu --device: the GPU that is named, or how many there are") {
  const std::string run = "cuda run --virtual --gpu H100,GB10 " + meshbed_program() + " ";
  const std::string words = "bench reduce --gpu --mebibytes 1 --repetitions 1 --json --device ";
  const CommandResult second = command(run + words + "1");
  REQUIRE(second.status == 0);
  CHECK(nlohmann::json::parse(second.output).at("gpu") == "Meshbed simulated GB10");
  const CommandResult third = command_all(run + words + "2");
  CHECK(third.status == 2);
  CHECK_MESSAGE(third.output.find("there is no device 2; the driver has 2, counted from 0") != std::string::npos,
                third.output);
}

TEST_CASE("an option that would be ignored is refused, with what it needs or what it does not go with") {
  struct Case {
    const char* words;
    const char* says;
  };
  for (const Case& one : {
           Case{"bench reduce --device 1",
                "bench: --device says nothing without --gpu: add --gpu, or leave --device out"},
           Case{"ring bench --device 0", "ring: --device says nothing without --gpu: add --gpu, or leave --device out"},
           Case{"ring bench --repeats 5", "ring: --repeats says nothing without --gpu"},
           Case{"ring bench --gpu --slots 64", "ring: --slots says nothing beside --gpu: leave one of the two out"},
           Case{"bench planner --rails 2", "bench: --rails says nothing without --sweep"},
           Case{"bench planner --keep x.json", "bench: --keep says nothing without --sweep"},
           Case{"models --explain t4-efa --layers 3", "models: --layers says nothing without --decode"},
           Case{"models --decode --all", "models: --all says nothing without --explain"},
           Case{"models --ranks 4",
                "models: --ranks says nothing without --explain or --profile or --decode: add --explain or --profile "
                "or"},
           Case{"lint --dictionary --set seed=1", "lint: --set says nothing beside --dictionary"},
           Case{"fuzz --faults --print 3 --count 5", "fuzz: --count says nothing beside --print"},
           Case{"compare here there --results x", "compare: --results says nothing without --scenario"},
           Case{"compare here there --scenario x.toml",
                "neither here nor there is one (sim, emu, metal): leave it out"},
           Case{"emu status --set seed=1", "emu status: --set says nothing without up: leave it out"},
           Case{"emu down --layout policy-routing", "emu down: --layout says nothing without up: leave it out"},
       }) {
    const CommandResult refused = command_all(one.words);
    CAPTURE(one.words);
    CAPTURE(refused.output);
    CHECK(refused.status == 2);
    CHECK(is_one_line(refused.output));
    CHECK(refused.output.find(one.says) != std::string::npos);
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
