#pragma once
// GraphSpec: a slot graph's file as its tables have it, before names are looked up. slot_graph_fields.cpp has the
// tables, slot_graph_loops.cpp writes loops out, slot_graph_arrivals.cpp draws when requests arrive.

#include <cstdint>
#include <string>
#include <vector>

#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {

inline constexpr int kGraphRanksMost = 1024;
inline constexpr int kGraphChannelsMost = 1024;

/// A slot as its table has it.
struct GraphSlotSpec : Entry {
  int rank = 0, peer = -1, channel = 0;
  std::string id, op = "compute", form = "only", from, with, to, loop, tenant, priority = "normal";
  std::vector<Located<std::string>> needs;
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  Picoseconds time_ps = 0, at_ps = 0;
  bool begins = false, on_chip = false;
  std::uint64_t iteration = 0;  // of its loop, once that is written out
};

struct GraphLoopSpec : Entry {
  std::string name;
  std::int64_t count = 0;
};

struct GraphTenantSpec : Entry {
  std::string name, priority = "normal", arrivals = "all", times;
  Picoseconds gap_ps = 0, first_ps = 0;
  std::int64_t burst = 0, seed = 1;
};

struct GraphSpec : Entry {
  int ranks = 0;
  std::vector<double> speed;
  std::vector<GraphTenantSpec> tenants;
  std::vector<GraphLoopSpec> loops;
  std::vector<GraphSlotSpec> slots;
};

/// Reports ids with ':' or '@', names that are missing or used twice, and keys that go with another arrival process.
void check_graph_names(const GraphSpec& spec, Diagnostics& diagnostics);

/// Writes each loop out: slot "a" becomes "a@0", "a@1" and so on, needs and places with them. Reports loops that do not
/// exist, slots of a loop that do not stand together on their rank, and needs of an iteration that there is not.
void expand_graph_loops(GraphSpec& spec, Diagnostics& diagnostics);

/// [tenant][request] ns after the iteration's start. Requests are iterations of the tenant's loops.
using GraphArrivals = std::vector<std::vector<std::uint64_t>>;
/// `path`: the graph's, beside which recorded arrivals are. Reports files that cannot be read or have too few times.
GraphArrivals graph_arrivals(const GraphSpec& spec, const std::string& path, Diagnostics& diagnostics);

}  // namespace meshbed::testbed
