#include "models/time/interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <set>
#include <vector>

namespace meshbed::models {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  constexpr double kStep = 1024;
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  constexpr std::array<const char*, 4> kUnits{"B", "KiB", "MiB", "GiB"};
  for (; value >= kStep && unit + 1 < kUnits.size(); ++unit) value /= kStep;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", value, kUnits.at(unit));
  return text.data();
}

/// Up to the `count`-th comma.
std::string parts_of(const std::string& kind, int count) {
  std::size_t at = 0;
  for (int part = 0; part < count; ++part) {
    at = kind.find(", ", part == 0 ? 0 : at + 1);
    if (at == std::string::npos) return kind;
  }
  return kind.substr(0, at);
}

/// "4 ranks on 4 nodes" of "all_reduce, 4 ranks on 4 nodes, LL".
std::string size_of_job(const std::string& kind) {
  const std::string two = parts_of(kind, 2), one = parts_of(kind, 1);
  return two == one ? "" : two.substr(one.size() + 2);
}

struct Known {
  Distance distance = Distance::kSameKind;
  double beyond = 1;
  std::string outside;
};

void add_outside(Known& known, const std::string& text) { known.outside += (known.outside.empty() ? "" : "; ") + text; }

/// What the class was fitted to beside one of `kinds`, which are the same to the model.
Known known_of(const Machine& machine, const std::vector<std::string>& kinds, std::uint64_t bytes) {
  Known known;
  if (machine.measured.empty()) {
    known.distance = Distance::kOtherRanks;
    known.outside = "the profile does not state what it was fitted to";
    return known;
  }
  std::vector<const MeasuredSizes*> near;
  for (const std::string& kind : kinds) {
    const auto same = machine.measured.find(kind);
    if (same != machine.measured.end()) near.push_back(&same->second);
  }
  if (near.empty()) {
    const std::string job = size_of_job(kinds.front());
    std::set<std::string> others, jobs;
    known.distance = Distance::kOtherOperation;
    for (const auto& [kind, sizes] : machine.measured) {
      if (size_of_job(kind) == job) near.push_back(&sizes);
      if (size_of_job(kind) == job) others.insert(kind);
      jobs.insert(size_of_job(kind));
    }
    std::string all;
    if (near.empty()) {
      known.distance = Distance::kOtherRanks;
      for (const auto& [kind, sizes] : machine.measured) near.push_back(&sizes);
      for (const std::string& each : jobs) all += (all.empty() ? "" : ", ") + each;
    } else {
      constexpr std::size_t kNamed = 3;
      std::size_t count = 0;
      for (const std::string& each : others) {
        if (count++ < kNamed) all += (all.empty() ? "" : " and ") + each;
      }
      if (count > kNamed) all += " and " + std::to_string(count - kNamed) + " more kinds";
    }
    add_outside(known, all);
  }
  std::uint64_t least = near.front()->least_bytes, most = near.front()->most_bytes;
  for (const MeasuredSizes* each : near) {
    least = std::min(least, each->least_bytes);
    most = std::max(most, each->most_bytes);
  }
  if (bytes > most) {
    known.beyond = static_cast<double>(bytes) / static_cast<double>(most);
    add_outside(known, "largest size " + bytes_text(most));
  } else if (bytes < least) {
    known.beyond = static_cast<double>(least) / static_cast<double>(std::max<std::uint64_t>(bytes, 1));
    add_outside(known, "smallest size " + bytes_text(least));
  }
  constexpr double kWithin = 2;  // a size between two of a sweep that doubles is as far from both
  if (known.distance == Distance::kSameKind && known.beyond > kWithin) known.distance = Distance::kOtherSizes;
  return known;
}

Interval made(const Machine& machine, Known known, std::uint64_t bytes, double predicted_us, Standing standing,
              const IntervalTable& table) {
  switch (standing) {
    case Standing::kOwnClass:
      break;
    case Standing::kNearClass:
      known = {.distance = Distance::kNearClass, .beyond = known.beyond, .outside = "the class itself"};
      break;
    case Standing::kUnseen:
      known = {.distance = Distance::kUnseen, .beyond = 1, .outside = "the class itself"};
      break;
    case Standing::kNoClass:
      known = {.distance = Distance::kNoClass, .beyond = 1, .outside = "the class itself"};
      break;
    case Standing::kBare:
      known = {.distance = Distance::kBare, .beyond = 1, .outside = "the class itself"};
      break;
  }
  Interval interval{.distance = known.distance,
                    .profile = machine.name,
                    .gate = gate_of(machine),
                    .sizes = size_class_of(bytes),
                    .outside = known.outside};
  const IntervalCell& cell = table.at(interval.distance, interval.gate, interval.sizes);
  const double wider = widened_by(known.beyond);
  interval.wider = wider;
  interval.low_us = predicted_us * std::exp(cell.low * wider);
  interval.high_us = predicted_us * std::exp(cell.high * wider);
  interval.half = std::exp(cell.half * wider) - 1;
  interval.left_out = cell.points;
  interval.left_from = cell.sources;
  return interval;
}

/// The call, and the same with more or less of its way forced where the machine would choose that itself.
std::vector<std::string> kinds_of(const Machine& machine, const CollectiveCall& call) {
  std::vector<std::string> kinds{measured_kind(call)};
  CollectiveCall open = call;
  open.protocol.reset();
  // Exchanges all at once are chosen by their library alone.
  const bool is_direct =
      call.algorithm == CollectiveAlgorithm::kDirect || call.algorithm == CollectiveAlgorithm::kTwoShot;
  if (!is_direct) open.algorithm.reset();
  const CollectiveTime own = collective_time(machine, open);
  if (call.protocol && *call.protocol != own.protocol) return kinds;
  if (call.algorithm && *call.algorithm != own.algorithm) return kinds;
  CollectiveCall with_protocol = open, with_algorithm = open;
  with_protocol.protocol = own.protocol;
  with_algorithm.algorithm = own.algorithm;
  CollectiveCall with_both = with_protocol;
  with_both.algorithm = own.algorithm;
  for (const CollectiveCall& each : {open, with_protocol, with_algorithm, with_both})
    kinds.push_back(measured_kind(each));
  return kinds;
}

}  // namespace

std::string measured_kind(const CollectiveCall& call) {
  std::string kind = std::string(name_of(call.collective)) + ", " + ranks_text(call.ranks, call.nodes);
  if (call.algorithm) kind += std::string(", ") + name_of(*call.algorithm);
  if (call.protocol) kind += std::string(", ") + name_of(*call.protocol);
  if (call.eager) kind += ", eager";
  if (call.barrier) kind += ", barrier";
  return kind;
}

std::string measured_kind(const MessageTest& test) {
  return std::string(test.batch > 0 ? "batched " : "") + (test.both_ways ? "two-way " : "") +
         (test.read ? "read " : "") + (test.latency ? "latency" : "stream");
}

std::string ranks_text(int ranks, int nodes) {
  return std::to_string(ranks) + " ranks on " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
}

Interval interval_of(const Machine& machine, const CollectiveCall& call, double predicted_us, Standing standing,
                     const IntervalTable& table) {
  return made(machine, known_of(machine, kinds_of(machine, call), call.bytes), call.bytes, predicted_us, standing,
              table);
}

Interval interval_of(const Machine& machine, const std::string& kind, std::uint64_t bytes, double predicted_us,
                     Standing standing, const IntervalTable& table) {
  return made(machine, known_of(machine, {kind}, bytes), bytes, predicted_us, standing, table);
}

std::string basis_text(const Interval& interval) {
  std::string text = interval.distance == Distance::kNoClass
                         ? std::string("no class")
                         : "class " + (interval.profile.empty() ? std::string("-") : interval.profile);
  text += ", gate " + interval.gate + ": " + name_of(interval.distance);
  if (!interval.outside.empty()) {
    const bool is_of_class = interval.distance <= Distance::kOtherRanks;
    text += std::string("; outside what was measured") + (is_of_class ? ": " + interval.outside : "");
  }
  return text;
}

double larger_side(const Interval& interval, double predicted_us) {
  if (predicted_us <= 0) return 0;
  return std::max(interval.high_us / predicted_us - 1, 1 - interval.low_us / predicted_us);
}

std::string range_text(const Interval& interval, double predicted_us) {
  constexpr double kPercent = 100;
  std::array<char, 60> text{};
  std::snprintf(text.data(), text.size(), "%+.0f %% to %+.0f %%", kPercent * (interval.low_us / predicted_us - 1),
                kPercent * (interval.high_us / predicted_us - 1));
  return text.data();
}

double widened_by(double factor) {
  constexpr double kOfADoubling = 0.25;
  return 1 + kOfADoubling * std::log2(std::max(factor, 1.0));
}

}  // namespace meshbed::models
