// meshbed models of point-to-point matrices, calls at once and computing beside them, by the command line; and matrices
// beside what the simulated world takes for the same exchange.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command.h"

namespace exchange_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult run_meshbed(const std::string& words) {
  return run_command_line("cd '" MESHBED_SOURCE_DIR "' && " + meshbed_program() + " " + words + " 2>&1");
}

json run_json(const std::string& words) {
  const CommandResult run =
      run_command_line("cd '" MESHBED_SOURCE_DIR "' && " + meshbed_program() + " " + words + " --json 2>/dev/null");
  REQUIRE_MESSAGE(run.status == 0, words, ": ", run.output);
  return json::parse(run.output);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string file_with(const std::string& name, const std::string& text) {
  static const std::string folder = scratch_folder("exchange");  // each call of it empties the folder
  const std::string path = folder + "/" + name;
  std::ofstream(path) << text;
  return path;
}

using Matrix = std::vector<std::vector<std::uint64_t>>;

std::string csv_of(const Matrix& matrix) {
  std::string text;
  for (const auto& row : matrix) {
    for (std::size_t to = 0; to < row.size(); ++to) text += (to == 0 ? "" : ",") + std::to_string(row[to]);
    text += "\n";
  }
  return text;
}

constexpr std::uint64_t kMiB = 1 << 20;

/// Adapters of 100 Gb/s with headers and next to no software.
const std::string kBare =
    "name = \"bare\"\n"
    "description = \"adapters of 100 Gb/s, as little software as a profile may have\"\n"
    "launch_us = { value = 0.5, basis = \"guess\", source = \"this test\", range = [0.5, 1] }\n"
    "net_simple_us = { value = 0.5, basis = \"guess\", source = \"this test\", range = [0.5, 1] }\n"
    "nic_GBps = { value = 12.5, basis = \"data sheet\", source = \"this test\" }\n"
    "[match]\nclass = []\nsetup = []\nvariant = []\n"
    "[topology]\ncabling = \"switch\"\nranks_per_node = 1\ntransport = \"verbs\"\n";

}  // namespace

TEST_CASE(
    "a matrix without software costs takes what the simulated exchange takes, on a ring of four and on a switch") {
  const std::string profile = file_with("bare.toml", kBare);
  const Matrix uniform(4, std::vector<std::uint64_t>(4, 4 * kMiB));
  Matrix next(4, std::vector<std::uint64_t>(4)), across = next, one = next, gather = next, scatter = next;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    next[rank][(rank + 1) % 4] = 16 * kMiB;
    across[rank][(rank + 2) % 4] = 16 * kMiB;
    gather[rank][0] = 4 * kMiB;
    scatter[0][rank] = 4 * kMiB;
  }
  one[0][2] = 16 * kMiB;
  struct Case {
    const char* workload;  // of 16 MiB
    Matrix matrix;
  };
  for (const Case& each : {Case{"collective=alltoall", uniform}, Case{"collective=sendrecv", next},
                           Case{"collective=sendrecv --set workload.shift=2", across},
                           Case{"collective=sendrecv --set workload.shift=2 --set workload.senders=[0]", one},
                           Case{"collective=gather", gather}, Case{"collective=scatter", scatter}}) {
    const std::string matrix = file_with("matrix.csv", csv_of(each.matrix));
    for (const std::string kind : {"ring", "switch"}) {
      const json run = run_json("run scenarios/ring4-alltoall.toml --no-trace --results '" + scratch_folder("run") +
                                "' --set topology.kind=" + kind + " --set workload." + each.workload);
      const std::string cables = file_with("cables.toml", "description = \"four nodes\"\n[topology]\nkind = \"" + kind +
                                                              "\"\nnodes = 4\n[workload]\nbytes = \"1M\"\n");
      const json answer =
          run_json("models --matrix " + matrix + " --profile " + profile + " --topology " + cables).at("exchange");
      const double run_us = run.at("time_ns").get<double>() / 1e3;
      CAPTURE(each.workload);
      CAPTURE(kind);
      CHECK(answer.at("us").get<double>() == doctest::Approx(run_us).epsilon(0.02));
      CHECK(answer.at("bound_us").get<double>() < run_us);
      CHECK(answer.at("low_us").get<double>() <= answer.at("us").get<double>());
      CHECK(answer.at("high_us").get<double>() >= answer.at("us").get<double>());
    }
  }
}

TEST_CASE(
    "a matrix over a hub, a partial mesh, a router and a leaf-spine network takes what the simulated exchange takes") {
  const std::string profile = file_with("bare.toml", kBare);
  const Matrix five(5, std::vector<std::uint64_t>(5, 2 * kMiB));  // of 10 MiB
  const Matrix four(4, std::vector<std::uint64_t>(4, 2 * kMiB));  // of 8 MiB
  Matrix over_spine(8, std::vector<std::uint64_t>(8));
  for (std::size_t rank = 0; rank < 8; ++rank) over_spine[rank][(rank + 4) % 8] = 16 * kMiB;
  struct Case {
    std::string scenario;
    Matrix matrix;
    const char* busiest;
  };
  for (const Case& each :
       {Case{"scenarios/star5.toml", five, "adapters of rank 0, out"}, Case{"scenarios/partial5.toml", five, ""},
        Case{"scenarios/leaf-spine.toml", over_spine, "trunk from leaf0 to spine0"}}) {
    const json run = run_json("run " + each.scenario + " --no-trace --results '" + scratch_folder("shared") + "'");
    const json answer = run_json("models --matrix " + file_with("shared.csv", csv_of(each.matrix)) + " --profile " +
                                 profile + " --topology " + each.scenario)
                            .at("exchange");
    const double run_us = run.at("time_ns").get<double>() / 1e3;
    CAPTURE(each.scenario);
    CHECK(answer.at("us").get<double>() == doctest::Approx(run_us).epsilon(0.04));
    CHECK(answer.at("bound_us").get<double>() < run_us);
    CHECK(has(answer.at("busiest"), each.busiest));
    CHECK(answer.at("split") == false);
  }
  // Over several trunks a hash selects one for each queue pair, which no prediction knows: it is stated.
  Matrix pods(16, std::vector<std::uint64_t>(16));
  for (std::size_t rank = 0; rank < 16; ++rank) pods[rank][(rank + 4) % 16] = 4 * kMiB;
  const std::string words = "models --matrix " + file_with("pods.csv", csv_of(pods)) + " --profile " + profile;
  CHECK(has(run_meshbed(words + " --topology scenarios/fat-tree.toml").output, "a hash of flows may use fewer"));
  CHECK_FALSE(has(run_meshbed(words).output, "a hash of flows"));
}

TEST_CASE("models --matrix prints time, parts, bottleneck, bound and interval, and the same as JSON") {
  const std::string path =
      file_with("moe.csv", "# routed tokens\n0, 8M, 1K, 0\n4MiB,0,4M,1M\n\n1M,12M,0,0\n512,64K,3M,0\n");
  const std::string words = "models --matrix " + path + " --profile spark-ring-nccl-graph";
  const std::string text = run_meshbed(words).output;
  for (const char* line : {"4 ranks on 4 nodes, 34670080 bytes", "    wire ", "    relays ",
                           "bottleneck: adapters of rank 1, in, 21037056 bytes", "lower bound: 841.48 us",
                           "9 of 10 measurements lie between", "same class, other operation or setting"}) {
    CHECK_MESSAGE(has(text, line), line, " in ", text);
  }
  const json answer = run_json(words).at("exchange");
  CHECK(answer.at("topology") == "ring");
  CHECK(answer.at("relays") == 1);
  CHECK(answer.at("busiest_bytes") == 21037056);
  CHECK(answer.at("us").get<double>() > answer.at("bound_us").get<double>());
  double sum = 0;
  for (const json& part : answer.at("parts")) sum += part.at("us").get<double>();
  CHECK(sum == doctest::Approx(answer.at("us").get<double>()));
  // Another cabling: nothing is relayed on a switch.
  const json switched = run_json(words + " --topology switch").at("exchange");
  CHECK(switched.at("relays") == 0);
  CHECK(has(switched.at("basis"), "another class that passes the gates"));
  // A cable of a scenario's ring is narrower than the class's adapters.
  const json on_cables = run_json(words + " --topology scenarios/ring4.toml").at("exchange");
  CHECK(on_cables.at("busiest") == "path from node 2 to node 1");
  CHECK(on_cables.at("us").get<double>() > answer.at("us").get<double>());
}

TEST_CASE("a matrix of many ranks around a ring takes bounded time, or is refused with the limit") {
  const auto around = [](int ranks) {
    std::string row = "1K", text;
    for (int rank = 1; rank < ranks; ++rank) row += ",1K";
    for (int rank = 0; rank < ranks; ++rank) text += row + "\n";
    return "models --profile spark-ring-nccl-graph --topology ring --matrix " + file_with("many.csv", text);
  };
  CHECK(run_meshbed(around(300)).status == 0);  // more hops than are balanced
  const CommandResult refused = run_meshbed(around(1200));
  CHECK(refused.status == 2);
  CHECK_MESSAGE(has(refused.output, "400000000 at most; give fewer ranks, or --topology switch"), refused.output);
}

TEST_CASE("a matrix that is none is refused with file, line, column, cause and fix") {
  struct Case {
    const char *text, *error;
  };
  for (const Case& each :
       {Case{"0,4M\n0,x\n",
             ":2, column 2: \"x\" is not a size (it begins with no digit); write bytes as 4096, 4K or "
             "4MiB"},
        Case{"0,-1\n0,0\n", ":1, column 2: \"-1\" is not a size"}, Case{"0,4MB\n0,0\n", ":1, column 2: \"4MB\""},
        Case{"0,\n0,0\n", ":1, column 2: the cell is empty; write 0"},
        Case{"0,1,2\n# note\n0,1\n", ":3: 2 columns, and line 1 has 3"},
        Case{"0,1\n1,0\n1,1\n", ":3: more lines than the 2 columns"}, Case{"0,1,1\n1,0,1\n", ":2: 2 lines, and 3 col"},
        Case{"# nothing\n", "no line of a matrix"}, Case{"7\n", "one rank; an exchange has two or more"},
        Case{"0,2000T\n0,0\n", "more than 10^15 bytes"}, Case{"5,0\n0,5\n", "no byte for another rank"}}) {
    const CommandResult refused = run_meshbed("models --profile t4-efa --matrix " + file_with("bad.csv", each.text));
    CHECK(refused.status == 2);
    CHECK_MESSAGE(has(refused.output, each.error), each.error, " in ", refused.output);
  }
  // As a spreadsheet writes it.
  CHECK(run_meshbed("models --profile t4-efa --matrix " + file_with("marked.csv",
                                                                    "\xef\xbb\xbf"
                                                                    "0,1K\r\n1K,0\r\n"))
            .status == 0);
  const std::string good = file_with("good.csv", "0,1K\n1K,0\n");
  for (const auto& [words, error] :
       {std::pair{std::string("models --profile t4-efa --matrix /no/such.csv"), "/no/such.csv"},
        {"models --matrix " + good, "--matrix says nothing without --profile"},
        {"models --profile nic-hdr200 --matrix " + good, "needs a class with collectives"},
        {"models --profile dgx-spark-ring --matrix " + good, "it is not a class of machines"},
        {"models --profile t4-efa --topology star --matrix " + good, "it is switch, ring or mesh, or the path of"},
        {"models --profile t4-efa --bytes 4K --matrix " + good, "--bytes says nothing beside --matrix"},
        {"models --profile t4-efa --bytes 1M --collective all_reduce:4M,all_gather:4M",
         "--bytes says nothing beside --collective"},
        {"models --profile t4-efa --sms 4 --matrix " + good, "--sms says nothing beside --matrix"}}) {
    const CommandResult refused = run_meshbed(words);
    CHECK(refused.status == 2);
    CHECK_MESSAGE(has(refused.output, error), error, " in ", refused.output);
  }
}

TEST_CASE("models --at-once: each call's time and that of all, with sharing and serial inside the interval") {
  const std::string words = "models --profile spark-ring-nccl-graph --collective all_reduce:48K,all_gather:4M ";
  const json answer = run_json(words + "--at-once 2").at("at_once");
  CHECK(answer.at("calls").size() == 4);
  CHECK(answer.at("sharing_us").get<double>() <= answer.at("us").get<double>());
  CHECK(answer.at("us").get<double>() <= answer.at("serial_us").get<double>());
  CHECK(answer.at("low_us").get<double>() <= answer.at("sharing_us").get<double>());
  CHECK(answer.at("high_us").get<double>() >= answer.at("serial_us").get<double>());
  CHECK(has(answer.at("basis"), "no file has calls at once: from perfect sharing"));
  const std::string text = run_meshbed(words).output;
  CHECK(has(text, "2 calls at once, 4 ranks on 4 nodes, profile spark-ring-nccl-graph"));
  CHECK(has(text, "all_gather            4194304"));
  const std::string one = "models --profile t4-efa --bytes 1M --ranks 4 ";
  CHECK(run_json(one + "--at-once 1").at("at_once").at("us") == run_json(one).at("prediction").at("us"));
  for (const auto& [words_of, error] :
       {std::pair{"--collective all_reduce:4MB,all_gather", "--collective all_reduce:4MB"},
        {"--collective all_reduce,gathr", "there is no such collective"},
        {"--at-once 0", "--at-once"},
        {"--at-once 2 --collective ep_dispatch", "of collectives alone"}}) {
    const CommandResult refused = run_meshbed("models --profile t4-efa " + std::string(words_of));
    CHECK(refused.status == 2);
    CHECK_MESSAGE(has(refused.output, error), error, " in ", refused.output);
  }
}

TEST_CASE("models --compute --overlap: what stays exposed of a call, and what is assumed") {
  const std::string words = "models --profile spark-ring-nccl-graph --bytes 48K --compute 100us --overlap ";
  const json none = run_json(words + "0"), all = run_json(words + "1 --sms 12");
  const double us = none.at("prediction").at("us").get<double>();
  CHECK(none.at("overlap").at("exposed_us").get<double>() == us);
  CHECK(all.at("overlap").at("exposed_us").get<double>() == doctest::Approx(std::max(us - 100, us * 12 / 48)));
  CHECK(all.at("overlap").at("held_sms") == 12);
  CHECK(all.at("overlap").at("sms") == 48);  // of GB10
  const json half = run_json(words + "0.5").at("overlap");
  CHECK(half.at("exposed_us").get<double>() == doctest::Approx(us - 50));
  CHECK(half.at("exposed_low_us").get<double>() <= half.at("exposed_us").get<double>());
  CHECK(half.at("exposed_high_us").get<double>() >= half.at("exposed_us").get<double>());
  CHECK(has(run_meshbed(words + "1").output, "assumed: the kernels hold "));
  for (const auto& [words_of, error] : {std::pair{"--compute 20", "give a time as 20ms"},
                                        {"--compute 20ms --overlap 1.5", "0 to 1"},
                                        {"--compute 20ms --overlap nan", "0 to 1"},
                                        {"--overlap 1", "--overlap says nothing without --compute"},
                                        {"--compute 20ms --gpu H900", "there is no such model"},
                                        {"--compute 20ms --sms 49", "--sms"}}) {
    const CommandResult refused = run_meshbed("models --profile t4-efa --bytes 1M " + std::string(words_of));
    CHECK(refused.status == 2);
    CHECK_MESSAGE(has(refused.output, error), error, " in ", refused.output);
  }
}

TEST_CASE("models --decode --overlap: a step is never longer with it, and as before without it") {
  const std::string words =
      "models --decode --profile spark-pair-200g --layers 36 --hidden 2880 --compute 17ms --total 117 --active 5";
  const std::string none = run_meshbed(words).output, all = run_meshbed(words + " --overlap 1").output;
  CHECK(run_meshbed(words + " --overlap 0").output == none);
  CHECK(has(none, "--overlap gives the computing that hides communication"));
  CHECK(has(all, "hidden by computing"));
  CHECK(has(all, "assumed: 100 % of computing waits for no communication; kernels hold "));
  const auto step_ms = [](const std::string& text) { return std::stod(text.substr(text.find("a step ") + 7)); };
  CHECK(step_ms(all) < step_ms(none));
  CHECK(run_meshbed(words + " --overlap 2").status == 2);
  // The table of four kinds of software: a share of what is exposed, by the 4 of 48 SMs of NCCL's kernels.
  // The table has its own computing.
  const CommandResult refused = run_meshbed("models --decode --compute 17ms 2>&1");
  CHECK(refused.status == 2);
  CHECK(has(refused.output, "--compute"));
  const std::string table = run_meshbed("models --decode --overlap 1").output;
  CHECK(has(table,
            "| NCCL, CUDA graph | `spark-ring-nccl-graph` | 114.2 us | 14.17 ms (11.82 to 20.15) | 6 % (5 to 8) |"));
}

TEST_CASE("validate reads rows of calls at once by their variant, and refuses a number that is none") {
  const std::string header =
      "# topology_class: 4-node switchless ring, 200G edges\n# setup: NCCL in a CUDA graph\n"
      "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";
  const std::string path = file_with("rows.csv", header +
                                                     "all_reduce,4,4,4194304,600,,,out,concurrent2\n"
                                                     "all_reduce,4,4,4194304,330,,,out,\n"
                                                     "all_reduce,4,4,4194304,600,,,out,concurrent0\n");
  const json answer = run_json("validate " + path + " --profile spark-ring-nccl-graph");
  REQUIRE(answer.at("rows").size() == 2);
  const json& both = answer.at("rows").at(0);
  const json at_once =
      run_json("models --profile spark-ring-nccl-graph --collective all_reduce:4M --at-once 2").at("at_once");
  CHECK(both.at("predicted_us").get<double>() == doctest::Approx(at_once.at("us").get<double>()));
  CHECK(both.at("low_us").get<double>() <= at_once.at("sharing_us").get<double>());
  CHECK(both.at("high_us").get<double>() >= at_once.at("serial_us").get<double>());
  CHECK(has(both.at("basis").at("text"), "calls at once"));
  CHECK(has(run_meshbed("validate " + path + " --profile spark-ring-nccl-graph").output,
            "concurrent needs a number of calls, 1 to 1024"));
}

}  // namespace exchange_command_test
