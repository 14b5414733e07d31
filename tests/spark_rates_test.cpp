// Sparks and rails against what people measured; congestion that a run assumes away.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"

namespace spark_rates_test {

using namespace meshbed::test;

namespace {

nlohmann::json run(const std::string& arguments) {
  const std::string results = scratch_folder("spark_rates");
  const CommandResult result = run_command_line(meshbed_program() + " run " + arguments +
                                                " --no-trace --json --results '" + results + "' 2>/dev/null");
  CHECK_MESSAGE(result.status == 0, arguments);
  return nlohmann::json::parse(result.output);
}

/// The ring of four with other nodes, rails and collective.
std::string sparks(const std::string& kind_nodes_rails, const std::string& collective) {
  return scenario_file("spark-ring4") + " --set workload.collective=" + collective + " --set expect.min_busbw_GBps=0 " +
         kind_nodes_rails;
}

}  // namespace

TEST_CASE("Sparks reach the published plateaus within 10 %, and no more than their PCIe links carry") {
  // Two functions with 98.04 Gb/s of ib_write_bw each (route179): 24.51 GB/s a node; collectives come to 24.2.
  constexpr double kMostGBps = 2 * 98.04 / 8;
  struct Published {
    const char* machine;
    const char* options;
    const char* collective;
    double GBps;
  };
  const Published published[] = {
      {"pair, one cable: route179", "--set topology.nodes=2 --set topology.rails=2", "all_gather", 24.20},
      {"pair, two cables: about 24 GB/s a node", "--set topology.nodes=2 --set topology.rails=4", "all_gather", 24.0},
      // No plateau of a triangle on both functions is published; that of a node is the same in a ring.
      {"triangle: a node's", "--set topology.nodes=3", "all_gather", 24.20},
      {"ring of four: sircl", "", "all_gather", 24.20},
      {"ring of four: sircl", "", "all_reduce", 24.34},
  };
  for (const Published& each : published) {
    CAPTURE(each.machine);
    const nlohmann::json summary = run(sparks(each.options, each.collective));
    const double busbw = summary.at("busbw_GBps");
    CHECK(busbw >= 0.9 * each.GBps);
    CHECK(busbw <= kMostGBps);
    CHECK(summary.at("wrong") == 0);
    for (const auto& proof : summary.at("proofs")) CHECK_MESSAGE(proof.at("ok") == true, proof.dump());
  }
}

TEST_CASE("both functions of one port in one subnet carry about 24 GB/s, one function 12 to 13, on either fabric") {
  const std::string pair = scenario_file("spark-pair-one-subnet") + " --set expect.min_busbw_GBps=0";
  for (const char* fabric : {" --fabric chunk", " --fabric fluid"}) {
    CAPTURE(fabric);
    const nlohmann::json both = run(pair + " --set workload.bytes=16M" + fabric);
    CHECK(both.at("busbw_GBps").get<double>() >= 0.9 * 24.2);
    CHECK(both.at("busbw_GBps").get<double>() <= 2 * 98.04 / 8);
    const nlohmann::json one = run(pair + " --set workload.bytes=16M --set environment.NCCL_IB_HCA==rocep1s0f0" +
                                   " --set expect.max_over_bound=2.2" + fabric);
    CHECK(one.at("busbw_GBps").get<double>() >= 11.8);
    CHECK(one.at("busbw_GBps").get<double>() <= 13);
    // A port of 100 Gb/s has no more for two functions than for one.
    const nlohmann::json slow = run(pair + " --set workload.bytes=16M --set topology.rate=100Gb/s" + fabric);
    CHECK(slow.at("busbw_GBps").get<double>() <= 12.5);
    CHECK(slow.at("over_bound").get<double>() < 1.03);
  }
}

TEST_CASE("one PCIe link of half the width costs at least what it lacks") {
  // ASUS Ascent GX10 whose second link came up x2 (forums.developer.nvidia.com/t/367853). Stripes are cut by the ports'
  // rates, of which the PCIe link says nothing: half of the data goes over a quarter of the lanes.
  const nlohmann::json half = run(scenario_file("spark-pair-two-cables") +
                                  " --set node.node1.pcie.pcie1.rate=50Gb/s --set expect.min_busbw_GBps=11.8 --set "
                                  "expect.max_over_bound=1.6");
  CHECK(half.at("busbw_GBps").get<double>() <= 0.75 * 2 * 98.04 / 8);
}

TEST_CASE("four ranks on four rails use four rails, each by its own NIC") {
  const std::string unstriped = scenario_file("rails-four-gpus") + " --set environment.NCCL_MESH_STRIPE_BYTES=0";
  CHECK(run(unstriped).at("over_bound").get<double>() < 1.1);
  const nlohmann::json first = run(unstriped + " --set workload.channel_devices=[0] --set expect.max_over_bound=5");
  CHECK(first.at("over_bound").get<double>() > 4);  // as all ranks did before GPUs had places
}

TEST_CASE("ranks meet where rank 0 is, whichever node that is") {
  const nlohmann::json summary =
      run(scenario_file("pair") + " --set workload.placement=[\\\"node1\\\",\\\"node0\\\"," +
          "\\\"node1\\\"] --set workload.bytes=3M --set workload.algorithm=auto --set " + "expect.max_over_bound=10");
  CHECK(summary.at("ranks") == 3);
  CHECK(summary.at("wrong") == 0);
}

TEST_CASE("a run with oversubscribed ports says what it assumes, and by how much") {
  const std::string incast = scenario_file("switch16") +
                             " --set topology.nodes=4 --set workload.collective=gather --set workload.bytes=1M --set "
                             "workload.algorithm=auto --set expect.max_over_bound=100";
  const nlohmann::json summary = run(incast);
  REQUIRE(summary.at("congestion").is_object());
  const auto& port = summary.at("congestion").at("ports").at(0);
  CHECK(port.at("name") == "switch0>node0/rocep1s0f0");
  CHECK(port.at("oversubscribed").get<double>() == doctest::Approx(3));
  CHECK(port.at("rate_bps") == 100'000'000'000);
  CHECK(run(scenario_file("spark-triangle")).at("congestion").is_null());
  const CommandResult text = run_command_line(meshbed_program() + " run " + incast + " --no-trace --results '" +
                                              scratch_folder("spark_rates_text") + "' 2>&1");
  CHECK(text.output.find("a lossless network without pause frames is assumed") != std::string::npos);
  CHECK(text.output.find("  switch0>node0/rocep1s0f0: up to 3.00 times its 100 Gb/s\n") != std::string::npos);
}

}  // namespace spark_rates_test
