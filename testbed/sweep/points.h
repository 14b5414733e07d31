#pragma once
// Sweep points: the variants of a scenario that a sweep runs. Pure functions of values; any thread.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed::sweep {

/// A field that a sweep varies. The key "fault" adds a fault: its values are [KIND,target=TARGET,...] or none.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};
/// The scenario files whose machines a sweep puts in place of its own (kCablingKey).
std::vector<std::string> cabling_files_of(const std::vector<Axis>& axes);
/// "workload.bytes=64K,4M". Commas in brackets, braces and quotes do not separate values. Throws std::runtime_error.
Axis parse_axis(const std::string& text);

/// One value for each axis.
using Values = std::vector<std::string>;
/// The Cartesian product, the last axis fastest; or, with `zip`, the first values of all axes, the second ones, ....
/// Throws std::runtime_error above `points_max`, and if axes to be zipped differ in length.
std::vector<Values> combine(const std::vector<Axis>& axes, bool zip, std::size_t points_max);
/// Axes and their values from CSV: a line of keys, then a line of values for each point. Throws std::runtime_error with
/// the line's number.
std::pair<std::vector<Axis>, std::vector<Values>> read_points(const std::string& csv, const std::string& path);

/// What makes a variant of a scenario: keys and values as --set takes them. The key kAddedFault adds a fault, as
/// --fault takes it.
using Changes = std::vector<std::pair<std::string, std::string>>;
inline constexpr const char* kAddedFault = "fault.+";
Changes changes_of(const std::vector<Axis>& axes, const Values& values);

enum class Fail { kNothing, kEachCable, kEachNic, kEachNode, kPairs };
/// "each-cable", "each-nic", "each-node", "pairs"; throws std::runtime_error for anything else.
Fail parse_fail(const std::string& text);

/// Something that is taken out of a cluster.
struct Failure {
  std::string name;  // "node0-node1", "node0/rocep1s0f0"; of two cables both, joined by " + "
  Changes removed;   // as if it had never been there; a node takes its ranks with it
  Changes at_time;   // taken away during the run
};
/// Each cable, NIC or node, or each pair of cables, in the cluster's order. The link of a NIC to a switch counts as a
/// cable: "node0-switch0", of several NICs "node0/rocep1s0f0-switch0". `at` is a time, as "2ms"; it is used by
/// `at_time` alone.
std::vector<Failure> failures_of(const Scenario& scenario, Fail fail, const std::string& at);

}  // namespace meshbed::testbed::sweep
