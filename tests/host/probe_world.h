#pragma once
// A simulation in which each rank runs a body with its own copy of the probe.

#include <functional>
#include <string>

#include "sim/host/host.h"
#include "tests/host/probe/probe.h"
#include "tests/support/run_world.h"

namespace meshbed::test {

inline const std::string kProbePath = MESHBED_BINARY_DIR "/lib/libhost_probe.so";

using RankBody = std::function<void(const ProbeTable& probe, int rank)>;

/// The probe's copy of the current process.
inline const ProbeTable& load_probe() {
  void* handle = sim::load_for(*sim::World::current_process(), kProbePath);
  using TableFunction = const ProbeTable*();
  return *reinterpret_cast<TableFunction*>(sim::symbol_of(handle, "probe_table"))();
}

/// One rank a node, in order.
inline std::function<void(sim::World&)> probe_ranks(int ranks, const RankBody& body) {
  return [ranks, body](sim::World& world) {
    sim::install_host(world, {.libraries = {{"libprobe-by-name.so", kProbePath}}});
    for (int rank = 0; rank < ranks; ++rank) {
      auto& process = world.add_process(rank, rank, "rank" + std::to_string(rank));
      world.spawn(process, "main", [body, rank] { body(load_probe(), rank); });
    }
  };
}

inline WorldResult run_probe(const models::Cluster& cluster, int ranks, const RankBody& body,
                             bool expect_failure = false) {
  return run_world({.cluster = cluster}, probe_ranks(ranks, body), expect_failure);
}

}  // namespace meshbed::test
