#include "testbed/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "meshbed/run.h"
#include "testbed/library/scenario_state.h"
#include "testbed/sweep/journal.h"
#include "testbed/sweep/measured.h"
#include "testbed/sweep/table.h"

namespace meshbed::testbed::sweep {
namespace {

using document::Value;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

meshbed::Scenario base_scenario(const Options& options) {
  meshbed::Scenario scenario = meshbed::Scenario::load(options.scenario_path);
  Changes settings;
  for (const std::string& each : options.overrides) {
    const std::size_t equals = each.find('=');
    settings.emplace_back(each.substr(0, equals), equals == std::string::npos ? "" : each.substr(equals + 1));
  }
  settings.emplace_back("expect", "{}");  // the scenario's promises are of the scenario as it is
  for (const std::string& fault : options.faults) settings.emplace_back(kAddedFault, fault);
  scenario.set(settings);
  return scenario;
}

meshbed::Scenario changed(const meshbed::Scenario& base, const Changes& changes) {
  meshbed::Scenario scenario = base;
  if (!changes.empty()) scenario.set(changes);
  return scenario;
}

Changes joined(const Changes& one, const Changes& other) {
  Changes all = one;
  all.insert(all.end(), other.begin(), other.end());
  return all;
}

/// A key that does not exist, or values of which none fits, is a mistake in the command and not a row of its table.
void refuse_useless_axes(const Options& options, const meshbed::Scenario& base) {
  for (const Axis& axis : options.axes) {
    std::string problem;
    for (const std::string& value : axis.values) {
      try {
        changed(base, changes_of({axis}, {value}));
        problem.clear();
        break;
      } catch (const InvalidScenario& error) {
        if (problem.empty()) problem = first_line(error.what());
      }
    }
    if (problem.empty()) continue;
    // It may fit together with another axis.
    const bool fits_elsewhere = std::any_of(options.points.begin(), options.points.end(), [&](const Values& values) {
      try {
        return changed(base, changes_of(options.axes, values)).ranks() > 0;
      } catch (const InvalidScenario&) {
        return false;
      }
    });
    if (!fits_elsewhere) throw std::runtime_error(fmt::format("--vary {}: {}", axis.key, problem));
  }
}

std::vector<Point> points_of(const Options& options, const meshbed::Scenario& base) {
  std::vector<Point> points;
  const auto add = [&](Point point) {
    if (points.size() == options.points_max) {
      throw std::runtime_error(
          fmt::format("--fail: more than {} points with each failure; raise --max-points or vary "
                      "fewer values",
                      options.points_max));
    }
    points.push_back(std::move(point));
  };
  for (const Values& values : options.points) {
    const Changes own = changes_of(options.axes, values);
    add({.values = values, .failed = "", .changes = own, .removed = own});
    if (options.fail == Fail::kNothing) continue;
    std::vector<Failure> failures;
    try {
      const bool at_once = options.fail_at.empty();
      failures = failures_of(changed(base, own).state().parsed, options.fail, at_once ? "0s" : options.fail_at);
    } catch (const InvalidScenario&) {
      continue;  // the row without a failure says why
    }
    for (const Failure& failure : failures) {
      const Changes removed = joined(own, failure.removed);
      add({.values = values,
           .failed = failure.name,
           .changes = options.fail_at.empty() ? removed : joined(own, failure.at_time),
           .removed = removed});
    }
  }
  return points;
}

bool has_no_path(const std::vector<meshbed::Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const meshbed::Finding& finding) {
    return finding.severity == "error" && finding.code == name_of(FindingCode::kNoPath);
  });
}

/// The link that carried something for the longest time; empty without any.
std::string busiest_link(const Value& links) {
  std::string name;
  std::uint64_t most_ps = 0;
  for (const Value& link : links) {
    const auto busy_ps = link.at("busy_ps").get<std::uint64_t>();
    if (busy_ps > most_ps) {
      most_ps = busy_ps;
      name = link.at("name");
    }
  }
  return name;
}

/// Of the timed operations.
std::string algorithm_of(const Value& operations) {
  for (const Value& operation : operations) {
    if (!operation.at("timed").get<bool>()) continue;
    return fmt::format("{} {} {}", operation.at("algorithm").get<std::string>(),
                       operation.at("protocol").get<std::string>(), operation.at("channels").get<int>());
  }
  return "";
}

/// Empty if data, proofs and ranks are right. Promises of the scenario do not count.
std::string failure_of(const RunResult& result, const Value& summary) {
  if (!result.errors().empty()) {
    const FailedRank& error = result.errors().front();
    return fmt::format("rank {}: {}", error.rank, first_line(error.text));
  }
  const std::string outcome = summary.at("outcome");
  if (outcome != "finished") return outcome;
  for (const Proof& proof : result.proofs()) {
    if (!proof.ok) return fmt::format("{}: {}", proof.name, proof.detail);
  }
  return result.wrong() > 0 ? fmt::format("{} elements are wrong", result.wrong()) : "";
}

Measured measured_of(const RunResult& result) {
  Measured measured;
  const Value summary = Value::parse(result.json());
  measured.reason = failure_of(result, summary);
  measured.algorithm = algorithm_of(summary.at("operations"));
  measured.busiest_link = busiest_link(summary.at("links"));
  if (!measured.reason.empty()) {
    measured.status = "failed";
    return measured;
  }
  measured.time_us = summary.at("time_ns").get<double>() / 1e3;
  measured.busbw_GBps = result.busbw_GBps();
  if (result.over_bound() > 0) measured.over_bound = result.over_bound();
  if (summary.contains("software") && summary.at("software").contains("error")) {
    const Value& error = summary.at("software").at("error");
    measured.low_us = error.at("low_us").get<double>();
    measured.high_us = error.at("high_us").get<double>();
  }
  return measured;
}

/// The first error, without the file's name.
std::string reason_of(const InvalidScenario& error) {
  for (const meshbed::Finding& finding : error.findings()) {
    if (finding.severity == "error") return fmt::format("{}: {}", finding.place, finding.cause);
  }
  return first_line(error.what());
}

Measured run_point(const Options& options, const meshbed::Scenario& base, const Point& point) {
  Measured measured;
  try {
    if (!options.fail_at.empty() && !point.failed.empty() && has_no_path(changed(base, point.removed).check())) {
      measured.status = "unreachable";
      measured.reason = "without " + point.failed + " not all ranks reach each other";
      return measured;
    }
    return measured_of(
        meshbed::run(changed(base, point.changes), {.messages = false, .time_limit_s = options.time_limit_s}));
  } catch (const InvalidScenario& error) {
    measured.status = has_no_path(error.findings()) ? "unreachable" : "refused";
    measured.reason = reason_of(error);
  } catch (const RunCancelled& error) {
    measured.status = "time limit";
    measured.reason = first_line(error.what());
  } catch (const RunError& error) {
    measured.status = "error";
    measured.reason = first_line(error.what());
  }
  return measured;
}

}  // namespace

Outcome run(const Options& options, const std::function<void(std::size_t done, std::size_t total)>& on_point) {
  const meshbed::Scenario base = base_scenario(options);
  for (const std::string& path : cabling_files_of(options.axes))
    (void)read_scenario_text(path);  // throws where none is
  refuse_useless_axes(options, base);
  const std::vector<Point> points = points_of(options, base);
  (void)baselines_of(options, points);  // refuses a --baseline before anything runs
  Journal journal(options);
  std::vector<Measured> measured(points.size());
  std::vector<std::size_t> left;
  Outcome outcome{.table = {}, .points = points.size()};
  const auto step = static_cast<std::size_t>(options.part.count);
  for (auto index = static_cast<std::size_t>(options.part.index); index < points.size(); index += step) {
    if (const auto known = journal.find(points[index])) {
      measured[index] = *known;
      ++outcome.resumed;
    } else {
      left.push_back(index);
    }
  }
  std::mutex mutex;  // over the journal, on_point and `problem`
  std::exception_ptr problem;
  std::atomic<std::size_t> next{0};
  std::size_t done = outcome.resumed;
  const std::size_t total = done + left.size();
  const auto work = [&] {
    for (std::size_t at = next++; at < left.size(); at = next++) {
      try {
        const std::size_t index = left[at];
        measured[index] = run_point(options, base, points[index]);
        const std::lock_guard<std::mutex> lock(mutex);
        journal.add(points[index], measured[index]);
        on_point(++done, total);
      } catch (const std::exception&) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!problem) problem = std::current_exception();
        next = left.size();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < options.workers; ++worker) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (problem) std::rethrow_exception(problem);
  outcome.is_whole = options.part.count == 1 || journal.gather(points, measured);
  outcome.failed = static_cast<std::size_t>(
      std::count_if(measured.begin(), measured.end(), [](const Measured& one) { return one.status != kOk; }));
  if (outcome.is_whole) outcome.table = document_of(options, points, measured);
  return outcome;
}

}  // namespace meshbed::testbed::sweep
