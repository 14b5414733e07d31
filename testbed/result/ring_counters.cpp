#include "testbed/result/ring_counters.h"

namespace meshbed::testbed::document {

std::vector<Field> ring_counter_fields() {
  return {integer("gpu_idle_ppm", "1e-6", "share of the slots without work"),
          integer("frontier_density_bps", "1e-4", "share of the slots that wait or run"),
          integer("occupancy_proxy_bps", "1e-4", "share of the slots that hold work"),
          integer("drained_slots", "", "slots that are done"),
          integer("unreclaimed_done_slots", "", "of those, slots that the host has not taken back"),
          integer("tenant_fairness_total", "", "fairness counters of the tenants, their sum"),
          integer("tenant_fairness_skew", "", "the largest of them less the smallest that is not 0"),
          integer("priority_fairness_total", "", "fairness counters of the priorities, their sum")};
}

std::vector<Value> ring_counter_values(const ring::RuntimeCounters& counters) {
  return {counters.gpu_idle_ppm,         counters.frontier_density_bps, counters.occupancy_proxy_bps,
          counters.drained_slots,        counters.unreclaimed_done,     counters.tenant_fairness,
          counters.tenant_fairness_skew, counters.priority_fairness};
}

}  // namespace meshbed::testbed::document
