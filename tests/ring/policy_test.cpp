// The launch policy against the golden rows of its specification, and against a second implementation of it.

#include "plugin/ring/telemetry/policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>

#include "plugin/base/prng.h"
#include "tests/ring/policy_reference.h"

namespace policy_test {

namespace {

using namespace meshbed;
using namespace meshbed::ring;

LaunchRecommendation recommended(const LaunchRequest& request) {
  const Result<LaunchRecommendation> launch = recommend_launch(request);
  REQUIRE_MESSAGE(launch.has_value(), launch.error().text);
  return *launch;
}

Topology after(Topology previous, std::uint16_t density_bps, std::uint16_t pressure_bps = 0) {
  LaunchRequest request = LaunchRequest::direct(300, 64, 256);
  request.frontier_density_bps = density_bps;
  request.memory_pressure_bps = pressure_bps;
  request.graph_node_count = 1000;
  request.graph_edge_count = 65536;
  request.hot_opcode_count = 8;
  request.previous = previous;
  return recommended(request).topology;
}

}  // namespace

TEST_CASE("golden: a short queue is sparse, light and interpreted") {
  LaunchRequest request = LaunchRequest::direct(300, 64, 256);
  request.expected_hits_per_item = 3;
  const LaunchRecommendation launch = recommended(request);
  CHECK(launch.workgroup_size_x == 64);
  CHECK(launch.slot_count == 320);
  CHECK(launch.grid_x == 5);
  CHECK(launch.lanes == 320);
  CHECK(launch.pressure == QueuePressure::kLight);
  CHECK(launch.hit_capacity == 1800);
  CHECK(launch.peak_device_bytes == 28800);
  CHECK(launch.topology == Topology::kSparseFrontier);
  CHECK(launch.mode == LaunchMode::kInterpreter);
}

TEST_CASE("golden: hot opcodes, requeued and old work") {
  LaunchRequest request = LaunchRequest::direct(8192, 64, 256);
  request.hot_opcode_count = 8;
  request.requeue_count = 1;
  request.max_priority_age = 64;
  const LaunchRecommendation launch = recommended(request);
  CHECK(launch.slot_count == 8192);
  CHECK(launch.grid_x == 64);
  CHECK(launch.pressure == QueuePressure::kSaturated);
  CHECK(launch.mode == LaunchMode::kJit);
  CHECK(launch.promote_hot_opcodes);
  CHECK(launch.topology == Topology::kSparseFrontier);
  CHECK(launch.age_priority_work);
  CHECK(launch.hit_capacity == 16384);
}

TEST_CASE("golden: a dense graph with hot windows is fused") {
  LaunchRequest request = LaunchRequest::direct(131072, 256, 256);
  request.graph_node_count = 32768;
  request.graph_edge_count = 500000;
  request.frontier_density_bps = 7500;
  request.hot_window_count = 4;
  const LaunchRecommendation launch = recommended(request);
  CHECK(launch.topology == Topology::kFusedDense);
  CHECK(launch.mode == LaunchMode::kJit);
  CHECK(launch.grid_x == 256);
  CHECK(launch.pressure == QueuePressure::kBalanced);
  CHECK(launch.hit_capacity == 262144);
}

TEST_CASE("golden: under memory pressure workers are shed") {
  LaunchRequest request = LaunchRequest::direct(16384, 128, 256);
  request.frontier_density_bps = 9000;
  request.memory_pressure_bps = 8500;
  const LaunchRecommendation launch = recommended(request);
  CHECK(launch.topology == Topology::kMemoryConstrained);
  CHECK(launch.worker_groups == 96);
  CHECK(launch.slot_count == 16416);
  CHECK(launch.grid_x == 96);
  CHECK(launch.hit_capacity == 16384);
  request.memory_pressure_bps = 10000;
  request.requested_hit_capacity = 65536;
  CHECK(recommended(request).worker_groups == 64);
  CHECK(recommended(request).hit_capacity == 65536);
}

TEST_CASE("golden: device memory and its budget") {
  LaunchRequest request = LaunchRequest::direct(1024, 64, 256);
  request.expected_hits_per_item = 4;
  request.resident_device_bytes = 1024;
  request.device_memory_budget_bytes = 65536;
  const Result<LaunchRecommendation> refused = recommend_launch(request);
  REQUIRE(!refused);
  CHECK(refused.error().text.find("needs 132096 bytes of device memory, 65536 are") != std::string::npos);

  LaunchRequest full = LaunchRequest::direct(1, 64, 256);
  full.resident_device_bytes = 900000;
  full.device_memory_budget_bytes = 1000000;
  const LaunchRecommendation launch = recommended(full);
  CHECK(launch.memory_pressure_bps == 9000);
  CHECK(launch.topology == Topology::kMemoryConstrained);
  CHECK(launch.peak_device_bytes == 916384);
}

TEST_CASE("golden: the frontier's density determines the topology") {
  LaunchRequest request = LaunchRequest::direct(300, 64, 256);
  for (const auto& [density, wanted] : {std::pair{4000, Topology::kDenseFrontier},
                                        {501, Topology::kHybridFrontier},
                                        {500, Topology::kSparseFrontier}}) {
    request.frontier_density_bps = static_cast<std::uint16_t>(density);
    CHECK(recommended(request).topology == wanted);
  }
  LaunchRequest graph = LaunchRequest::direct(90000, 256, 256);
  graph.graph_node_count = 100000;
  graph.graph_edge_count = 750000;
  graph.hot_opcode_count = 8;
  CHECK(recommended(graph).frontier_density_bps == 9000);
  CHECK(recommended(graph).topology == Topology::kFusedDense);
}

TEST_CASE("golden: sparse work takes fewer workers, and never less than 32") {
  LaunchRequest request = LaunchRequest::direct(100000, 256, 256);
  request.graph_node_count = 1000000;
  request.frontier_density_bps = 100;
  const LaunchRecommendation launch = recommended(request);
  CHECK(launch.topology == Topology::kSparseFrontier);
  CHECK(launch.worker_groups == 51);
  CHECK(launch.workgroup_size_x == 51);
  CHECK(launch.slot_count == 100011);
  CHECK(launch.grid_x == 51);
  CHECK(launch.pressure == QueuePressure::kSaturated);
  request.frontier_density_bps = 1;
  request.queue_length = 1000;
  CHECK(recommended(request).worker_groups == 32);
  CHECK(recommended(request).slot_count == 1024);
  CHECK(recommended(request).grid_x == 32);
}

TEST_CASE("golden: without a wish the device's limits decide") {
  LaunchRequest request = LaunchRequest::direct(4096, 0, 256);
  request.max_workgroups_per_dimension = 65535;
  request.max_invocations_per_workgroup = 1024;
  const LaunchRecommendation launch = recommended(request);
  CHECK(launch.worker_groups == 255);
  CHECK(launch.workgroup_size_x == 255);
  CHECK(launch.slot_count == 4335);
  CHECK(launch.grid_x == 17);
  CHECK(launch.mode == LaunchMode::kJit);
}

TEST_CASE("golden: a topology is left with hysteresis") {
  CHECK(after(Topology::kSparseFrontier, 625) == Topology::kSparseFrontier);
  CHECK(after(Topology::kSparseFrontier, 800) == Topology::kHybridFrontier);
  CHECK(after(Topology::kHybridFrontier, 375) == Topology::kHybridFrontier);
  CHECK(after(Topology::kHybridFrontier, 4125) == Topology::kHybridFrontier);
  CHECK(after(Topology::kDenseFrontier, 3875) == Topology::kDenseFrontier);
  CHECK(after(Topology::kFusedDense, 3875) == Topology::kFusedDense);
  CHECK(after(Topology::kMemoryConstrained, 2000, 8375) == Topology::kMemoryConstrained);
  CHECK(after(Topology::kMemoryConstrained, 2000, 8249) == Topology::kHybridFrontier);
}

TEST_CASE("what cannot be launched is refused with its reason") {
  const auto text = [](const LaunchRequest& request) {
    const Result<LaunchRecommendation> launch = recommend_launch(request);
    return launch ? std::string("launched") : launch.error().text;
  };
  CHECK(text(LaunchRequest::direct(1, 64, 0)) == "max workgroup size x is 0: a workgroup has at least 1 invocation");
  CHECK(text(LaunchRequest::direct(1, 0, 256)) ==
        "max workgroups per dimension is 0: a launch has at least 1 workgroup");
  LaunchRequest request = LaunchRequest::direct(1, 64, 256);
  request.max_invocations_per_workgroup = 0;
  CHECK(text(request) == "max invocations per workgroup is 0: a workgroup has at least 1 invocation");
  CHECK(text(LaunchRequest::direct(4294967295U, 64, 256)).find("more slots than a word counts") != std::string::npos);
  LaunchRequest many = LaunchRequest::direct(2147483648U, 64, 256);
  CHECK(text(many).find("more hits than a word counts") != std::string::npos);
  LaunchRequest full = LaunchRequest::direct(1, 64, 256);
  full.resident_device_bytes = ~std::uint64_t{0};
  CHECK(text(full).find("do not fit 64 bits") != std::string::npos);
}

namespace {

/// Mostly near the bounds at which the policy changes its mind.
LaunchRequest drawn(Prng& random) {
  const auto one_of = [&](std::initializer_list<std::uint64_t> bounds, std::uint64_t most) -> std::uint64_t {
    const std::uint64_t kind = random.below(4);
    if (kind == 0) return random.below(most) + random.below(2);
    if (kind == 1) return random.below(std::min<std::uint64_t>(most, 1000));
    const std::uint64_t bound = *(bounds.begin() + random.below(bounds.size()));
    return std::min(bound + random.below(3) - (bound == 0 ? 0 : 1), most);
  };
  constexpr std::uint64_t kWord = 0xffffffffU, kDoubleWord = ~std::uint64_t{0};
  const auto word = [&](std::initializer_list<std::uint64_t> bounds) {
    return static_cast<std::uint32_t>(one_of(bounds, kWord));
  };
  const auto bps = [&](std::initializer_list<std::uint64_t> bounds) {
    return static_cast<std::uint16_t>(one_of(bounds, 10000));
  };
  LaunchRequest request;
  request.queue_length = word({0, 1, 1024, 4096, 65536});
  request.requested_worker_groups = word({0, 1, 32, 64, 256});
  request.max_workgroup_size_x = word({1, 64, 256, 1024});
  request.max_workgroups_per_dimension = word({1, 256, 65535});
  request.max_invocations_per_workgroup = word({1, 1024, 4096});
  request.requested_hit_capacity = random.chance(0.7) ? 0 : word({1024, 65536});
  request.expected_hits_per_item = word({0, 1, 4});
  request.hot_opcode_count = word({0, 8});
  request.hot_window_count = word({0, 4});
  request.requeue_count = random.chance(0.7) ? 0 : one_of({1, kDoubleWord}, kDoubleWord);
  request.max_priority_age = word({0, 32});
  request.graph_node_count = word({0, 1, 65536});
  request.graph_edge_count = word({0, 65536});
  request.frontier_density_bps = bps({0, 250, 500, 750, 3750, 4000, 4250, 10000});
  request.memory_pressure_bps = bps({0, 8250, 8500, 10000});
  request.resident_device_bytes = random.chance(0.5) ? 0 : one_of({1024, 1 << 20, kDoubleWord}, kDoubleWord);
  request.device_memory_budget_bytes = random.chance(0.7) ? 0 : one_of({65536, 1 << 24, kDoubleWord}, kDoubleWord);
  if (random.chance(0.7)) request.previous = static_cast<Topology>(random.below(6));
  return request;
}

/// Which rule of the reference's a refusal is.
std::string rule_of(const std::string& text) {
  if (text.find("more slots than") != std::string::npos) return "slots";
  if (text.find("more hits than") != std::string::npos) return "hits";
  if (text.find("do not fit 64 bits") != std::string::npos) return "bytes";
  if (text.find("budget") != std::string::npos) return "budget";
  return "limits";
}

}  // namespace

TEST_CASE("100,000 random requests: two implementations agree on every field") {
  Prng random(20260526);
  std::map<std::string, int> met;
  for (int count = 0; count < 100'000; ++count) {
    const LaunchRequest request = drawn(random);
    const Result<LaunchRecommendation> launch = recommend_launch(request);
    const ReferenceLaunch wanted = reference_launch(request);
    ++met[wanted.refusal + wanted.topology];
    const std::string rule = launch ? "" : rule_of(launch.error().text);
    const bool same =
        launch ? wanted.refusal.empty() && name_of(launch->topology) == wanted.topology &&
                     name_of(launch->mode) == wanted.mode && name_of(launch->pressure) == wanted.pressure &&
                     launch->worker_groups == wanted.groups && launch->workgroup_size_x == wanted.width &&
                     launch->slot_count == wanted.slots && launch->grid_x == wanted.grid &&
                     launch->lanes == static_cast<std::uint64_t>(wanted.grid * wanted.width) &&
                     launch->hit_capacity == wanted.hits && launch->peak_device_bytes == wanted.peak &&
                     launch->frontier_density_bps == wanted.density && launch->memory_pressure_bps == wanted.memory &&
                     launch->promote_hot_opcodes == wanted.opcodes && launch->promote_hot_windows == wanted.windows &&
                     launch->age_priority_work == wanted.ages
               : rule == wanted.refusal;
    REQUIRE_MESSAGE(same, "request ", count, ": ", wanted.refusal, " ", wanted.topology, " against ",
                    launch ? name_of(launch->topology) : launch.error().text);
  }
  // Each topology was launched, and each rule refused: what was drawn reaches everything.
  for (const char* one : {"empty", "memory-constrained", "sparse-frontier", "hybrid-frontier", "dense-frontier",
                          "fused-dense", "limits"}) {
    CHECK_MESSAGE(met[one] > 100, one, ": ", met[one]);
  }
  std::map<std::string, int> refused;
  for (const auto& [what, times] : met) {
    for (const char* rule : {"slots", "hits", "bytes", "budget"}) {
      if (what.rfind(rule, 0) == 0) refused[rule] += times;
    }
  }
  for (const char* rule : {"slots", "hits", "bytes", "budget"}) CHECK_MESSAGE(refused[rule] > 0, rule);
}

}  // namespace policy_test
