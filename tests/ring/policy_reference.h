#pragma once
// The launch policy once more, written from its specification alone and in another way: line by line as it is numbered
// there, in wide integers, every result checked for fitting its word at the end. For comparison with plugin/ring.

#include <algorithm>
#include <string>

#include "plugin/ring/telemetry/policy.h"

namespace meshbed::ring {

struct ReferenceLaunch {
  std::string refusal;  // empty: launched. Otherwise which rule: "limits", "slots", "hits", "bytes", "budget"
  std::string topology, mode, pressure;
  __extension__ __int128 groups = 0, width = 0, slots = 0, grid = 0, hits = 0, peak = 0, density = 0, memory = 0;
  bool opcodes = false, windows = false, ages = false;
};

inline ReferenceLaunch reference_launch(const LaunchRequest& r) {
  __extension__ using Wide = __int128;
  constexpr Wide kWordMost = 0xffffffffU;
  ReferenceLaunch o;
  if (r.max_workgroup_size_x == 0 || r.max_workgroups_per_dimension == 0 || r.max_invocations_per_workgroup == 0) {
    o.refusal = "limits";
    return o;
  }
  const Wide q = r.queue_length, nodes = r.graph_node_count, resident = r.resident_device_bytes;
  const Wide budget = r.device_memory_budget_bytes;
  // 1
  o.density = r.frontier_density_bps;
  if (o.density == 0 && q > 0 && nodes > 0) {
    o.density = (q < nodes ? q : nodes) * 10000 / nodes;
    if (o.density < 1) o.density = 1;
    if (o.density > 10000) o.density = 10000;
  }
  o.memory = r.memory_pressure_bps;
  if (o.memory == 0 && budget > 0 && resident > 0) {
    o.memory = resident * 10000 / budget;
    if (o.memory > 10000) o.memory = 10000;
  }
  // 2
  o.opcodes = r.hot_opcode_count >= 8;
  o.windows = r.hot_window_count >= 4;
  const bool hot = o.opcodes || o.windows, edges = r.graph_edge_count >= 65536;
  // 3
  const std::string raw = q == 0                                           ? "empty"
                          : o.memory >= 8500                               ? "memory-constrained"
                          : o.density <= 500                               ? "sparse-frontier"
                          : o.density >= 4000 && nodes > 0 && edges && hot ? "fused-dense"
                          : o.density >= 4000                              ? "dense-frontier"
                                                                           : "hybrid-frontier";
  // 4
  o.topology = raw;
  if (r.previous && raw != "empty" && raw != "memory-constrained") {
    const std::string was = name_of(*r.previous);
    const bool up = raw == "dense-frontier" || raw == "fused-dense";
    const bool stays = (was == "memory-constrained" && o.memory >= 8250) ||
                       (was == "sparse-frontier" && o.density <= 750) ||
                       (was == "hybrid-frontier" && raw == "sparse-frontier" && o.density >= 250) ||
                       (was == "hybrid-frontier" && up && o.density <= 4250) ||
                       (was == "dense-frontier" && raw == "hybrid-frontier" && o.density >= 3750) ||
                       (was == "fused-dense" && raw == "hybrid-frontier" && o.density >= 3750 && edges && hot);
    if (stays) o.topology = was;
  }
  // 5
  Wide w = r.requested_worker_groups;
  if (w > 1 && o.topology == "memory-constrained" && o.memory != 0) {
    Wide over = o.memory - 8500;
    if (over < 0) over = 0;
    if (over > 1500) over = 1500;
    w = w * (10000 - (2500 + over * 2500 / 1500)) / 10000;
    if (w < 1) w = 1;
  } else if (w > 1 && o.topology == "sparse-frontier" && nodes != 0 && o.density != 0) {
    const Wide share = w * (o.density > 500 ? 500 : o.density) / 500, floor = w < 32 ? w : 32;
    w = share > floor ? share : floor;
  }
  // 6
  const Wide dims = r.max_workgroups_per_dimension;
  Wide occupancy = dims / 256;
  if (occupancy < 1) occupancy = 1;
  if (occupancy > 1024) occupancy = 1024;
  if (r.max_invocations_per_workgroup >= 4096 && occupancy < 64) occupancy = 64;
  if (occupancy > dims) occupancy = dims;
  o.groups = w == 0 ? occupancy : (w < dims ? w : dims);
  // 7
  o.width = o.groups < r.max_workgroup_size_x ? o.groups : Wide{r.max_workgroup_size_x};
  o.slots = o.width;
  while (o.slots < q) {  // in strides, as a count of waves would overflow nothing here
    const Wide missing = (q - o.slots + o.width - 1) / o.width;
    o.slots += missing * o.width;
  }
  if (o.slots > kWordMost) {
    o.refusal = "slots";
    return o;
  }
  o.grid = o.slots / o.width;
  if (o.grid > o.groups) o.grid = o.groups;
  if (o.grid > 1024) o.grid = 1024;
  // 8
  const Wide lanes = o.grid * o.width;
  o.pressure = q == 0                                   ? "empty"
               : r.requeue_count != 0 || q >= 4 * lanes ? "saturated"
               : q >= lanes                             ? "balanced"
                                                        : "light";
  // 9
  o.hits = r.requested_hit_capacity;
  if (o.hits == 0) {
    o.hits = q * (r.expected_hits_per_item == 0 ? 1 : Wide{r.expected_hits_per_item}) * (o.memory >= 8500 ? 1 : 2);
    if (o.hits > kWordMost) {
      o.refusal = "hits";
      return o;
    }
    if (o.hits < 1024) o.hits = 1024;
  }
  o.peak = resident + 16 * o.hits;
  if (o.peak > Wide{0xffffffffffffffffU}) {
    o.refusal = "bytes";
    return o;
  }
  if (budget != 0 && o.peak > budget) {
    o.refusal = "budget";
    return o;
  }
  // 10
  o.mode = q >= 4096 || hot || o.topology == "fused-dense" ? "jit" : "interpreter";
  o.ages = r.requeue_count > 0 || r.max_priority_age >= 32;
  return o;
}

}  // namespace meshbed::ring
