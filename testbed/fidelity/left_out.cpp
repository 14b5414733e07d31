#include "testbed/fidelity/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "models/fit/calibrate.h"
#include "testbed/fidelity/fidelity.h"
#include "testbed/fidelity/nearest_class.h"
#include "testbed/fidelity/peers.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

using models::Distance;
using models::Machine;
using models::Peer;
using models::Standing;
using models::Sweep;
using models::SweepPoint;

using Classes = std::set<std::string>;

/// A profile and those that share its class are one machine; a profile without a class stands for itself.
bool shares(const Machine& machine, const Classes& classes, const std::set<std::string>& names) {
  return names.count(machine.name) > 0 || std::any_of(machine.classes.begin(), machine.classes.end(),
                                                      [&](const std::string& each) { return classes.count(each) > 0; });
}

template <class Keep>
std::vector<Sweep> kept(const std::vector<Sweep>& sweeps, const Keep& keep) {
  std::vector<Sweep> all;
  for (const Sweep& sweep : sweeps) {
    Sweep part{.name = sweep.name, .points = {}};
    std::copy_if(sweep.points.begin(), sweep.points.end(), std::back_inserter(part.points),
                 [&](const SweepPoint& point) { return keep(sweep, point); });
    if (!part.points.empty()) all.push_back(std::move(part));
  }
  return all;
}

/// Peers without a source.
std::vector<Peer> without_source(const std::vector<Peer>& peers, const std::string& source) {
  std::vector<Peer> all;
  for (const Peer& peer : peers) {
    std::vector<Sweep> sweeps =
        kept(peer.sweeps, [&](const Sweep& sweep, const SweepPoint&) { return sweep.name != source; });
    if (!sweeps.empty()) all.push_back({peer.machine, std::move(sweeps)});
  }
  return all;
}

class Collector {
 public:
  explicit Collector(const std::vector<Peer>& peers) : peers_(peers) {}

  std::vector<LeftOutPoint> take() { return std::move(points_); }

  void add(const std::string& source, const Machine& machine, const SweepPoint& point, Standing standing) {
    const double predicted_us = models::predicted_us(machine, point);
    if (!(predicted_us > 0)) return;
    const models::Interval interval = models::interval_of(machine, point, standing);
    points_.push_back({.source = source,
                       .distance = interval.distance,
                       .gate = interval.gate,
                       .sizes = interval.sizes,
                       .wider = interval.wider,
                       .measured_us = point.time_us,
                       .predicted_us = predicted_us});
  }

  /// The machine fitted to `sweeps`, from what peers without the source tell.
  std::optional<Machine> fit(const Machine& machine, const std::vector<Sweep>& sweeps,
                             const std::vector<Peer>& peers) const {
    if (sweeps.empty()) return std::nullopt;
    const auto fitted = models::calibrate(models::with_pool(models::without_fits(machine), peers), sweeps,
                                          "the files without what is predicted");
    if (!fitted) return std::nullopt;
    return fitted->machine;
  }

  /// A class's other sources predict each of them; the others' kinds each kind; small sizes the large ones.
  void within_class(const Machine& machine, const std::vector<Sweep>& sweeps) {
    for (const Sweep& left : sweeps) {
      const auto fitted =
          fit(machine, kept(sweeps, [&](const Sweep& sweep, const SweepPoint&) { return sweep.name != left.name; }),
              without_source(peers_, left.name));
      if (!fitted) continue;
      for (const SweepPoint& point : left.points) add(left.name, *fitted, point, Standing::kOwnClass);
    }
    std::map<std::string, std::uint64_t> largest;
    for (const SweepPoint& point : models::points_of(sweeps)) {
      std::uint64_t& most = largest[models::measured_kind(point)];
      most = std::max(most, point.call.bytes);
    }
    for (const auto& entry : largest) {
      const std::string& kind = entry.first;  // no structured binding: clang 14 cannot capture one
      if (largest.size() < 2) break;
      const auto fitted =
          fit(machine,
              kept(sweeps, [&](const Sweep&, const SweepPoint& point) { return models::measured_kind(point) != kind; }),
              peers_);
      if (!fitted) continue;
      for (const Sweep& sweep :
           kept(sweeps, [&](const Sweep&, const SweepPoint& point) { return models::measured_kind(point) == kind; })) {
        for (const SweepPoint& point : sweep.points) add(sweep.name, *fitted, point, Standing::kOwnClass);
      }
    }
    constexpr std::uint64_t kPart = 16;
    const auto is_small = [&](const SweepPoint& point) {
      return point.call.bytes <= largest.at(models::measured_kind(point)) / kPart;
    };
    const auto fitted =
        fit(machine, kept(sweeps, [&](const Sweep&, const SweepPoint& point) { return is_small(point); }), peers_);
    if (!fitted) return;
    for (const Sweep& sweep : sweeps) {
      for (const SweepPoint& point : sweep.points) {
        if (is_small(point) ||
            models::interval_of(*fitted, point, Standing::kOwnClass).distance != Distance::kOtherSizes)
          continue;
        add(sweep.name, *fitted, point, Standing::kOwnClass);
      }
    }
  }

 private:
  const std::vector<Peer>& peers_;
  std::vector<LeftOutPoint> points_;
};

/// The file's class is taken away: all profiles that share it, with their files.
void leave_class_out(Collector& collector, const MeasuredFile& file, const std::vector<Machine>& profiles,
                     const std::vector<Peer>& peers) {
  const std::vector<const Machine*> own = own_profiles(file, profiles);
  Classes classes;
  std::set<std::string> names;
  for (const Machine* each : own) {
    if (each == nullptr) continue;
    classes.insert(each->classes.begin(), each->classes.end());
    names.insert(each->name);
  }
  std::vector<Machine> others;
  std::copy_if(profiles.begin(), profiles.end(), std::back_inserter(others),
               [&](const Machine& each) { return !shares(each, classes, names); });
  std::vector<Peer> left = without_source(peers, file.name);
  std::erase_if(left, [&](const Peer& peer) { return shares(peer.machine, classes, names); });
  const PeerSource source = [&]() -> const std::vector<Peer>& { return left; };
  std::map<std::string, std::optional<Chosen>> near, none;       // by gates
  std::map<const Machine*, std::pair<Machine, Machine>> unseen;  // and bare
  for (std::size_t row = 0; row < file.rows.size(); ++row) {
    const SweepPoint& point = file.rows[row].point;
    if (own[row] == nullptr) continue;
    const std::string key = gates_of(file, file.rows[row]).text() + models::measured_operation(point);
    if (near.count(key) == 0) {
      none[key] = choose_class(file, file.rows[row], {}, source);
      near[key] = choose_class(file, file.rows[row], others, source);
      if (near[key] && near[key]->standing == Standing::kNearClass) {
        // Its values have something of the class that is left out: it is fitted again.
        const auto chosen = std::find_if(others.begin(), others.end(),
                                         [&](const Machine& each) { return each.name == near[key]->machine.name; });
        const auto its =
            std::find_if(left.begin(), left.end(), [&](const Peer& peer) { return peer.machine.name == chosen->name; });
        const auto fitted = its == left.end() ? std::nullopt : collector.fit(*chosen, its->sweeps, left);
        if (fitted) near[key] = choose_class(file, file.rows[row], {*fitted}, source);
      }
    }
    if (near[key] && near[key]->standing == Standing::kNearClass)
      collector.add(file.name, near[key]->machine, point, near[key]->standing);
    if (none[key]) collector.add(file.name, none[key]->machine, point, Standing::kNoClass);
    const auto [place, is_new] = unseen.try_emplace(own[row]);
    if (is_new) {
      place->second.second = models::without_fits(*own[row]);
      place->second.first = models::with_pool(place->second.second, left);
    }
    collector.add(file.name, place->second.first, point, Standing::kUnseen);
    collector.add(file.name, place->second.second, point, Standing::kBare);
  }
}

/// Values with weights: a distribution, used for quantiles.
using Weighted = std::vector<std::pair<double, double>>;

double quantile(Weighted& all, double part) {
  std::sort(all.begin(), all.end());
  double whole = 0, so_far = 0;
  for (const auto& [value, weight] : all) whole += weight;
  for (const auto& [value, weight] : all) {
    so_far += weight;
    if (so_far >= part * whole * (1 - 1e-12)) return value;
  }
  return all.empty() ? 0 : all.back().first;
}

struct Sample {
  Weighted values;  // each source the square root of its points: neither long files nor short ones decide alone
  std::size_t sources = 0, points = 0;
};

template <class Belongs>
Sample sample_of(const std::vector<LeftOutPoint>& points, const std::string& without, const Belongs& belongs) {
  std::map<std::string, std::vector<double>> by_source;
  for (const LeftOutPoint& point : points) {
    if (point.source == without || !belongs(point)) continue;
    by_source[point.source].push_back(std::log(point.measured_us / point.predicted_us) / point.wider);
  }
  Sample sample;
  sample.sources = by_source.size();
  for (const auto& [source, values] : by_source) {
    sample.points += values.size();
    for (const double value : values)
      sample.values.emplace_back(value, 1 / std::sqrt(static_cast<double>(values.size())));
  }
  return sample;
}

double weight_of(const Weighted& values) {
  double whole = 0;
  for (const auto& [value, weight] : values) whole += weight;
  return whole;
}

/// How many sources a cell leans on beside its own.
constexpr double kLeans = 3;

/// The sample, which counts as its sources, with its parent's distribution as kLeans more.
Sample leaning(Sample sample, const Sample& parent) {
  const double whole = weight_of(sample.values), of_parent = weight_of(parent.values);
  for (auto& [value, weight] : sample.values) weight *= static_cast<double>(sample.sources) / whole;
  for (const auto& [value, weight] : parent.values) sample.values.emplace_back(value, weight * kLeans / of_parent);
  return sample;
}

/// What a distance of few sources leans on: a nearer one, or the machine without a class.
std::optional<Distance> parent_of(Distance distance) {
  if (distance == Distance::kOtherRanks) return Distance::kOtherOperation;
  if (distance == Distance::kNearClass) return Distance::kNoClass;
  return std::nullopt;
}

constexpr double kAlpha = 0.1;

models::IntervalCell cell_of(Distance distance, const std::string& gate, const std::string& sizes, Sample sample) {
  Weighted absolute;
  for (const auto& [value, weight] : sample.values) absolute.emplace_back(std::abs(value), weight);
  // A file that is to come is one more source: chosen so that files left out are held nine times of ten.
  const double tail = distance == Distance::kOtherSizes ? 0.03 : 0.04;
  return {.distance = distance,
          .gate = gate,
          .sizes = sizes,
          .low = std::min(0.0, quantile(sample.values, tail)),
          .high = std::max(0.0, quantile(sample.values, 1 - tail)),
          .half = quantile(absolute, 0.5),
          .points = sample.points,
          .sources = sample.sources};
}

/// Winkler's score of an interval of level 1 - kAlpha, of logarithms.
double interval_score(double low, double high, double value) {
  return high - low + 2 / kAlpha * (std::max(0.0, low - value) + std::max(0.0, value - high));
}

}  // namespace

std::vector<LeftOutPoint> leave_sources_out(const std::vector<MeasuredFile>& files,
                                            const std::vector<Machine>& profiles) {
  std::vector<MeasuredFile> good;
  std::copy_if(files.begin(), files.end(), std::back_inserter(good),
               [](const MeasuredFile& file) { return is_good_quality(file.quality); });
  const std::vector<Peer> peers = peers_among(files, profiles);
  const auto sweeps = sweeps_by_profile(good, profiles);
  Collector collector(peers);
  for (const Machine& machine : profiles) {
    const auto own = sweeps.find(machine.name);
    if (own != sweeps.end()) collector.within_class(machine, own->second);
  }
  for (const MeasuredFile& file : good) leave_class_out(collector, file, profiles, peers);
  return collector.take();
}

models::IntervalTable make_interval_table(const std::vector<LeftOutPoint>& points, const std::string& without) {
  std::vector<models::IntervalCell> cells;
  Sample nearer;  // of the distance before, where a distance has no points
  for (const Distance distance : models::kDistances) {
    const auto of_distance = [&](Distance wanted) {
      return sample_of(points, without, [&](const LeftOutPoint& point) { return point.distance == wanted; });
    };
    const Sample own = of_distance(distance);
    Sample all = own.sources > 0 ? own : nearer;
    if (const auto parent = parent_of(distance)) {
      const Sample of_parent = of_distance(*parent);
      if (of_parent.sources > 0) all = leaning(all, of_parent);
    }
    nearer = all;
    std::set<std::string> gates;
    for (const LeftOutPoint& point : points) {
      if (point.distance == distance && point.source != without) gates.insert(point.gate);
    }
    for (const char* sizes : models::kSizeClasses) {
      const auto is_of_size = [&](const LeftOutPoint& point) {
        return point.distance == distance && point.sizes == sizes;
      };
      const Sample any = leaning(sample_of(points, without, is_of_size), all);
      cells.push_back(cell_of(distance, models::kAnyGate, sizes, any));
      // Of few sources a gate, whose settings have less in common than sizes have.
      if (distance == Distance::kOtherSizes || distance == Distance::kOtherOperation) continue;
      for (const std::string& gate : gates) {
        const Sample of_gate = sample_of(
            points, without, [&](const LeftOutPoint& point) { return is_of_size(point) && point.gate == gate; });
        cells.push_back(cell_of(distance, gate, sizes, leaning(of_gate, any)));
      }
    }
  }
  // A class that stands for another is no surer than no class until enough of them were tried.
  constexpr std::size_t kFew = 10;
  const models::IntervalTable made(cells);
  for (models::IntervalCell& cell : cells) {
    if (cell.distance != Distance::kNearClass || cell.sources >= kFew) continue;
    const models::IntervalCell& none = made.at(Distance::kNoClass, cell.gate, cell.sizes);
    cell.low = none.low;
    cell.high = none.high;
  }
  return models::IntervalTable(std::move(cells));
}

std::vector<GroupScore> score_groups(const std::vector<LeftOutPoint>& points) {
  std::map<std::string, models::IntervalTable> tables;
  std::map<std::string, double> constants;  // by source: half of the one band that held 9 of 10 points of the others
  std::map<Distance, std::map<std::string, std::vector<const LeftOutPoint*>>> groups;
  for (const LeftOutPoint& point : points) groups[point.distance][point.source].push_back(&point);
  std::set<std::string> sources;
  for (const LeftOutPoint& point : points) sources.insert(point.source);
  for (const std::string& source : sources) {
    tables.emplace(source, make_interval_table(points, source));
    Sample sample = sample_of(points, source, [](const LeftOutPoint&) { return true; });
    for (auto& [value, weight] : sample.values) value = std::abs(value);
    constants[source] = quantile(sample.values, 1 - kAlpha);
  }
  std::vector<GroupScore> all;
  for (const auto& [distance, by_source] : groups) {
    GroupScore group{.distance = distance, .sources = by_source.size()};
    WeightedErrors errors;
    std::vector<double> widths;
    for (const auto& [source, own] : by_source) {
      std::vector<double> of_source;
      double score = 0, constant_score = 0;
      for (const LeftOutPoint* point : own) {
        const models::IntervalCell& cell = tables.at(source).at(distance, point->gate, point->sizes);
        const double low = cell.low * point->wider, high = cell.high * point->wider;
        const double value = std::log(point->measured_us / point->predicted_us), constant = constants[source];
        ++group.points;
        if (low <= value && value <= high) group.inside += 1;
        widths.push_back(std::exp(high) - std::exp(low));
        of_source.push_back(std::abs(point->predicted_us / point->measured_us - 1));
        score += interval_score(low, high, value);
        constant_score += interval_score(-constant, constant, value);
      }
      errors.add(of_source);
      group.score += score / static_cast<double>(own.size() * by_source.size());
      group.constant_score += constant_score / static_cast<double>(own.size() * by_source.size());
    }
    group.inside /= static_cast<double>(group.points);
    group.width = models::summarise(std::move(widths)).median;
    group.median = errors.percentile(0.5);
    group.p90 = errors.percentile(0.9);
    all.push_back(group);
  }
  return all;
}

std::string left_out_sources_section(const std::vector<GroupScore>& groups) {
  std::string text =
      "\n## Sources left out\n\n"
      "Every file of quality A and B predicted without itself: the class, the values that classes have in common, the "
      "fit and the widths are made without it. Where its class has no other file, a kind of calls, the large sizes or "
      "the whole class is left out. Errors weigh each file the same; the intervals are meant to hold 90 % of the "
      "points; the width is the median of (high - low) / predicted; the score is that of an interval of 90 % "
      "(its width and, for a point outside, 20 times the distance, all of logarithms; lower is better), beside one "
      "band of a constant percentage for all points.\n\n"
      "| what was known | points | files | median | p90 | inside | width | score | one band's score |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  const auto percent = [](double part) { return fmt::format("{:.1f} %", 100 * part); };
  for (const GroupScore& group : groups) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.2f} | {:.2f} |\n", models::name_of(group.distance),
                        group.points, group.sources, percent(group.median), percent(group.p90), percent(group.inside),
                        percent(group.width), group.score, group.constant_score);
  }
  return text;
}

}  // namespace meshbed::testbed
