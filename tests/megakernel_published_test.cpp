// Runs of megakernels beside published times of such kernels; docs/megakernel.md has the table.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_published_test {

using namespace meshbed::test;

namespace {

const std::string kKernel = " --set workload.megakernel.";

double run_us(const std::string& scenario, const std::string& options) {
  int status = -1;
  const nlohmann::json summary = summary_of_run(scenario, options, status, scratch_folder("megakernel-published"));
  REQUIRE(status == 0);
  CHECK(summary.at("wrong") == 0);
  return summary.at("time_ns").get<double>() / 1e3;
}

double deepep_us(int ranks, const std::string& phase, const std::string& options = "") {
  return run_us("megakernel-deepep",
                fmt::format("--set topology.nodes={}{}phase={}{}", ranks, kKernel, phase, options));
}

std::string page() { return meshbed::testbed::read_text_file(MESHBED_SOURCE_DIR "/docs/megakernel.md"); }

void expect_line(const std::string& line) {
  CHECK_MESSAGE(page().find(line) != std::string::npos, "docs/megakernel.md should have: ", line);
}

nlohmann::json summary_of(const std::string& scenario, const std::string& options = "") {
  int status = -1;
  nlohmann::json summary = summary_of_run(scenario, options, status, scratch_folder("megakernel-published"));
  REQUIRE(status == 0);
  return summary;
}

/// 99 % of those slots are not longer at it.
double p99_us(const nlohmann::json& summary, const std::string& group, const std::string& name,
              const std::string& part) {
  for (const auto& row : summary.at("rings").at("latencies")) {
    if (row.at("group") != group || row.at("part") != part || (group == "tenant" && row.at("name") != name)) continue;
    return row.at("p99_ns").get<double>() / 1e3;
  }
  FAIL("no latency of " << group << " " << name << " " << part);
  return 0;
}

/// "| what | published | run | ratio |"
void expect_row(const std::string& what, double published_us, double us, double low, double high) {
  expect_line(fmt::format("| {} | {:g} | {:.1f} | {:.2f} |", what, published_us, us, us / published_us));
  CHECK(us / published_us > low);
  CHECK(us / published_us < high);
}

/// "| what | published | run to run | ratio to ratio |"
void expect_range(const std::string& what, double published_us, double low_us, double high_us) {
  expect_line(fmt::format("| {} | {:g} | {:.1f} to {:.1f} | {:.2f} to {:.2f} |", what, published_us, low_us, high_us,
                          low_us / published_us, high_us / published_us));
}

/// As a host's proxy that takes so long for each message (its range in published notes: 0.5 to 1.5 us).
std::string by_proxy(const std::string& post) {
  std::string options;
  for (const char* each :
       {"queue=gin", "queue_depth=256", "doorbell_every=1", "put_and_signal=fused", "initiation=host"}) {
    options += kKernel + each;
  }
  return options + kKernel + "post=" + post;
}

}  // namespace

TEST_CASE("DeepEP's low-latency kernels: nothing of a run is fitted to their published times") {
  struct Row {
    int ranks;
    const char* phase;
    double us;
  };
  // deepseek-ai/DeepEP ebfe47e, README.md: "Low-latency kernels with pure RDMA".
  for (const auto& [ranks, phase, us] :
       {Row{8, "dispatch", 163}, Row{16, "dispatch", 173}, Row{8, "combine", 318}, Row{16, "combine", 329}}) {
    expect_row(fmt::format("DeepEP, {}, {} ranks", phase, ranks), us, deepep_us(ranks, phase), 0.85, 1.1);
  }
}

TEST_CASE("DeepEP over a host proxy: the published times lie in the range that a proxy's posts span") {
  for (const auto& [phase, us] : {std::pair{"dispatch", 1529}, std::pair{"combine", 709}}) {
    const double low_us = deepep_us(32, phase, by_proxy("0.5us")), high_us = deepep_us(32, phase, by_proxy("1.5us"));
    expect_range(fmt::format("DeepEP over NVSHMEM's host proxy and EFA, {}, 32 ranks", phase), us, low_us, high_us);
    CHECK(low_us < us);
    CHECK(us < 1.05 * high_us);
  }
  // Each token goes to the other node once: what a GPU sends there, without what the GPUs of a node exchange.
  const std::string leg = kKernel + "experts=2" + kKernel + "top_k=2";
  for (const auto& [phase, us] : {std::pair{"dispatch", 286.1}, std::pair{"combine", 320.7}}) {
    const double low_us = deepep_us(2, phase, leg + by_proxy("0.5us"));
    const double high_us = deepep_us(2, phase, leg + by_proxy("1.5us"));
    expect_range(fmt::format("DeepEP over NCCL's GIN proxy and EFA, {}, 2 x 8 ranks: the leg between the nodes", phase),
                 us, low_us, high_us);
    CHECK(high_us < us);
  }
}

TEST_CASE("MSCCL++'s all-reduce of 8 KiB over two nodes, and the gain of one kernel for a whole step") {
  // models/data/cal_mscclpp_ndmv4.csv: 18.42 us on 2 x 8 GPUs, 6.51 us on one node's.
  constexpr double kNode_us = 6.51, kBoth_us = 18.42;
  const double leg_us = run_us("megakernel-one-shot",
                               "--set topology.nodes=2 --set topology.rate=200Gb/s --set "
                               "workload.bytes=8K" +
                                   kKernel + "queue=fifo" + kKernel + "initiation=host");
  expect_row("MSCCL++, all-reduce of 8 KiB, 2 x 8 GPUs: one node's published 6.51 us and the leg between them",
             kBoth_us, kNode_us + leg_us, 0.8, 1.1);
  // arXiv 2512.22219: MPK is 1.0 to 1.7 times as fast as a kernel per operation.
  const auto decode_us = [](const char* initiation) {
    return run_us("megakernel-decode", kKernel + "initiation=" + initiation);
  };
  const double gain = decode_us("launch") / decode_us("host");
  expect_line(
      fmt::format("| MPK, a step's gain over a kernel per operation | 1.0 to 1.7 times | {:.2f} times | |", gain));
  CHECK(gain > 1.0);
  CHECK(gain < 1.7);
}

TEST_CASE("the five workloads take what their table says") {
  const auto us = [](const nlohmann::json& summary) { return summary.at("time_ns").get<double>() / 1e3; };
  const nlohmann::json moe = summary_of("megakernel-moe");
  expect_line(
      fmt::format("| {:.1f} us; a slot is queued for {:.0f} us (p99) |", us(moe), p99_us(moe, "all", "", "queueing")));
  const auto three_ways = [](const char* scenario, const char* format) {
    std::vector<double> token_us;
    const nlohmann::json summary = summary_of(scenario);
    for (const auto& token : summary.at("rings").at("tokens")) {
      token_us.push_back(token.at("token_ns").get<double>() / 1e3);
    }
    REQUIRE(token_us.size() == 3);
    expect_line(fmt::format(fmt::runtime(format), token_us[0], token_us[1], token_us[2]));
  };
  three_ways("megakernel-decode-tp4", "| host proxy {:.0f} us, device doorbell {:.0f}, launch per operation {:.0f} |");
  three_ways("megakernel-decode-tp4-batch8", "| {:.0f}, {:.0f}, {:.0f} us |");
  expect_line(fmt::format("| {:.1f} us |", us(summary_of("megakernel-task-graph"))));
  const nlohmann::json small = summary_of("megakernel-small-ring");
  const nlohmann::json large = summary_of("megakernel-small-ring", kKernel + "slots=0" + kKernel + "queue_depth=64");
  expect_line(fmt::format("| {:.1f} us, {} waits for a place a rank; without limits {:.1f} us |", us(small),
                          small.at("rings").at("ranks")[0].at("credit_waits").get<int>(), us(large)));
  const nlohmann::json levels = summary_of("megakernel-two-tenants");
  const nlohmann::json plain = summary_of("megakernel-two-tenants", kKernel + "kernel=plain");
  const auto p99 = [](const nlohmann::json& summary, const char* tenant) {
    return p99_us(summary, "tenant", tenant, "completion");
  };
  expect_line(
      fmt::format("p99 of `chat`, arrival to end: {:.0f} us by the priority kernel, {:.0f} us by the plain one; of "
                  "`batch` {:.0f} and {:.0f} us |",
                  p99(levels, "chat"), p99(plain, "chat"), p99(levels, "batch"), p99(plain, "batch")));
}

}  // namespace megakernel_published_test
