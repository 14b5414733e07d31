// [models] profile: what software costs in a run, by the command line. The replay of recorded calls and the real plugin
// cost the same, both fabrics agree, the report says where each value comes from, and "ideal" changes nothing.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace software_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

CommandResult meshbed(const std::string& words) { return run_command_line(meshbed_program() + " " + words + " 2>&1"); }

json run_json(const std::string& words) {
  const std::string results = scratch_folder("software");
  const CommandResult run = run_command_line(meshbed_program() + " run " + words + " --no-trace --json --results '" +
                                             results + "' 2>/dev/null");
  REQUIRE_MESSAGE(run.status == 0, words, ": ", run.output);
  return json::parse(run.output);
}

double us_of(const json& summary) { return summary.at("time_ns").get<double>() / 1e3; }

std::string written(const std::string& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder + "/" + name) << text;
  return folder + "/" + name;
}

/// Two ranks, each of which sends `messages` of `bytes` to the other one: what an engine's sendrecv of as many slices
/// calls, as a recording.
std::string exchange(int messages, std::uint64_t bytes, int protocol) {
  std::string text = R"({"meta": {"ranks": 2, "gpus_per_node": 1, "net_devices_per_node": 1}})"
                     "\n";
  const std::string size = std::to_string(bytes);
  for (int rank = 0; rank < 2; ++rank) {
    const auto line = [&](const std::string& thread, const std::string& rest) {
      text += R"({"rank": )" + std::to_string(rank) + R"(, "thread": ")" + thread + R"(", "call": )" + rest + "}\n";
    };
    const std::string own = std::to_string(rank), other = std::to_string(1 - rank);
    line("main", R"("init", "trafficClass": -1)");
    line("main", R"("devices", "n": 1)");
    line("service", R"("listen", "listener": )" + own + R"(, "dev": 0)");
    line("service", R"("connect", "listener": )" + other + R"(, "dev": 0, "comm": 0)");
    line("service", R"("accept", "listener": )" + own + R"(, "dev": 0, "comm": 1)");
    line("progress", R"("setNetAttr", "op": -1, "algo": -1, "proto": )" + std::to_string(protocol) +
                         R"(, "send_peers": "1..1", "send_flows": "1..1", "recv_peers": "1..1", "recv_flows": "1..1")");
    for (int message = 0; message < messages; ++message) {
      const std::string receive = std::to_string(2 * message), send = std::to_string(2 * message + 1);
      line("progress",
           R"("irecv", "comm": 1, "req": )" + receive + R"(, "n": 1, "sizes": [)" + size + R"(], "tags": [0])");
      line("progress", R"("isend", "comm": 0, "req": )" + send + R"(, "size": )" + size + R"(, "tag": 0)");
    }
    for (int message = 0; message < messages; ++message) {
      for (int kind = 0; kind < 2; ++kind) {
        line("progress", R"("done", "comm": )" + std::to_string(1 - kind) + R"(, "req": )" +
                             std::to_string(2 * message + kind) + R"(, "sizes": [)" + size + "]");
      }
    }
    line("service", R"("closeSend", "comm": 0)");
    line("service", R"("closeRecv", "comm": 1)");
    line("main", R"("finalize")");
  }
  return text;
}

}  // namespace

TEST_CASE("four Sparks, 48 KiB: a run under the profile takes what the class's model says, and names each value") {
  const json summary = run_json(scenario_file("spark-ring4-decode"));
  const json& software = summary.at("software");
  CHECK(software.at("profile") == "spark-ring-nccl-graph");
  CHECK(us_of(summary) == doctest::Approx(software.at("model_us").get<double>()).epsilon(0.02));
  CHECK(software.at("error").at("held_out") == true);
  CHECK(software.at("error").at("distance") == "same class and kind");
  CHECK(software.at("error").at("of") == "class spark-ring-nccl-graph, gate unified: same class and kind");
  CHECK(software.at("error").at("low_us") < us_of(summary));
  CHECK(software.at("error").at("high_us") > us_of(summary));
  for (const char* parameter : {"launch_us", "net_ll_us", "wire_us", "nic_fraction", "ll_fraction", "reduce_GBps"}) {
    REQUIRE_MESSAGE(software.at("parameters").contains(parameter), parameter);
    CHECK_FALSE(software.at("parameters").at(parameter).at("source").get<std::string>().empty());
  }
  const CommandResult text = meshbed("run " + scenario_file("spark-ring4-decode") + " --no-trace --results '" +
                                     scratch_folder("decode") + "'");
  for (const char* line :
       {"software as of profile spark-ring-nccl-graph", "  launch_us ", "); the class's",
        "9 of 10 measurements lie within -", "class spark-ring-nccl-graph, gate unified: same class"}) {
    CHECK_MESSAGE(has(text.output, line), line, " in ", text.output);
  }
}

TEST_CASE("the same run twice has one digest; ideal is the world without a profile") {
  const std::string decode = scenario_file("spark-ring4-decode");
  const json first = run_json(decode), second = run_json(decode + " --contexts thread");
  CHECK(first.at("digest") == second.at("digest"));
  const json plain = run_json(scenario_file("ring4") + " --set workload.bytes=48K --set expect.max_over_bound=100");
  const json ideal =
      run_json(scenario_file("ring4") + " --set workload.bytes=48K --set expect.max_over_bound=100 --profile ideal");
  CHECK(plain.at("digest") == ideal.at("digest"));
  CHECK_FALSE(plain.contains("software"));
  const json bare = run_json(decode + " --profile ideal");
  CHECK(us_of(bare) < 20);
  CHECK(us_of(first) > 5 * us_of(bare));
}

TEST_CASE("a size's time is the same over fluid and chunk within 1 % where nothing contends") {
  for (const char* profile : {"spark-ring-nccl-graph", "spark-ring-sircl"}) {
    std::vector<json> rows;
    for (const char* fabric : {"fluid", "chunk"}) {
      const CommandResult swept = run_command_line(
          meshbed_program() + " perf all_reduce -b 8K -e 32M -f 16 -n 1 --json --scenario " +
          scenario_file("spark-ring4-decode") + " --profile " + profile + " --fabric " + fabric + " 2>/dev/null");
      REQUIRE(swept.status == 0);
      rows.push_back(json::parse(swept.output).at("rows"));
    }
    REQUIRE(rows.at(0).size() == 4);
    for (std::size_t row = 0; row < rows.at(0).size(); ++row) {
      const double fluid_ns = rows.at(0).at(row).at("in_place").at("time_ns").get<double>();
      const double chunk_ns = rows.at(1).at(row).at("in_place").at("time_ns").get<double>();
      CHECK_MESSAGE(std::abs(fluid_ns / chunk_ns - 1) < 0.01, profile, " ", rows.at(0).at(row).at("size").dump());
    }
  }
}

TEST_CASE("the real plugin under the engine and the replay of the same calls take the same time") {
  const std::string folder = scratch_folder("software_replay");
  const std::string pair =
      "[topology]\nkind = \"ring\"\nnodes = 2\nrate = \"200Gb/s\"\n"
      "[models]\nprofile = \"dgx-spark\"\n[workload]\n";
  // NCCL's own sends and receives are Simple between nodes; LL, which has hops of its own, is asked for. One message
  // each: the engine's slices of what is larger wait for one another, and a recording does not say so.
  struct Case {
    int messages;
    std::uint64_t bytes;
    const char* protocol;
    int mask;
  };
  for (const Case& each :
       {Case{1, 4096, "ll", 1}, {1, 4096, "auto", 4}, {1, 65536, "auto", 4}, {1, 131072, "simple", 4}}) {
    CAPTURE(each.bytes);
    const std::string engine =
        written(folder, "engine.toml",
                pair + "collective = \"sendrecv\"\nwarmup = 1\nalgorithm = \"ring\"\nprotocol = \"" + each.protocol +
                    "\"\nbytes = " + std::to_string(each.bytes * static_cast<std::uint64_t>(each.messages)) +
                    "\nslice_bytes = " + std::to_string(each.bytes) + "\n[expect]\nwrong = 0\n");
    // NCCL's LL has a flag beside each four bytes (src/include/device.h, ncclLLFifoLine), and passes its plugin both.
    const std::uint64_t sent = each.mask == 1 ? 2 * each.bytes : each.bytes;
    written(folder, "calls.jsonl", exchange(each.messages, sent, each.mask));
    const std::string replay = written(
        folder, "replay.toml", pair + "kind = \"nccl-calls\"\nrecording = \"calls.jsonl\"\n[expect]\nwrong = 0\n");
    for (const char* fabric : {"fluid", "chunk"}) {
      const double engine_us = us_of(run_json("'" + engine + "' --fabric " + fabric));
      const double replay_us = us_of(run_json("'" + replay + "' --fabric " + fabric));
      CHECK(engine_us > 4.444);  // the launch, and what follows it
      CHECK(replay_us == doctest::Approx(engine_us).epsilon(0.005));
    }
  }
}

TEST_CASE("dgx-spark is the class of Sparks that are cabled as the scenario's, for the engine and a replay alike") {
  const auto class_of = [](const std::string& scenario) {
    const json software = run_json(scenario_file(scenario) + " --profile dgx-spark").at("software");
    CHECK_FALSE(software.at("parameters").empty());
    return software.at("profile").get<std::string>();
  };
  CHECK(class_of("pair") == "spark-pair-200g");
  CHECK(class_of("spark-ring4-decode") == "spark-ring-nccl-graph");
  CHECK(class_of("nccl-calls-ring4-all-reduce") == "spark-ring-nccl-graph");
  CHECK(class_of("switch16") == "spark-switch-200g");
  const json named = run_json(scenario_file("spark-ring4-decode") + " --profile spark-ring-nccl-graph");
  CHECK(run_json(scenario_file("spark-ring4-decode") + " --profile dgx-spark").at("digest") == named.at("digest"));
  const CommandResult alone = meshbed("models --explain dgx-spark");
  CHECK(alone.status == 2);
  CHECK_MESSAGE(has(alone.output, "is what a scenario's cables make of it (spark-pair-200g, "), alone.output);
}

TEST_CASE("a link slower than its port keeps the class's rate; a run that differs from its class by more says so") {
  const std::string pair = scenario_file("pair") + " --set expect.max_over_bound=10 --set topology.rate=200Gb/s";
  const std::string spark = pair + " --set topology.functions=spark --profile spark-pair-200g";
  const auto model_us = [](const json& summary) { return summary.at("software").at("model_us").get<double>(); };
  // Behind x4 of generation 5, 0.89 of 100 Gb/s; and so with both functions, whose class it is.
  const json one = run_json(spark), both = run_json(spark + " --set topology.rails=2");
  constexpr double kClassGBps = 2 * 12.5 * 4096 / 4178 * 0.8902, kBytes = 64 << 20;
  CHECK(kBytes / us_of(both) / 1e3 == doctest::Approx(kClassGBps).epsilon(0.02));
  CHECK(kBytes / us_of(one) / 1e3 == doctest::Approx(kClassGBps / 2).epsilon(0.02));
  CHECK(us_of(both) == doctest::Approx(model_us(both)).epsilon(0.05));
  CHECK(both.at("software").at("beyond_error") == false);
  // A class whose own link is slower than its port: x4 of generation 4, whose bits hold the class's 57 Gb/s.
  const auto strix = [](int lanes) {
    std::string words = scenario_file("pair") + " --set expect.max_over_bound=10 --set topology.functions=spark" +
                        " --set topology.rate=100Gb/s --profile strix-halo-pair";
    for (const char* node : {"node0", "node1"}) {
      const std::string link = " --set node." + std::string(node) + ".pcie.pcie0.";
      words += link + "lanes=" + std::to_string(lanes) + link + "generation=4";
    }
    return words;
  };
  const json halo = run_json(strix(4));
  CHECK(us_of(halo) == doctest::Approx(model_us(halo)).epsilon(0.02));
  // One lane has not.
  const json narrow = run_json(strix(1));
  CHECK(us_of(narrow) > 3 * model_us(narrow));
  CHECK(narrow.at("software").at("beyond_error") == true);
  CHECK(narrow.at("software").at("beyond_model").get<double>() > 2);
  const CommandResult text = meshbed("run " + strix(1) + " --no-trace --results '" + scratch_folder("beyond") + "'");
  CHECK_MESSAGE(has(text.output, " slower than the class's model, more than its -"), text.output);
}

TEST_CASE("recorded calls of NCCL cost what the profile says, by the protocol that NCCL passed to its plugin") {
  const std::string scenario = scenario_file("nccl-calls-pair-all-reduce");
  const json eager = run_json(scenario + " --profile spark-ring-nccl-eager");
  const json graph = run_json(scenario + " --profile spark-ring-nccl-graph");
  CHECK(us_of(eager) > us_of(graph));  // a quarter of the rate, for some 16 MB
  CHECK(graph.at("software").at("parameters").contains("launch_us"));
  // Connections alone: no message, and so no time of theirs.
  const std::string folder = scratch_folder("software_no_message");
  written(folder, "calls.jsonl", exchange(0, 4096, 4));
  CHECK(us_of(run_json("'" +
                       written(folder, "replay.toml",
                               "[topology]\nkind = \"ring\"\nnodes = 2\n[models]\nprofile = \"spark-ring-nccl-graph\"\n"
                               "[workload]\nkind = \"nccl-calls\"\nrecording = \"calls.jsonl\"\n") +
                       "'")) == 0);
}

TEST_CASE("a profile that no run can have is refused with its reason") {
  const auto error_of = [](const std::string& words) { return meshbed("run " + words).output; };
  const std::string ring = scenario_file("ring4");
  CHECK(has(error_of(ring + " --profile spark-ring-nccl-grap"), "did you mean 'spark-ring-nccl-graph'?"));
  CHECK(has(error_of(ring + " --profile nic-hdr200"), "is of single messages"));
  CHECK(
      has(error_of(ring + " --profile l4-pcie"), "l4-pcie is of one node, whose inner links no run has; there are: "));
  CHECK(has(error_of(ring + " --profile dgx-spark-ring"), "workload.megakernel.profile"));
  CHECK(has(error_of(scenario_file("megakernel-ring8") + " --profile spark-ring-sircl"), "megakernels have times of"));
  CHECK(has(error_of(ring + " --world metal --profile spark-ring-sircl"), "--profile is the simulated world's"));
}

TEST_CASE("a collective whose ranks are all on one node spends nothing of a class's times between nodes") {
  const std::string one = "'" +
                          written(scratch_folder("software_one_node"), "one.toml",
                                  "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nbytes = \"64K\"\n"
                                  "algorithm = \"ring\"\nplacement = [\"node0\", \"node0\"]\n") +
                          "'";
  const json bare = run_json(one), priced = run_json(one + " --profile spark-ring-nccl-graph");
  CHECK(us_of(priced) == us_of(bare));
  CHECK(priced.at("software").at("parameters").empty());
}

TEST_CASE("perf says each size's time with the class's error") {
  const CommandResult swept =
      meshbed("perf all_reduce -b 48K -e 48K -n 1 --scenario " + scenario_file("spark-ring4-decode"));
  CHECK(swept.status == 0);
  CHECK(has(swept.output, "# software as of profile spark-ring-nccl-graph"));
  CHECK(has(swept.output, "bytes in place: "));
  CHECK(has(swept.output, " us ("));
}

TEST_CASE("models --decode: a step's communication for four kinds of software, each with its error") {
  const CommandResult table = meshbed("models --decode");
  CHECK(table.status == 0);
  for (const char* row : {"| NCCL, eager | `spark-ring-nccl-eager` | 68.0 us | 8.43 ms (",
                          "| NCCL, CUDA graph | `spark-ring-nccl-graph` | 114.2 us | 14.17 ms (",
                          "| one-shot, host proxy, CUDA graph | `spark-ring-oneshot` | 25.5 us | 3.17 ms (",
                          "| persistent kernels (libsircl) | `spark-ring-sircl` | 25.9 us | 3.21 ms (",
                          "class spark-ring-nccl-graph, gate unified: same class and kind |"}) {
    CHECK_MESSAGE(has(table.output, row), row, " in ", table.output);
  }
  CHECK(has(meshbed("models --decode --layers 31 --calls 1").output, "| 114.2 us | 3.54 ms ("));
  CHECK(has(meshbed("models --decode --explain spark-ring-sircl").output, "--explain has no effect with --decode"));
}

}  // namespace software_command_test
