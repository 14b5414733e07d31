#include "plugin/ring/telemetry/policy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {
namespace {

constexpr std::uint16_t kSparseBps = 500, kDenseBps = 4'000, kMemoryBps = 8'500, kHysteresisBps = 250;
constexpr std::uint32_t kFusionEdges = 65'536;
constexpr std::uint32_t kHotOpcodes = 8, kHotWindows = 4;
constexpr std::uint32_t kJitQueue = 4'096;
constexpr std::uint32_t kPriorityAge = 32;
constexpr std::uint64_t kHitCapacityMin = 1'024, kHitMultiplier = 2, kScratchBytesPerHit = 16;
constexpr std::uint64_t kSaturatedWaves = 4;
constexpr std::uint32_t kOccupancyDivisor = 256, kDispatchMax = 1'024;
constexpr std::uint32_t kPowerfulInvocations = 4'096, kPowerfulGroups = 64;
constexpr std::uint64_t kShedBaseBps = 2'500, kShedRangeBps = 1'500;
constexpr std::uint32_t kSparseWorkersMin = 32;

constexpr std::array<std::pair<Topology, const char*>, 6> kTopologies{{
    {Topology::kEmpty, "empty"},
    {Topology::kMemoryConstrained, "memory-constrained"},
    {Topology::kSparseFrontier, "sparse-frontier"},
    {Topology::kHybridFrontier, "hybrid-frontier"},
    {Topology::kDenseFrontier, "dense-frontier"},
    {Topology::kFusedDense, "fused-dense"},
}};

bool fits_word(std::uint64_t value) { return value <= std::numeric_limits<std::uint32_t>::max(); }

std::uint16_t density_of(const LaunchRequest& request) {
  if (request.frontier_density_bps != 0 || request.queue_length == 0 || request.graph_node_count == 0) {
    return request.frontier_density_bps;
  }
  const std::uint64_t queued = std::min(request.queue_length, request.graph_node_count);
  return static_cast<std::uint16_t>(std::clamp<std::uint64_t>(queued * kBps / request.graph_node_count, 1, kBps));
}

std::uint16_t pressure_of(const LaunchRequest& request) {
  const std::uint64_t budget_bytes = request.device_memory_budget_bytes;
  if (request.memory_pressure_bps != 0 || budget_bytes == 0) return request.memory_pressure_bps;
  __extension__ using Wide = unsigned __int128;
  const Wide share = static_cast<Wide>(request.resident_device_bytes) * kBps / budget_bytes;
  return static_cast<std::uint16_t>(std::min<Wide>(share, kBps));
}

/// The signs by which the policy distinguishes kinds of work.
struct Signs {
  std::uint32_t queue = 0;
  std::uint16_t density_bps = 0, pressure_bps = 0;
  bool fusible = false;  // edges enough, and something is hot
  bool has_graph = false;
};

Topology raw_topology(const Signs& signs) {
  if (signs.queue == 0) return Topology::kEmpty;
  if (signs.pressure_bps >= kMemoryBps) return Topology::kMemoryConstrained;
  if (signs.density_bps <= kSparseBps) return Topology::kSparseFrontier;  // 0, which is unknown, too
  if (signs.density_bps < kDenseBps) return Topology::kHybridFrontier;
  return signs.has_graph && signs.fusible ? Topology::kFusedDense : Topology::kDenseFrontier;
}

/// A topology is left only when its bound has been passed by the hysteresis.
Topology steady_topology(const Signs& signs, Topology previous) {
  const Topology raw = raw_topology(signs);
  if (raw == Topology::kEmpty || raw == Topology::kMemoryConstrained) return raw;
  const bool rises = raw == Topology::kDenseFrontier || raw == Topology::kFusedDense;
  const bool still_dense = raw == Topology::kHybridFrontier && signs.density_bps >= kDenseBps - kHysteresisBps;
  switch (previous) {
    case Topology::kEmpty:
      return raw;
    case Topology::kMemoryConstrained:
      return signs.pressure_bps >= kMemoryBps - kHysteresisBps ? previous : raw;
    case Topology::kSparseFrontier:
      return signs.density_bps <= kSparseBps + kHysteresisBps ? previous : raw;
    case Topology::kHybridFrontier:
      if (raw == Topology::kSparseFrontier && signs.density_bps >= kSparseBps - kHysteresisBps) return previous;
      return rises && signs.density_bps <= kDenseBps + kHysteresisBps ? previous : raw;
    case Topology::kDenseFrontier:
      return still_dense ? previous : raw;
    case Topology::kFusedDense:
      return still_dense && signs.fusible ? previous : raw;
  }
  return raw;
}

std::uint32_t scaled_workers(const LaunchRequest& request, Topology topology, const Signs& signs) {
  const std::uint64_t wanted = request.requested_worker_groups;
  if (wanted <= 1) return request.requested_worker_groups;
  if (topology == Topology::kMemoryConstrained && signs.pressure_bps != 0) {
    const std::uint64_t over =
        std::min<std::uint64_t>(signs.pressure_bps > kMemoryBps ? signs.pressure_bps - kMemoryBps : 0, kShedRangeBps);
    const std::uint64_t shed_bps = kShedBaseBps + over * kShedBaseBps / kShedRangeBps;
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(wanted * (kBps - shed_bps) / kBps, 1));
  }
  if (topology == Topology::kSparseFrontier && signs.has_graph && signs.density_bps != 0) {
    const std::uint64_t share = std::min(signs.density_bps, kSparseBps);
    const std::uint64_t least = std::min<std::uint64_t>(wanted, kSparseWorkersMin);
    return static_cast<std::uint32_t>(std::max(wanted * share / kSparseBps, least));
  }
  return request.requested_worker_groups;
}

std::uint32_t groups_of(const LaunchRequest& request, std::uint32_t workers) {
  const std::uint32_t limit = request.max_workgroups_per_dimension;
  if (workers != 0) return std::min(workers, limit);
  const std::uint32_t least = request.max_invocations_per_workgroup >= kPowerfulInvocations ? kPowerfulGroups : 1;
  return std::min(std::max(std::clamp<std::uint32_t>(limit / kOccupancyDivisor, 1, kDispatchMax), least), limit);
}

QueuePressure queue_pressure(const LaunchRequest& request, std::uint64_t lanes) {
  if (request.queue_length == 0) return QueuePressure::kEmpty;
  if (request.requeue_count > 0 || request.queue_length >= kSaturatedWaves * lanes) return QueuePressure::kSaturated;
  return request.queue_length >= lanes ? QueuePressure::kBalanced : QueuePressure::kLight;
}

/// Sets the hits to make room for, and the memory that this takes.
Result<void> make_room(const LaunchRequest& request, LaunchRecommendation& launch) {
  std::uint64_t hits = request.requested_hit_capacity;
  if (hits == 0) {
    const std::uint64_t per_item = std::max<std::uint64_t>(request.expected_hits_per_item, 1);
    const std::uint64_t expected = request.queue_length * per_item;  // of two words: fits
    const std::uint64_t multiplier = launch.memory_pressure_bps >= kMemoryBps ? 1 : kHitMultiplier;
    if (!fits_word(expected) || !fits_word(expected * multiplier)) {
      return refused("a queue of " + std::to_string(request.queue_length) + " slots with " + std::to_string(per_item) +
                     " hits each needs room for more hits than a word counts (4294967295); ask for a hit capacity");
    }
    hits = std::max(expected * multiplier, kHitCapacityMin);
  }
  launch.hit_capacity = static_cast<std::uint32_t>(hits);
  const std::uint64_t scratch_bytes = kScratchBytesPerHit * hits;
  if (request.resident_device_bytes > std::numeric_limits<std::uint64_t>::max() - scratch_bytes) {
    return refused("resident device bytes and scratch do not fit 64 bits");
  }
  launch.peak_device_bytes = request.resident_device_bytes + scratch_bytes;
  const std::uint64_t budget_bytes = request.device_memory_budget_bytes;
  if (budget_bytes != 0 && launch.peak_device_bytes > budget_bytes) {
    return refused("the launch needs " + std::to_string(launch.peak_device_bytes) + " bytes of device memory, " +
                   std::to_string(budget_bytes) + " are its budget (" + std::to_string(hits) + " hits at " +
                   std::to_string(kScratchBytesPerHit) + " bytes, beside what is resident)");
  }
  return ok();
}

}  // namespace

const char* name_of(Topology topology) {
  for (const auto& [value, name] : kTopologies) {
    if (value == topology) return name;
  }
  return "unknown";
}

const char* name_of(LaunchMode mode) { return mode == LaunchMode::kJit ? "jit" : "interpreter"; }

const char* name_of(QueuePressure pressure) {
  switch (pressure) {
    case QueuePressure::kEmpty:
      return "empty";
    case QueuePressure::kLight:
      return "light";
    case QueuePressure::kBalanced:
      return "balanced";
    case QueuePressure::kSaturated:
      return "saturated";
  }
  return "unknown";
}

std::optional<Topology> topology_named(const std::string& name) {
  for (const auto& [value, known] : kTopologies) {
    if (name == known) return value;
  }
  return std::nullopt;
}

LaunchRequest LaunchRequest::direct(std::uint32_t queue_length, std::uint32_t worker_groups,
                                    std::uint32_t max_workgroup_size_x) {
  LaunchRequest request;
  request.queue_length = queue_length;
  request.requested_worker_groups = worker_groups;
  request.max_workgroup_size_x = max_workgroup_size_x;
  request.max_workgroups_per_dimension = worker_groups;
  request.max_invocations_per_workgroup = max_workgroup_size_x;
  request.expected_hits_per_item = 1;
  return request;
}

Result<LaunchRecommendation> recommend_launch(const LaunchRequest& request) {
  if (request.max_workgroup_size_x == 0)
    return refused("max workgroup size x is 0: a workgroup has at least 1 invocation");
  if (request.max_workgroups_per_dimension == 0)
    return refused("max workgroups per dimension is 0: a launch has at least 1 workgroup");
  if (request.max_invocations_per_workgroup == 0)
    return refused("max invocations per workgroup is 0: a workgroup has at least 1 invocation");
  LaunchRecommendation launch;
  launch.frontier_density_bps = density_of(request);
  launch.memory_pressure_bps = pressure_of(request);
  launch.promote_hot_opcodes = request.hot_opcode_count >= kHotOpcodes;
  launch.promote_hot_windows = request.hot_window_count >= kHotWindows;
  const bool promotes = launch.promote_hot_opcodes || launch.promote_hot_windows;
  const Signs signs{.queue = request.queue_length,
                    .density_bps = launch.frontier_density_bps,
                    .pressure_bps = launch.memory_pressure_bps,
                    .fusible = request.graph_edge_count >= kFusionEdges && promotes,
                    .has_graph = request.graph_node_count > 0};
  launch.topology = request.previous ? steady_topology(signs, *request.previous) : raw_topology(signs);

  launch.worker_groups = groups_of(request, scaled_workers(request, launch.topology, signs));
  launch.workgroup_size_x = std::min(launch.worker_groups, request.max_workgroup_size_x);
  const std::uint64_t width = launch.workgroup_size_x;
  const std::uint64_t waves = (std::max<std::uint64_t>(request.queue_length, 1) + width - 1) / width;
  if (!fits_word(waves * width)) {
    return refused("a queue of " + std::to_string(request.queue_length) + " slots, rounded up to workgroups of " +
                   std::to_string(width) + ", has more slots than a word counts (4294967295)");
  }
  launch.slot_count = static_cast<std::uint32_t>(waves * width);
  launch.grid_x =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(waves, std::min(launch.worker_groups, kDispatchMax)));
  launch.lanes = width * launch.grid_x;
  launch.pressure = queue_pressure(request, launch.lanes);
  if (const Result<void> room = make_room(request, launch); !room) return room.error();
  const bool compiles = request.queue_length >= kJitQueue || promotes || launch.topology == Topology::kFusedDense;
  launch.mode = compiles ? LaunchMode::kJit : LaunchMode::kInterpreter;
  launch.age_priority_work = request.requeue_count > 0 || request.max_priority_age >= kPriorityAge;
  return launch;
}

}  // namespace meshbed::ring
