#pragma once
// Groups: which unknown values of a machine the measured points can show, and where a search for each begins. Pure.

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "models/fit/sweep.h"

namespace meshbed::models {

struct Start {
  MachineParameter parameter;
  double value;
};

/// Parameters that make sense together only, and where to begin looking.
struct Group {
  std::vector<MachineParameter> parameters;
  std::vector<std::vector<Start>> starts;
  bool always = false;  // fitted whether it pays or not
};

/// What the sweeps hold, which decides what they can determine.
struct Evidence {
  std::set<std::tuple<bool, Collective, int, int, std::uint64_t, bool, bool, bool, bool, int, int, int>> points;
  std::set<double> step_counts;
  bool messages = false, reads = false, batches = false, streams = false, collectives = false, latencies = false;
  bool forced_ll = false, rooted = false, rootless = false;
  bool nets = false, one_node = false, shared_nodes = false, trees = false;
  bool eager = false, replayed = false, barriers = false, waves = false, pairs = false, chains = false;
  bool messages_of_calls = false, tested = false, untested = false;
  bool experts = false, dispatches = false, combines = false, through_calls = false;
  double fewest_tokens = 1e18;
  std::set<std::tuple<bool, int, int, int, double, double, double, bool>> expert_points;
  double smallest = 1e18, largest = 0;
  // How time grows with bytes at the large end, as an exponent: 0 where sizes cost the same, 1 where a byte costs what
  // a byte costs. Of the kind of messages that shows it most.
  double growth = 0;
  // Where what grows with bytes must have ended, so that the points show it: the largest part of a message that a hop
  // hands on, and the longest time.
  double largest_part = 0, longest_us = 0;
  double largest_summed = 0, largest_moved = 0, largest_gathered = 0;  // bytes of calls that sum, move, gather
};

Evidence evidence_of(const Machine& machine, const std::vector<Sweep>& sweeps);

/// NCCL's cost table chooses the algorithm of a call; no such table is known for a library's own kernels.
bool chooses_by_table(const Machine& machine);

/// In the order in which those that are always fitted join. `wire_GBps`: what a rate's search begins at.
std::vector<Group> groups_of(const Machine& machine, const Evidence& evidence, double wire_GBps);

}  // namespace meshbed::models
