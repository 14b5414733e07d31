// meshbed perf as a user calls it, in the simulated world: columns, every operation, element type and reduction with
// every element checked, and what is refused. (tests/coll/types_test.cpp has all of them together, without a network.)
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/workload/collective.h"
#include "tests/support/command.h"

namespace perf_command_test {

using namespace meshbed;
using namespace meshbed::cli;
using namespace meshbed::test;

namespace {

CommandResult perf(const std::string& arguments) { return run_command_line(meshbed_program() + " perf " + arguments); }
bool has(const CommandResult& result, const std::string& text) { return result.output.find(text) != std::string::npos; }

void run_right(const std::string& operation, const std::string& type, const std::string& reduction, int root) {
  const std::string words = fmt::format("{} -d {} -o {} -r {} -b 1000 -e 3M -f 53 -n 1 -w 0 --json --scenario {}",
                                        operation, type, reduction, root, scenario_file("ring4"));
  const CommandResult result = perf(words + " 2> /dev/null");
  REQUIRE_MESSAGE(result.status == 0, words, ": ", result.output);
  const auto summary = nlohmann::json::parse(result.output);
  CHECK_MESSAGE(summary.at("wrong") == 0, words);
  CHECK_MESSAGE(summary.at("checked") > 0, words);
}

}  // namespace

TEST_CASE("perf prints nccl-tests' columns, checks every iteration and ends with the digest") {
  const CommandResult result =
      perf("all_reduce_perf -b 8 -e 64K -f 4 -n 3 --scenario " + scenario_file("spark-triangle"));
  CHECK(result.status == 0);
  CHECK(has(result, "#       size         count      type   redop    root     time   algbw   busbw  #wrong"));
  CHECK(has(result, "       32768          8192     float     sum      -1  "));
  CHECK(has(result, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "));
  CHECK(has(result, "# digest "));
}

TEST_CASE("every operation of perf is right on a ring of four and on a dual-rail pair") {
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv",
                                "reduce", "gather", "scatter"}) {
    for (const char* scenario : {"ring4", "pair-dual-rail"}) {
      const CommandResult result = perf(std::string(operation) + " -b 4 -e 3M -f 7 --json --scenario " +
                                        scenario_file(scenario) + " 2> /dev/null");
      CHECK_MESSAGE(result.status == 0, operation, " on ", scenario);
      const auto summary = nlohmann::json::parse(result.output);
      CHECK(summary.at("wrong") == 0);
      CHECK(summary.at("checked") > 0);
    }
  }
}

TEST_CASE("every operation takes every element type, and those that reduce every reduction") {
  const std::vector<std::string> types = data_type_names(), reductions = reduction_names();
  std::size_t number = 0;
  for (const std::string& operation : models::collective_names()) {
    const auto op = *models::parse_collective(operation);
    for (std::size_t index = 0; index < types.size(); ++index, ++number) {
      const auto type = static_cast<coll::DataType>(index);
      if (models::reduces(op)) {
        if (!is_reducible(type)) continue;
        run_right(operation, types[index], reductions[number % reductions.size()], static_cast<int>(number % 4));
      } else if (number % 3 == 0) {
        run_right(operation, types[index], "sum", static_cast<int>(number % 4));
      }
    }
  }
}

TEST_CASE("what perf cannot do says so: a type or a reduction that does not exist, and a sum of what is only moved") {
  const auto refused = [](const std::string& words, const std::string& error) {
    const CommandResult result = perf("reduce --scenario " + scenario_file("ring4") + " " + words + " 2>&1");
    CHECK(result.status != 0);
    CHECK_MESSAGE(has(result, error), result.output);
  };
  refused("-d flot", "-d flot: there is no such data type (did you mean \"float\"?); accepted: int8, uint8, ");
  refused("-o summ", "-o summ: there is no such reduction (did you mean \"sum\"?); accepted: sum, prod, max, min, avg");
  refused("-d f8e4m3", "-d f8e4m3: such numbers are moved, never reduced; reduce takes the wider types");
  refused("-r 4", "-r 4: the scenario has ranks 0 to 3");
}

}  // namespace perf_command_test
