#include "testbed/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "models/strength.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "testbed/base/files.h"
#include "testbed/base/progress.h"
#include "testbed/base/units.h"
#include "testbed/plan/report.h"
#include "testbed/sweep/sweep.h"

namespace meshbed::testbed::plan {
namespace {

using document::Value;

constexpr std::size_t kCablingsMost = 5000;
/// Without a profile times have no error of their own: cablings that differ by less are a tie.
constexpr double kTieWithoutError = 0.05;
/// An algorithm other than the engine's choice must be faster by more.
constexpr double kWorthSetting = 0.01;
constexpr const char* kAlgorithmKey = "workload.algorithm";
constexpr const char* kProtocolKey = "workload.protocol";

/// Parallel cables of each pair of nodes; of a switch the share of its ports that each pair has.
std::vector<int> rates_of(const Cabling& cabling) {
  constexpr int kCable = 1000;
  const int nodes = cabling.nodes;
  std::vector<int> rates(static_cast<std::size_t>(nodes * nodes), cabling.switches * kCable / (nodes - 1));
  for (const auto& [one, other] : cabling.cables) {
    rates[static_cast<std::size_t>(one * nodes + other)] += kCable;
    rates[static_cast<std::size_t>(other * nodes + one)] += kCable;
  }
  return rates;
}

/// Those that are worth a run: by strength (long messages), by distance (short ones) and by number of cables (price),
/// in equal parts.
std::vector<Cabling> finalists_of(std::vector<Cabling> all, std::size_t most) {
  if (all.size() <= most) return all;
  struct Judged {
    double weakness = 0, distance = 0;
    std::size_t cables = 0, index = 0;
  };
  std::vector<Judged> judged;
  for (std::size_t index = 0; index < all.size(); ++index) {
    judged.push_back({-models::strength(all[index].nodes, rates_of(all[index])), all[index].mean_distance(),
                      all[index].cable_count(), index});
  }
  std::vector<bool> taken(all.size(), false);
  std::vector<Cabling> finalists;
  const auto take = [&](auto key, std::size_t until) {
    std::stable_sort(judged.begin(), judged.end(),
                     [&](const Judged& one, const Judged& other) { return key(one) < key(other); });
    for (const Judged& each : judged) {
      if (finalists.size() >= until) return;
      if (taken[each.index]) continue;
      taken[each.index] = true;
      finalists.push_back(all[each.index]);
    }
  };
  take([](const Judged& one) { return std::tuple(one.weakness, one.distance, one.cables); }, most / 3);
  take([](const Judged& one) { return std::tuple(one.distance, one.weakness, one.cables); }, 2 * most / 3);
  take([](const Judged& one) { return std::tuple(one.cables, one.weakness, one.distance); }, most);
  return finalists;
}

/// The rows of a sweep as objects.
std::vector<Value> rows_of(const document::Document& table) {
  const document::Table& points = *table.find_table("points");
  std::vector<Value> rows;
  for (const document::Row& row : points.rows) {
    Value object;
    for (std::size_t column = 0; column < points.columns.size(); ++column)
      object[points.columns[column].key] = row.cells[column];
    rows.push_back(std::move(object));
  }
  return rows;
}

std::optional<double> number_in(const Value& row, const char* key) {
  return row.at(key).is_number() ? std::optional<double>(row.at(key).get<double>()) : std::nullopt;
}

/// Of an iteration, as the workload counts it.
std::optional<double> whole_us(const Request& request, std::optional<double> call_us) {
  if (!call_us || !request.decode) return call_us;
  const Decode& decode = *request.decode;
  return decode.layers * (decode.calls_per_layer * *call_us + decode.compute_us_per_layer / request.nodes);
}

/// What the request sets a key to; empty: nothing.
std::string set_value(const Request& request, const std::string& key) {
  std::string value;
  for (const std::string& one : request.overrides) {
    if (one.rfind(key + "=", 0) == 0) value = one.substr(key.size() + 1);
  }
  return value;
}

sweep::Options sweep_of(const Request& request, const Candidate& candidate) {
  sweep::Options options{.scenario_path = candidate.scenario_path, .overrides = request.overrides};
  options.time_limit_s = request.time_limit_s;
  options.workers = request.workers;
  options.points = {{}};
  return options;
}

/// The engine's ways to do the collective: the simplest first, which stays unless another is faster.
void add_algorithms(const Request& request, sweep::Options& options) {
  if (!request.is_collective) return;
  if (set_value(request, kAlgorithmKey).empty()) {
    sweep::Axis axis{.key = kAlgorithmKey, .values = {"auto"}};
    for (int each = 0; each < coll::kAlgorithms; ++each)
      axis.values.emplace_back(name_of(static_cast<coll::Algorithm>(each)));
    options.axes.push_back(std::move(axis));
  }
  if (set_value(request, kProtocolKey).empty()) {
    options.axes.push_back({.key = kProtocolKey, .values = {"simple", "auto"}});
  }
  options.points = sweep::combine(options.axes, false, options.points_max);
}

/// Of a setting that was varied, or that the request sets.
std::string setting_in(const Value& row, const Request& request, const char* key) {
  return row.contains(key) ? row.at(key).get<std::string>() : set_value(request, key);
}

/// Runs it intact, by each algorithm; keeps the fastest.
void run_intact(const Request& request, Candidate& candidate) {
  sweep::Options options = sweep_of(request, candidate);
  add_algorithms(request, options);
  const std::vector<Value> rows = rows_of(sweep::run(options, [](std::size_t, std::size_t) {}).table);
  const Value* best = nullptr;
  for (const Value& row : rows) {
    const auto time_us = number_in(row, "time_us");
    if (!time_us) continue;
    if (best == nullptr || *time_us < (1 - kWorthSetting) * *number_in(*best, "time_us")) best = &row;
  }
  if (best == nullptr) {
    candidate.status = rows.front().at("status");
    candidate.reason = rows.front().at("reason");
    return;
  }
  candidate.algorithm = setting_in(*best, request, kAlgorithmKey);
  candidate.protocol = setting_in(*best, request, kProtocolKey);
  candidate.time_us = whole_us(request, number_in(*best, "time_us"));
  candidate.low_us = whole_us(request, number_in(*best, "low_us"));
  candidate.high_us = whole_us(request, number_in(*best, "high_us"));
}

/// Runs it once without each cable.
void run_without_cables(const Request& request, Candidate& candidate) {
  sweep::Options options = sweep_of(request, candidate);
  if (!candidate.algorithm.empty()) options.overrides.push_back(std::string(kAlgorithmKey) + "=" + candidate.algorithm);
  if (!candidate.protocol.empty()) options.overrides.push_back(std::string(kProtocolKey) + "=" + candidate.protocol);
  options.fail = sweep::Fail::kEachCable;
  candidate.survives = true;
  for (const Value& row : rows_of(sweep::run(options, [](std::size_t, std::size_t) {}).table)) {
    const std::string failed = row.at("failed");
    if (failed.empty()) continue;
    const auto time_us = whole_us(request, number_in(row, "time_us"));
    if (!time_us) {
      if (candidate.survives) candidate.worst_cable = failed;
      candidate.survives = false;
      candidate.worst_us.reset();
    } else if (candidate.survives && (!candidate.worst_us || *time_us > *candidate.worst_us)) {
      candidate.worst_us = time_us;
      candidate.worst_cable = failed;
    }
  }
}

Candidate candidate_of(const Request& request, const Cabling& cabling, std::size_t number) {
  Candidate candidate{.cabling = cabling, .name = name_of(cabling)};
  candidate.scenario_path = fmt::format("{}/cabling{}.toml", request.folder, number);
  if (request.cable_price || request.switch_price) {
    candidate.price = static_cast<double>(cabling.cable_count()) * request.cable_price.value_or(0) +
                      cabling.switches * request.switch_price.value_or(0);
  }
  if (cabling.switches > 0) {
    Cabling less = cabling;
    --less.switches;
    candidate.one_switch_ends_it = !less.is_connected();
  }
  return candidate;
}

/// Sorts candidates: first those that run (and survive, if required), then by time; those that tie with the fastest by
/// price, then by time without a cable.
void rank(const Request& request, std::vector<Candidate>& candidates) {
  const auto qualifies = [&](const Candidate& one) {
    return one.time_us.has_value() && (!request.must_survive || one.survives);
  };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& one, const Candidate& other) {
    return std::tuple(!qualifies(one), one.time_us.value_or(1e300)) <
           std::tuple(!qualifies(other), other.time_us.value_or(1e300));
  });
  if (candidates.empty() || !qualifies(candidates.front())) return;
  const Candidate& fastest = candidates.front();
  const double most_us = fastest.high_us.value_or(*fastest.time_us * (1 + kTieWithoutError));
  for (Candidate& one : candidates) one.is_tie = qualifies(one) && one.low_us.value_or(*one.time_us) <= most_us;
  const auto ties_end =
      std::stable_partition(candidates.begin(), candidates.end(), [](const Candidate& one) { return one.is_tie; });
  std::stable_sort(candidates.begin(), ties_end, [](const Candidate& one, const Candidate& other) {
    const auto key = [](const Candidate& each) {
      return std::tuple(each.price.value_or(0), !each.survives, each.worst_us.value_or(1e300), *each.time_us);
    };
    return key(one) < key(other);
  });
  if (ties_end - candidates.begin() == 1) candidates.front().is_tie = false;  // with itself alone
}

}  // namespace

Outcome run(const Request& request) {
  Outcome outcome;
  const std::vector<Cabling> all =
      connected_cablings(request.nodes, request.nics, request.switch_price ? request.nics : 0, kCablingsMost);
  if (all.empty()) {
    throw std::runtime_error(
        fmt::format("plan: {} with {} each cannot all reach each other by cables alone; give --switch PRICE, "
                    "or more --nics",
                    counted(static_cast<std::uint64_t>(request.nodes), "node"),
                    counted(static_cast<std::uint64_t>(request.nics), "NIC")));
  }
  outcome.cablings = all.size();
  const std::vector<Cabling> finalists = finalists_of(all, request.finalists);
  for (const Cabling& cabling : finalists) {
    outcome.candidates.push_back(candidate_of(request, cabling, outcome.candidates.size() + 1));
    write_text_file(outcome.candidates.back().scenario_path, scenario_of(request, cabling));
  }
  {
    Progress progress("plan", static_cast<int>(2 * finalists.size()));
    for (Candidate& candidate : outcome.candidates) {
      run_intact(request, candidate);
      progress.step();
      if (candidate.time_us) run_without_cables(request, candidate);
      progress.step();
    }
  }
  rank(request, outcome.candidates);
  const Candidate& first = outcome.candidates.front();
  if (!first.time_us) {
    throw std::runtime_error(fmt::format("plan: the workload runs on no cabling; on the {}: {}: {}", first.name,
                                         first.status, first.reason));
  }
  if (request.must_survive && !first.survives) {
    throw std::runtime_error(fmt::format(
        "plan: no cabling of {} with {} each survives the loss of any cable; give more --nics or --switch PRICE",
        counted(static_cast<std::uint64_t>(request.nodes), "node"),
        counted(static_cast<std::uint64_t>(request.nics), "NIC")));
  }
  outcome.report = report_of(request, outcome);
  return outcome;
}

}  // namespace meshbed::testbed::plan
