#include "testbed/sweep/sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "meshbed/run.h"
#include "plugin/base/descriptor.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/library/scenario_state.h"

namespace meshbed::testbed::sweep {
namespace {

using document::Value;

/// A row before it is run.
struct Point {
  Values values;
  std::string failed;  // empty: nothing is
  Changes changes;
  Changes removed;  // with what fails taken away from the start; tells whether all ranks still reach each other
};

constexpr const char* kOk = "ok";

/// Of a point that was run, as the journal has it: the row's values behind the varied keys, less the ratio.
struct Measured {
  std::string status = kOk;
  std::optional<double> time_us, busbw_GBps, over_bound, low_us, high_us;
  std::string algorithm, busiest_link, reason;
};

Value optional_value(const std::optional<double>& value) { return value ? Value(*value) : Value(nullptr); }

Value value_of(const Measured& measured) {
  return {{"status", measured.status},
          {"time_us", optional_value(measured.time_us)},
          {"busbw_GBps", optional_value(measured.busbw_GBps)},
          {"over_bound", optional_value(measured.over_bound)},
          {"low_us", optional_value(measured.low_us)},
          {"high_us", optional_value(measured.high_us)},
          {"algorithm", measured.algorithm},
          {"busiest_link", measured.busiest_link},
          {"reason", measured.reason}};
}

std::optional<double> number_of(const Value& object, const char* key) {
  const Value& value = object.at(key);
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

Measured measured_of(const Value& value) {
  return {.status = value.at("status"),
          .time_us = number_of(value, "time_us"),
          .busbw_GBps = number_of(value, "busbw_GBps"),
          .over_bound = number_of(value, "over_bound"),
          .low_us = number_of(value, "low_us"),
          .high_us = number_of(value, "high_us"),
          .algorithm = value.at("algorithm"),
          .busiest_link = value.at("busiest_link"),
          .reason = value.at("reason")};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

meshbed::Scenario base_scenario(const Options& options) {
  meshbed::Scenario scenario = meshbed::Scenario::load(options.scenario_path);
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& each : options.overrides) {
    const std::size_t equals = each.find('=');
    settings.emplace_back(each.substr(0, equals), equals == std::string::npos ? "" : each.substr(equals + 1));
  }
  settings.emplace_back("expect", "{}");  // the scenario's promises are of the scenario as it is
  scenario.set(settings);
  for (const std::string& fault : options.faults) scenario.fault(fault);
  return scenario;
}

meshbed::Scenario changed(const meshbed::Scenario& base, const Changes& changes) {
  meshbed::Scenario scenario = base;
  if (!changes.settings.empty()) scenario.set(changes.settings);
  for (const std::string& fault : changes.faults) scenario.fault(fault);
  return scenario;
}

Changes joined(const Changes& one, const Changes& other) {
  Changes all = one;
  all.settings.insert(all.settings.end(), other.settings.begin(), other.settings.end());
  all.faults.insert(all.faults.end(), other.faults.begin(), other.faults.end());
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
    const double p90 = summary.at("software").at("error").at("p90");
    measured.low_us = *measured.time_us * (1 - p90);
    measured.high_us = *measured.time_us * (1 + p90);
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

// ---- the journal ----------------------------------------------------------------------------------------------------

/// What makes two sweeps the same: the version, the scenario's text, and each point's changes.
Value identity_of(const Options& options) {
  return {{"meshbed", kVersion},
          {"scenario_sha256", sha256_of_file(options.scenario_path)},
          {"overrides", options.overrides},
          {"faults", options.faults}};
}

std::string key_of(const Point& point) {
  Value key = Value::array();
  for (const auto& [name, value] : point.changes.settings) key.push_back(name + "=" + value);
  for (const std::string& fault : point.changes.faults) key.push_back("fault=" + fault);
  key.push_back(point.failed);
  return json_text(key);
}

class Journal {
 public:
  explicit Journal(const Options& options) : path_(options.journal) {
    if (path_.empty()) return;
    lock_ = Descriptor(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock_.is_open()) throw std::runtime_error(fmt::format("{}.lock: {}", path_, std::strerror(errno)));
    if (::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0) {
      throw std::runtime_error(path_ + " is being written by another sweep; name another folder by --results");
    }
    const std::string first = json_text(identity_of(options));
    std::string kept = first + "\n";
    if (options.resume) kept = take_over(first);
    write_text_file(path_, kept);
    file_.open(path_, std::ios::app);
    if (!file_) throw std::runtime_error(path_ + " cannot be written to; name a folder that you may write to");
  }

  std::optional<Measured> find(const std::string& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional<Measured>(found->second);
  }

  void add(const std::string& key, const Measured& measured) {
    if (path_.empty()) return;
    file_ << line_of(key, measured) << std::flush;
    if (!file_) throw std::runtime_error(path_ + ": no space is left, or the file is gone");
  }

 private:
  static std::string line_of(const std::string& key, const Measured& measured) {
    return json_text(Value{{"point", key}, {"measured", value_of(measured)}}) + "\n";
  }

  /// What a resumed sweep keeps: lines that are whole. The last one may have been cut off.
  std::string take_over(const std::string& first) {
    std::string kept = first + "\n";
    std::ifstream file(path_);
    std::string line;
    if (!std::getline(file, line)) return kept;
    if (line != first) {
      throw std::runtime_error(path_ +
                               " is of another scenario, other --set or --fault, or another version; leave out "
                               "--resume to begin anew");
    }
    while (std::getline(file, line)) {
      const Value entry = Value::parse(line, nullptr, false);
      if (entry.is_discarded() || !entry.is_object()) continue;
      try {
        const std::string key = entry.at("point");
        const Measured measured = measured_of(entry.at("measured"));
        if (known_.emplace(key, measured).second) kept += line_of(key, measured);
      } catch (const Value::exception&) {
        continue;  // cut off
      }
    }
    return kept;
  }

  std::string path_;
  Descriptor lock_;  // held while this sweep writes
  std::ofstream file_;
  std::map<std::string, Measured> known_;
};

// ---- the table ------------------------------------------------------------------------------------------------------

/// For each point the index of that which it is compared with; its own where there is none.
std::vector<std::size_t> baselines_of(const Options& options, const std::vector<Point>& points) {
  std::vector<std::size_t> baselines(points.size(), 0);
  std::size_t axis = options.axes.size();
  std::string value;
  if (!options.baseline.empty()) {
    const std::size_t equals = options.baseline.find('=');
    const std::string key = options.baseline.substr(0, equals);
    value = equals == std::string::npos ? "" : options.baseline.substr(equals + 1);
    for (axis = 0; axis < options.axes.size() && options.axes[axis].key != key; ++axis) {
    }
    const bool is_there = axis < options.axes.size() &&
                          std::find(options.axes[axis].values.begin(), options.axes[axis].values.end(), value) !=
                              options.axes[axis].values.end();
    if (!is_there) {
      throw std::runtime_error("--baseline " + options.baseline + ": is not a KEY=VALUE of --vary");
    }
  }
  std::map<std::pair<Values, std::string>, std::size_t> places;
  for (std::size_t index = 0; index < points.size(); ++index) {
    places.emplace(std::pair{points[index].values, points[index].failed}, index);
  }
  for (std::size_t index = 0; index < points.size(); ++index) {
    std::pair<Values, std::string> wanted{points[index].values, points[index].failed};
    if (axis < options.axes.size()) {
      wanted.first[axis] = value;
    } else if (options.fail != Fail::kNothing) {
      wanted.second.clear();
    } else {
      continue;  // the first point
    }
    const auto found = places.find(wanted);
    baselines[index] = found == places.end() ? index : found->second;
  }
  return baselines;
}

/// For a line of text; the whole is in CSV and JSON.
std::string shortened(const std::string& reason) {
  constexpr std::size_t kMost = 72;
  return reason.size() <= kMost ? reason : reason.substr(0, kMost) + "...";
}

int width_of(const std::string& title, const std::vector<std::string>& texts) {
  std::size_t width = title.size();
  for (const std::string& each : texts) width = std::max(width, each.size());
  return static_cast<int>(std::min<std::size_t>(width, 48));
}

document::Table table_of(const Options& options, const std::vector<Point>& points) {
  using document::number, document::text;
  document::Table table{.key = "points", .meaning = "the points of the sweep, in order", .columns = {}};
  for (const Axis& axis : options.axes) {
    const bool is_first = table.columns.empty();
    table.columns.push_back(
        text(axis.key, "as varied").shown(axis.key, width_of(axis.key, axis.values), is_first ? "" : "  ").left());
  }
  std::vector<std::string> names;
  for (const Point& point : points) names.push_back(point.failed);
  const int failed_width = options.fail == Fail::kNothing ? 0 : width_of("failed", names);
  auto failed = text("failed", "what was taken away; empty: nothing");
  table.columns.push_back(
      failed_width == 0 ? std::move(failed)
                        : std::move(failed).shown("failed", failed_width, table.columns.empty() ? "" : "  ").left());
  for (document::Field& field : std::vector<document::Field>{
           text("status", "ok, failed, unreachable, refused, time limit or error")
               .shown("status", 11, table.columns.size() == 1 && failed_width == 0 ? "" : "  ")
               .left(),
           number("time_us", "us", "of one iteration").or_null().shown("time (us)", 12).rounded(3),
           number("busbw_GBps", "GB/s", "as nccl-tests defines it").or_null().shown("busbw GB/s", 11).rounded(3),
           number("ratio_baseline", "", "time over the baseline's").or_null().shown("x base", 8).rounded(3),
           number("over_bound", "", "time over the lower bound of this cabling")
               .or_null()
               .shown("x bound", 8)
               .rounded(3),
           text("algorithm", "algorithm, protocol and channels of the engine").shown("algorithm", 20, "  ").left(),
           text("busiest_link", "carried something for the longest time").shown("busiest link", 28).left(),
           number("low_us", "us", "time less the class's error, 9 of 10 measured points").or_null(),
           number("high_us", "us", "time and that error").or_null(), text("reason", "why the status is not ok")}) {
    table.columns.push_back(std::move(field));
  }
  return table;
}

document::Document document_of(const Options& options, const std::vector<Point>& points,
                               const std::vector<Measured>& measured) {
  const std::vector<std::size_t> baselines = baselines_of(options, points);
  document::Section section{.title = "Sweep"};
  section.with({document::text("scenario_sha256", "of the scenario's file"),
                document::texts("overrides", "of all points"), document::integer("count", "", "of the points")});
  section.set("scenario_sha256", sha256_of_file(options.scenario_path));
  section.set("overrides", options.overrides);
  section.set("count", points.size());
  section.with(table_of(options, points));
  document::Table& table = section.table("points");
  for (std::size_t index = 0; index < points.size(); ++index) {
    const Measured& one = measured[index];
    const std::optional<double>& base_us = measured[baselines[index]].time_us;
    std::vector<Value> cells;
    for (const std::string& value : points[index].values) cells.emplace_back(value);
    cells.emplace_back(points[index].failed);
    cells.emplace_back(one.status);
    cells.push_back(optional_value(one.time_us));
    cells.push_back(optional_value(one.busbw_GBps));
    cells.push_back(one.time_us && base_us && *base_us > 0 ? Value(*one.time_us / *base_us) : Value(nullptr));
    cells.push_back(optional_value(one.over_bound));
    cells.emplace_back(one.algorithm);
    cells.emplace_back(one.busiest_link);
    cells.push_back(optional_value(one.low_us));
    cells.push_back(optional_value(one.high_us));
    cells.emplace_back(one.reason);
    table.add(std::move(cells), shortened(one.reason));
  }
  section.show("points");
  return {.title = "sweep", .sections = {std::move(section)}};
}

}  // namespace

Outcome run(const Options& options, const std::function<void(std::size_t done, std::size_t total)>& on_point) {
  const meshbed::Scenario base = base_scenario(options);
  refuse_useless_axes(options, base);
  const std::vector<Point> points = points_of(options, base);
  (void)baselines_of(options, points);  // refuses a --baseline before anything runs
  Journal journal(options);
  std::vector<Measured> measured(points.size());
  std::vector<std::size_t> left;
  Outcome outcome{.table = {}, .points = points.size()};
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (const auto known = journal.find(key_of(points[index]))) {
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
  const auto work = [&] {
    for (std::size_t at = next++; at < left.size(); at = next++) {
      try {
        const std::size_t index = left[at];
        measured[index] = run_point(options, base, points[index]);
        const std::lock_guard<std::mutex> lock(mutex);
        journal.add(key_of(points[index]), measured[index]);
        on_point(++done, points.size());
      } catch (...) {
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
  outcome.table = document_of(options, points, measured);
  outcome.failed = static_cast<std::size_t>(
      std::count_if(measured.begin(), measured.end(), [](const Measured& one) { return one.status != kOk; }));
  return outcome;
}

}  // namespace meshbed::testbed::sweep
