#include "testbed/sweep/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "sim/engine/network.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed::sweep {
namespace {

/// Splits at commas that are in no bracket, brace or quotes.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char letter : text) {
    if (quote != 0) {
      if (letter == quote) quote = 0;
    } else if (letter == '"' || letter == '\'') {
      quote = letter;
    } else if (letter == '[' || letter == '{') {
      ++depth;
    } else if (letter == ']' || letter == '}') {
      --depth;
    } else if (letter == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += letter;
  }
  return parts;
}

std::runtime_error too_many(std::size_t count, std::size_t points_max) {
  return std::runtime_error(fmt::format(
      "--vary: {} points are more than --max-points {}; vary fewer values or raise --max-points", count, points_max));
}

constexpr std::string_view kFaultKey = "fault";
constexpr std::string_view kNone = "none";

void take_down(Changes& changes, const models::Cluster& cluster, models::PortRef port) {
  const models::Node& node = cluster.nodes[static_cast<std::size_t>(port.node)];
  const models::Nic& nic = node.nics[static_cast<std::size_t>(port.nic)];
  changes.emplace_back(fmt::format("node.{}.nic.{}.link", node.name, nic.device), "down");
}

Failure failure_of(const models::Cluster& cluster, const CableLink& link, const std::string& at) {
  Failure failure{.name = link.name, .removed = {}, .at_time = {}};
  for (const models::PortRef port : link.ports) take_down(failure.removed, cluster, port);
  failure.at_time.emplace_back(kAddedFault, fmt::format("cable_down,target={},at={}", link.name, at));
  return failure;
}

Failure nic_failure(const models::Cluster& cluster, models::PortRef port, const std::string& at) {
  Failure failure{.name = sim::port_name(cluster, port), .removed = {}, .at_time = {}};
  take_down(failure.removed, cluster, port);
  failure.at_time.emplace_back(kAddedFault, fmt::format("port_down,target={},at={}", failure.name, at));
  return failure;
}

Failure both(const Failure& one, const Failure& other) {
  Failure failure = one;
  failure.name += " + " + other.name;
  failure.removed.insert(failure.removed.end(), other.removed.begin(), other.removed.end());
  failure.at_time.insert(failure.at_time.end(), other.at_time.begin(), other.at_time.end());
  return failure;
}

Failure node_failure(const Scenario& scenario, std::size_t node, const std::string& at) {
  const models::Cluster& cluster = scenario.cluster;
  Failure failure{.name = cluster.nodes[node].name, .removed = {}, .at_time = {}};
  std::string placement;
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const auto its = static_cast<std::size_t>(node_of(scenario, rank));
    if (its != node) placement += fmt::format("{}\"{}\"", placement.empty() ? "" : ", ", cluster.nodes[its].name);
  }
  failure.removed.emplace_back("workload.placement", "[" + placement + "]");
  for (std::size_t nic = 0; nic < cluster.nodes[node].nics.size(); ++nic) {
    take_down(failure.removed, cluster, {static_cast<int>(node), static_cast<int>(nic)});
  }
  failure.at_time.emplace_back(kAddedFault, fmt::format("node_kill,target={},at={}", failure.name, at));
  return failure;
}

}  // namespace

std::vector<std::string> cabling_files_of(const std::vector<Axis>& axes) {
  for (const Axis& axis : axes) {
    if (axis.key == kCablingKey) return axis.values;
  }
  return {};
}

Axis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    throw std::runtime_error("--vary " + text + ": expects KEY=VALUE,VALUE,..., as in workload.bytes=64K,4M");
  }
  Axis axis{.key = text.substr(0, equals), .values = split(std::string_view(text).substr(equals + 1))};
  for (const std::string& value : axis.values) {
    if (value.empty()) throw std::runtime_error("--vary " + text + ": a value is empty; remove the surplus comma");
  }
  return axis;
}

std::vector<Values> combine(const std::vector<Axis>& axes, bool zip, std::size_t points_max) {
  std::size_t count = 1;
  for (const Axis& axis : axes) {
    if (zip && axis.values.size() != axes.front().values.size()) {
      throw std::runtime_error(fmt::format("--zip: {} has {} values and {} has {}; give each the same number",
                                           axes.front().key, axes.front().values.size(), axis.key, axis.values.size()));
    }
    count = zip ? axis.values.size() : count * axis.values.size();
    if (count > points_max && (zip || &axis == &axes.back())) throw too_many(count, points_max);
    if (count > std::size_t{1} << 40U) throw too_many(count, points_max);
  }
  std::vector<Values> points;
  for (std::size_t index = 0; index < count; ++index) {
    Values values(axes.size());
    std::size_t rest = index;
    for (std::size_t at = axes.size(); at-- > 0;) {
      const std::vector<std::string>& all = axes[at].values;
      values[at] = zip ? all[index] : all[rest % all.size()];
      rest /= all.size();
    }
    points.push_back(std::move(values));
  }
  return points;
}

std::pair<std::vector<Axis>, std::vector<Values>> read_points(const std::string& csv, const std::string& path) {
  std::vector<Axis> axes;
  std::vector<Values> points;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < csv.size();) {
    const std::size_t end = std::min(csv.find('\n', begin), csv.size());
    std::string line = csv.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::vector<std::string> parts = split(line);
    if (axes.empty()) {
      for (const std::string& key : parts) axes.push_back({.key = key, .values = {}});
      continue;
    }
    if (parts.size() != axes.size()) {
      throw std::runtime_error(fmt::format("{}:{}: {} values for {} keys; give one for each key of the first line",
                                           path, number, parts.size(), axes.size()));
    }
    for (std::size_t at = 0; at < parts.size(); ++at) axes[at].values.push_back(parts[at]);
    points.push_back(parts);
  }
  if (points.empty()) throw std::runtime_error(path + ": expects a line of keys, then a line of values for each point");
  return {axes, points};
}

Changes changes_of(const std::vector<Axis>& axes, const Values& values) {
  Changes changes;
  for (std::size_t at = 0; at < axes.size(); ++at) {
    const std::string& value = values[at];
    if (axes[at].key != kFaultKey) {
      changes.emplace_back(axes[at].key, value);
    } else if (value != kNone) {
      const bool is_bracketed = value.size() > 2 && value.front() == '[' && value.back() == ']';
      changes.emplace_back(kAddedFault, is_bracketed ? value.substr(1, value.size() - 2) : value);
    }
  }
  return changes;
}

Fail parse_fail(const std::string& text) {
  if (text == "each-cable") return Fail::kEachCable;
  if (text == "each-nic") return Fail::kEachNic;
  if (text == "each-node") return Fail::kEachNode;
  if (text == "pairs") return Fail::kPairs;
  throw std::runtime_error("--fail " + text + ": expects each-cable, each-nic, each-node or pairs");
}

std::vector<Failure> failures_of(const Scenario& scenario, Fail fail, const std::string& at) {
  const models::Cluster& cluster = scenario.cluster;
  std::vector<Failure> failures;
  if (fail == Fail::kEachNode) {
    for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
      failures.push_back(node_failure(scenario, node, at));
    }
  } else if (fail == Fail::kEachNic) {
    for (const CableLink& link : links_of(cluster)) {
      for (const models::PortRef port : link.ports) {
        failures.push_back(nic_failure(cluster, port, at));
      }
    }
  } else if (fail != Fail::kNothing) {
    for (const CableLink& link : links_of(cluster)) failures.push_back(failure_of(cluster, link, at));
  }
  if (fail != Fail::kPairs) return failures;
  std::vector<Failure> pairs;
  for (std::size_t one = 0; one < failures.size(); ++one) {
    for (std::size_t other = one + 1; other < failures.size(); ++other) {
      pairs.push_back(both(failures[one], failures[other]));
    }
  }
  return pairs;
}

}  // namespace meshbed::testbed::sweep
