#include "testbed/diagnose/prove/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "testbed/diagnose/prove/show.h"
#include "testbed/library/scenario_state.h"

namespace meshbed::testbed::diagnose {
namespace {

constexpr double kEnough = 0.9;

struct Task {
  const meshbed::Scenario* base = nullptr;
  Mutation mutation;
  bool is_healthy = false;
};

std::string first_code(const Shown& shown, From from) {
  const Diagnosis diagnosis = diagnose_run(shown, from);
  return diagnosis.causes.empty() ? "none" : name_of(diagnosis.causes.front().code);
}

SelfCheck::Row run_task(const Task& task) {
  SelfCheck::Row row{.scenario = task.base->name(),
                     .cause = task.is_healthy ? "none" : name_of(task.mutation.cause),
                     .place = task.mutation.place,
                     .from_log = "",
                     .from_results = "",
                     .from_state = ""};
  Shown shown;
  try {
    shown = show(mutated(*task.base, task.mutation));
  } catch (const InvalidScenario& error) {
    shown.refused = error.what();
  }
  row.from_log = first_code(shown, From::kLog);
  row.from_results = first_code(shown, From::kResults);
  row.from_state = cause_in_state(*task.base, task.mutation);
  return row;
}

std::vector<Task> tasks_of(const SelfCheckOptions& options, const std::vector<meshbed::Scenario>& bases) {
  std::vector<Task> tasks;
  for (const meshbed::Scenario& base : bases) {
    for (const CauseInfo& info : cause_infos()) {
      if (!info.reproducible || (!options.only.empty() && options.only != info.name)) continue;
      for (Mutation& mutation : mutations(base.state().parsed, info.code, options.places))
        tasks.push_back({&base, std::move(mutation), false});
    }
    for (std::size_t seed = 0; seed < options.healthy; ++seed) {
      tasks.push_back({&base,
                       Mutation{CauseCode::kNoPath, fmt::format("seed {}", seed), {{"seed", fmt::format("{}", seed)}}},
                       true});
    }
  }
  return tasks;
}

}  // namespace

bool SelfCheck::passed() const {
  const auto enough = kEnough * static_cast<double>(total);
  return healthy_wrong == 0 && static_cast<double>(log_right) >= enough && static_cast<double>(results_right) >= enough;
}

SelfCheck self_check(const SelfCheckOptions& options,
                     const std::function<void(std::size_t done, std::size_t total)>& on_run) {
  const std::vector<meshbed::Scenario> bases = built_in_scenarios();
  const std::vector<Task> tasks = tasks_of(options, bases);
  SelfCheck check;
  check.rows.resize(tasks.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // over on_run, `done` and `problem`
  std::size_t done = 0;
  std::exception_ptr problem;
  const auto work = [&] {
    for (std::size_t at = next++; at < tasks.size(); at = next++) {
      try {
        check.rows[at] = run_task(tasks[at]);
        const std::lock_guard<std::mutex> lock(mutex);
        on_run(++done, tasks.size());
      } catch (const std::exception&) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!problem) problem = std::current_exception();
        next = tasks.size();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < options.workers; ++worker) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (problem) std::rethrow_exception(problem);
  for (const SelfCheck::Row& row : check.rows) {
    if (row.cause == "none") {
      ++check.healthy;
      check.healthy_wrong += row.from_log != "none" || row.from_results != "none" || row.from_state != "none" ? 1U : 0U;
      continue;
    }
    ++check.total;
    check.log_right += row.from_log == row.cause ? 1U : 0U;
    check.results_right += row.from_results == row.cause ? 1U : 0U;
  }
  return check;
}

std::string text_of(const SelfCheck& check) {
  std::map<std::string, std::map<std::string, std::pair<int, int>>> counts;  // [cause][found] from the log, the results
  std::map<std::string, int> totals, in_state;
  for (const SelfCheck::Row& row : check.rows) {
    ++totals[row.cause];
    if (row.from_state == row.cause) ++in_state[row.cause];
    ++counts[row.cause][row.from_log].first;
    ++counts[row.cause][row.from_results].second;
  }
  std::string text = fmt::format("{:<20} {:>5} {:>10} {:>13} {:>9}  {}\n", "fault", "runs", "log right",
                                 "results right", "in state", "found first instead");
  for (const auto& [cause, found] : counts) {
    std::string others;
    std::pair<int, int> right;
    for (const auto& [code, times] : found) {
      if (code == cause) right = times;
      if (code == cause) continue;
      if (times.first > 0) others += fmt::format(" {} x {} (log)", times.first, code);
      if (times.second > 0) others += fmt::format(" {} x {} (results)", times.second, code);
    }
    text += fmt::format("{:<20} {:>5} {:>10} {:>13} {:>9} {}\n", cause, totals[cause], right.first, right.second,
                        in_state[cause], others);
  }
  for (const SelfCheck::Row& row : check.rows) {
    if (row.from_log == row.cause && row.from_results == row.cause) continue;
    text += fmt::format("not found: {} in {} at {}: log {}, results {}\n", row.cause, row.scenario, row.place,
                        row.from_log, row.from_results);
  }
  const auto percent = [&](std::size_t right) {
    return check.total == 0 ? 100.0 : 100.0 * static_cast<double>(right) / static_cast<double>(check.total);
  };
  return text + fmt::format(
                    "right first: {:.1f} % from the log, {:.1f} % from the results, of {} runs; {} of {} healthy runs "
                    "with a cause\n{}\n",
                    percent(check.log_right), percent(check.results_right), check.total, check.healthy_wrong,
                    check.healthy,
                    check.passed() ? "passed" : "FAILED: expects 90 % each, and no cause in a healthy run");
}

document::Value json_of(const SelfCheck& check) {
  document::Value json{{"passed", check.passed()},        {"runs", check.total},
                       {"log_right", check.log_right},    {"results_right", check.results_right},
                       {"healthy", check.healthy},        {"healthy_wrong", check.healthy_wrong},
                       {"rows", document::Value::array()}};
  for (const SelfCheck::Row& row : check.rows) {
    json["rows"].push_back({{"scenario", row.scenario},
                            {"cause", row.cause},
                            {"place", row.place},
                            {"from_log", row.from_log},
                            {"from_results", row.from_results},
                            {"from_state", row.from_state}});
  }
  return json;
}

}  // namespace meshbed::testbed::diagnose
