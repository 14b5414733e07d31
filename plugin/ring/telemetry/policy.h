#pragma once
// The launch policy of a megakernel: from the depth of a work ring and what is known of the work, how wide to launch,
// interpreted or compiled, and how many hits to make room for (vyre, commit ca35047, exact).
//
// Nomenclature
//   queue            slots that wait to be worked on
//   bps              1/10000: density of the frontier (share of the graph that is queued), pressure on device memory
//   hot              so many different opcodes or windows that compiling them pays; diversity, not heat
//   topology         what kind of work this is; it decides how the requested workers are scaled
//   groups, width    workgroups, and invocations in one; the count of groups is used as the width too
//   lanes            width x grid: invocations of one launch
//
// Pure: no state, no clock. Integer division throughout.

#include <cstdint>
#include <optional>
#include <string>

#include "plugin/base/result.h"

namespace meshbed::ring {

enum class Topology { kEmpty, kMemoryConstrained, kSparseFrontier, kHybridFrontier, kDenseFrontier, kFusedDense };
enum class LaunchMode { kInterpreter, kJit };
enum class QueuePressure { kEmpty, kLight, kBalanced, kSaturated };

/// "fused-dense", "jit", "balanced": as reports and --previous write them.
const char* name_of(Topology topology);
const char* name_of(LaunchMode mode);
const char* name_of(QueuePressure pressure);
std::optional<Topology> topology_named(const std::string& name);

struct LaunchRequest {
  std::uint32_t queue_length = 0;             // slots
  std::uint32_t requested_worker_groups = 0;  // 0: as the device's limits suggest
  std::uint32_t max_workgroup_size_x = 0;     // invocations
  std::uint32_t max_workgroups_per_dimension = 0;
  std::uint32_t max_invocations_per_workgroup = 0;
  std::uint32_t requested_hit_capacity = 0;  // hits; 0: worked out
  std::uint32_t expected_hits_per_item = 0;
  std::uint32_t hot_opcode_count = 0;
  std::uint32_t hot_window_count = 0;
  std::uint64_t requeue_count = 0;
  std::uint32_t max_priority_age = 0;  // ticks
  std::uint32_t graph_node_count = 0;
  std::uint32_t graph_edge_count = 0;
  std::uint16_t frontier_density_bps = 0;  // 0: from queue and nodes
  std::uint16_t memory_pressure_bps = 0;   // 0: from resident and budget
  std::uint64_t resident_device_bytes = 0;
  std::uint64_t device_memory_budget_bytes = 0;  // 0: no budget
  std::optional<Topology> previous;              // of the launch before: with it, topologies change with hysteresis

  /// A request of which nothing is known but the queue: limits as wide as what is asked for.
  static LaunchRequest direct(std::uint32_t queue_length, std::uint32_t worker_groups,
                              std::uint32_t max_workgroup_size_x);
};

struct LaunchRecommendation {
  Topology topology = Topology::kEmpty;
  LaunchMode mode = LaunchMode::kInterpreter;
  QueuePressure pressure = QueuePressure::kEmpty;
  std::uint32_t worker_groups = 0;
  std::uint32_t workgroup_size_x = 0;  // invocations
  std::uint32_t slot_count = 0;        // the queue, rounded up to whole workgroups
  std::uint32_t grid_x = 0;            // workgroups
  std::uint64_t lanes = 0;
  std::uint32_t hit_capacity = 0;  // hits
  std::uint64_t peak_device_bytes = 0;
  std::uint16_t frontier_density_bps = 0;
  std::uint16_t memory_pressure_bps = 0;
  bool promote_hot_opcodes = false;
  bool promote_hot_windows = false;
  bool age_priority_work = false;
};

/// Errors (kInvalidArgument): a limit of the device that is zero; a capacity, a count of slots or a number of bytes
/// that does not fit its word; more device memory than the budget ("needs N bytes ...").
Result<LaunchRecommendation> recommend_launch(const LaunchRequest& request);

}  // namespace meshbed::ring
