#pragma once
// Self-check: each reproducible cause in each built-in scenario, run, and diagnosed from the log and from the results.

#include <cstddef>
#include <functional>
#include <string>

#include "testbed/result/document.h"

namespace meshbed::testbed::diagnose {

struct SelfCheckOptions {
  std::size_t places = 2;    // of each cause in each scenario
  std::size_t healthy = 10;  // runs without a fault of each scenario, by seed
  std::string only;          // a cause's code; empty: all
  int workers = 1;           // runs at one time
};

struct SelfCheck {
  struct Row {
    std::string scenario, cause, place, from_log, from_results;  // the first cause; "none"
    std::string from_state;  // the same of the scenario alone, as an archive of the machines shows it
  };
  std::vector<Row> rows;
  std::size_t log_right = 0, results_right = 0, total = 0;  // of rows with a cause
  std::size_t healthy = 0, healthy_wrong = 0;
  /// At least 90 % right from each, and no cause in a healthy run.
  bool passed() const;
};

/// `on_run(done, total)` is called after each run, by one thread at a time.
SelfCheck self_check(const SelfCheckOptions& options,
                     const std::function<void(std::size_t done, std::size_t total)>& on_run);

/// The confusion table: a row for each cause, with what was found first and how often.
std::string text_of(const SelfCheck& check);
document::Value json_of(const SelfCheck& check);

}  // namespace meshbed::testbed::diagnose
