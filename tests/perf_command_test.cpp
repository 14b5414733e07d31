// meshbed perf as a user calls it, in the simulated world: columns, every operation, element type and reduction with
// every element checked, and what is refused. (tests/coll/types_test.cpp has all of them together, without a network.)
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "testbed/workload/collective.h"
#include "tests/support/command.h"

namespace perf_command_test {

using namespace meshbed;
using namespace meshbed::testbed;
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

// nccl-tests 2.19.6: "all" is -1 (src/common.h, ncclstringtotype and ncclstringtoop, lines 278-302), each root of each
// reduction of each type a sweep of its own, types outermost (src/reduce.cu, lines 101-107).
TEST_CASE("all types, all reductions and all roots are a sweep each, in nccl-tests' order") {
  const CommandResult result =
      perf("reduce -d all -o all -r -1 -b 1K -e 1K -n 1 --json --scenario " + scenario_file("pair") + " 2> /dev/null");
  REQUIRE(result.status == 0);
  const auto rows = nlohmann::json::parse(result.output).at("rows");
  REQUIRE(rows.size() == 10 * 5 * 2);  // reducible types, reductions, roots
  CHECK(rows.at(0).at("type") == "int8");
  CHECK(rows.at(0).at("redop") == "sum");
  CHECK(rows.at(1).at("root") == 1);
  CHECK(rows.at(2).at("redop") == "prod");
  CHECK(rows.at(10).at("type") == "uint8");
  CHECK(rows.at(99).at("type") == "bfloat16");
  for (const auto& row : rows) CHECK(row.at("in_place").at("wrong") == 0);

  const CommandResult moved =
      perf("broadcast -d all -o all -r all -b 1K -e 1K -n 1 --scenario " + scenario_file("pair"));
  CHECK(moved.status == 0);
  CHECK(has(moved, "f8e5m2    none       1 "));
  CHECK(has(moved, "# -o all is one sweep: broadcast does not reduce\n"));
  const CommandResult rootless = perf("all_reduce -d all -r -1 -b 1K -e 1K -n 1 --scenario " + scenario_file("pair"));
  CHECK(has(rootless, "# -d all leaves out f8e4m3 and f8e5m2, which are moved, never reduced\n"));
  CHECK(has(rootless, "# -r -1 is one sweep: all_reduce has no root\n"));
}

// BenchTime of src/common.cu, from line 694: a time is that of all, over iterations, aggregated operations and graph
// launches; -z 1 and 2 wait for each operation, -z 3 leaves its barriers out.
TEST_CASE("operations that follow each other as nccl-tests has them are right, and none is slower than alone") {
  const auto time_of = [](const std::string& words) {
    const CommandResult result = perf("all_reduce -b 64K -e 64K -n 4 --json " + words + " --scenario " +
                                      scenario_file("spark-triangle") + " 2> /dev/null");
    REQUIRE_MESSAGE(result.status == 0, words, result.output);
    const auto summary = nlohmann::json::parse(result.output);
    CHECK(summary.at("wrong") == 0);
    CHECK(summary.at("checked") > 0);
    return summary.at("rows").at(0).at("in_place").at("time_ns").get<double>();
  };
  const double alone = time_of("");
  CHECK(time_of("-z 3") == alone);
  CHECK(time_of("-z 1") == alone);  // a barrier takes no time here
  const double own = time_of("-z 2"), queued = time_of("-z 0");
  CHECK(own <= alone);
  CHECK(queued == own);  // to start an operation takes no time here
  CHECK(time_of("-m 3") <= alone);
  CHECK(time_of("-z 0 -m 3") <= queued);
  CHECK(time_of("-G 2") <= queued);
  CHECK(time_of("-R 1") == alone);
  const CommandResult unchecked = perf("all_reduce -b 64K -e 64K -z 2 -c 0 --scenario " + scenario_file("pair"));
  CHECK(unchecked.status == 0);
  CHECK(has(unchecked, "# Out of bounds values : N/A (not checked)\n"));
}

TEST_CASE("cycles print every size again, and -I the fastest and the slowest iteration") {
  const CommandResult result = perf("all_reduce -b 8 -e 16 -f 2 -N 3 -n 3 -w 0 -I 1 -K 1 --json --scenario " +
                                    scenario_file("pair") + " 2> /dev/null");
  REQUIRE(result.status == 0);
  const auto rows = nlohmann::json::parse(result.output).at("rows");
  REQUIRE(rows.size() == 6);
  CHECK(rows.at(2).at("size") == 8);
  const CommandResult table = perf("all_reduce -b 8 -e 8 -n 3 -w 0 -I 1 --scenario " + scenario_file("pair"));
  CHECK(has(table, "#wrong    i_min    i_max    i_p99    i_cv%     time "));
}

TEST_CASE("-J writes nccl-tests' JSON of version 3, and leaves a file alone that is there") {
  const std::string folder = scratch_folder("perf-json"), file = folder + "/perf.json";
  const std::string words = "all_reduce -b 1K -e 4K -f 4 -n 2 -w 1 -I 1 -J " + file + " --scenario ";
  const CommandResult result = perf(words + scenario_file("spark-triangle"));
  REQUIRE(result.status == 0);
  CHECK(has(result, "# Writing JSON output to " + file + "\n"));
  // src/util.cu at 2.19.6: version 356, config 643-666, devices 440-451, rows 454-517 and 559-600, footer 771-795.
  const auto json = nlohmann::ordered_json::parse(run_command_line("cat " + file).output);
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::string text;
    for (const auto& [key, value] : object.items()) text += key + " ";
    return text;
  };
  CHECK(keys(json) ==
        "version start_time args env nccl_version config results out_of_bounds average_bus_bandwidth errors end_time ");
  CHECK(json.at("version") == 3);
  CHECK(
      keys(json.at("config")) ==
      "nthreads ngpus minimum_bytes maximum_bytes step_factor warmup_iters iterations aggregated_iterations validation "
      "graph blocking_collectives per_iter_timing per_iter_skip parallel_init devices ");
  CHECK(json.at("config").at("per_iter_timing") == "true");  // a text
  REQUIRE(json.at("config").at("devices").size() == 3);
  CHECK(keys(json.at("config").at("devices").at(0)) == "rank group pid hostname device device_hex device_info ");
  CHECK(json.at("config").at("devices").at(2).at("hostname") == "node2");
  REQUIRE(json.at("results").size() == 2);
  const auto& row = json.at("results").at(1);
  CHECK(keys(row) ==
        "size count type redop root out_of_place out_of_place_per_iter in_place in_place_per_iter actual_iterations "
        "experiment_name ");
  CHECK(row.at("size") == 4096);
  CHECK(row.at("root") == "    -1");
  CHECK(keys(row.at("in_place")) == "time alg_bw bus_bw nwrong ");
  CHECK(row.at("in_place").at("nwrong") == 0.0);
  CHECK(keys(row.at("in_place_per_iter")) ==
        "skipped_iterations min_us max_us avg_us p50_us p95_us p99_us stdev_us cv_pct times_us ");
  CHECK(row.at("in_place_per_iter").at("times_us").size() == 2);
  CHECK(json.at("out_of_bounds").at("okay") == "true");
  CHECK(json.at("average_bus_bandwidth").at("okay") == "unchecked");
  CHECK(json.at("errors") == nlohmann::ordered_json::array({""}));

  const CommandResult again = perf(words + scenario_file("spark-triangle"));
  CHECK(has(again, "# Writing JSON output to " + file + ".0\n"));
  CHECK(perf("all_reduce -b 8 -e 8 -J " + folder + "/x.txt --scenario " + scenario_file("pair") + " 2>&1").status == 2);
}

TEST_CASE("-J leaves no empty file of a run that did not come to be, and a rank in a node says nothing of its own") {
  const std::string folder = scratch_folder("perf-json-none"), words = " -J '" + folder + "/perf.json' --scenario ";
  const CommandResult large = perf("all_reduce -b 1000000G -e 1000000G" + words + scenario_file("pair") + " 2>&1");
  CHECK_MESSAGE(large.status == 2, large.output);
  CHECK(has(large, "# Writing JSON output to "));
  // Alone, as rank 0 without peers, it ends soon: without RDMA devices, or without its peer.
  const CommandResult node = run_command_line(
      "MESHBED_WORLD_NAME=emu RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 " + meshbed_program() +
      " perf all_reduce -b 8 -e 8 --world metal --time-limit 1" + words + scenario_file("pair") + " 2>&1");
  CHECK_MESSAGE(node.status != 0, node.output);
  CHECK(has(node, "world emu"));
  CHECK_FALSE(has(node, "# Writing JSON output"));
  CHECK(run_command_line("ls '" + folder + "'").output.empty());
}

TEST_CASE("perf passes over memory = gpu and says so") {
  const CommandResult result = perf("all_reduce -b 1K -e 1K -n 1 --scenario " + scenario_file("triangle-gpu"));
  CHECK(result.status == 0);
  CHECK(has(result, "# memory = \"gpu\" is passed over: perf's buffers are host memory\n"));
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
  refused("-r 4", "-r 4: the scenario has ranks 0 to 3; -1 or all: each of them");
  refused("-z 4", "-z 4: 0, 1, 2 or 3");
  refused("-m 0", "-m");
  refused("-N 0", "-N 0: cycles without end would never come to a digest");
  refused("-R 2", "-R 2: 0 or 1; symmetric windows (2) are for kernels that write into each other's memory");
  refused("-G 2 -z 3", "-z 3 with -G 2: a graph's operations follow each other without a wait");
  refused("-K 1", "-K leaves iterations out of -I 1");
  refused("-K 2", "-K 2: less than the 2 of -n");
  refused("-n 0", "-n 0: at least 1");
  refused("-G 100001", "-G 100001: 0 to 100000");
  refused("-n 11 -G 10000 -m 100", "-n 11 -G 10000 -m 100: together more than 10000000 operations of a size");
  refused("-n 2000000000 -m 100000", "-n 2000000000 -G 0 -m 100000: together more than 10000000");
  refused("-J sweep.txt", "-J sweep.txt: what is written follows from the suffix, and only .json is known");
}

TEST_CASE(
    "an option of nccl-tests' that can mean nothing here is answered by its name, or noted where it is harmless") {
  const auto answer = [](const std::string& words) {
    return perf("all_reduce -b 8 -e 8 -n 1 --scenario " + scenario_file("pair") + " " + words + " 2>&1");
  };
  for (const char* words : {"-T 5", "-C 1", "-S 1", "-a 1", "-x 1", "-D 1", "-V 8", "-M 1", "-u 1"}) {
    const CommandResult result = answer(words);
    CHECK_MESSAGE(result.status == 2, words);
    CHECK_MESSAGE(has(result, std::string(words) + ": "), result.output);
  }
  for (const char* words : {"-p 1", "-y 1"}) {
    const CommandResult result = answer(words);
    CHECK_MESSAGE(result.status == 0, words);
    CHECK_MESSAGE(has(result, std::string("# ") + words + " changes nothing: "), result.output);
  }
  CHECK(answer("-T 0 -C 0 -S 0 -a 3 -D 0 -M 0 -u 0 -p 0 -y 0 -G 0 -R 0 -z 0 -m 1 -N 1").status == 0);
}

}  // namespace perf_command_test
