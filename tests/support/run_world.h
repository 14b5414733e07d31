#pragma once
// run_world: one simulation in a child process, so that tests cannot disturb one another (SimGrid allows one engine
// a process) and a deadlock is an answer. CHECK works inside; failures are counted in the parent's test.

#include <functional>
#include <string>

#include "sim/engine/world.h"

namespace meshbed::test {

struct WorldResult {
  bool checks_passed = false;  // no CHECK failed in the child, and it did not crash
  sim::OutcomeKind outcome = sim::OutcomeKind::kFinished;
  std::string waiters;  // lines of Outcome::waiters
  std::string output;   // whatever `body` and the child printed to standard error
  std::string value;    // what report() was given: lets a child hand a digest to its parent
};

/// Forks; in the child builds a World from `options`, calls set_up(world) (add processes, spawn threads) and runs it.
/// The parent CHECKs that the child's checks passed unless `expect_failure`.
WorldResult run_world(const sim::WorldOptions& options, const std::function<void(sim::World&)>& set_up,
                      bool expect_failure = false);
/// Within the child: hands text to the parent as WorldResult::value.
void report(const std::string& text);

/// `nodes` nodes in a ring (2: a pair; 1 cable a pair of neighbours), each cable its own 192.168.(100+i).0/24,
/// two NICs a node (one for the ends of a pair), rate and propagation as given; all of that once a rail.
models::Cluster ring_cluster(int nodes, std::uint64_t rate_bps = 100'000'000'000,
                             Picoseconds propagation_ps = 1 * kPicosecondsPerMicrosecond, int rails = 1);
/// `nodes` nodes with one NIC each on one switch, one subnet 192.168.100.0/24 (or /16 where it must be larger).
models::Cluster switch_cluster(int nodes, std::uint64_t rate_bps = 100'000'000'000,
                               Picoseconds propagation_ps = 1 * kPicosecondsPerMicrosecond);

/// The same with the upper half of the nodes on "switch1", 192.168.101.0/24 (at most 250 nodes), and "router0" between
/// the two: .254 in each subnet, 500 ns, ports as fast as the switches'. Every NIC has a route to the other subnet.
models::Cluster routed_cluster(int nodes, std::uint64_t rate_bps = 100'000'000'000,
                               Picoseconds propagation_ps = 1 * kPicosecondsPerMicrosecond);

}  // namespace meshbed::test
