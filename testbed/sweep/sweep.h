#pragma once
// Sweep: the variants of a scenario, each run in the simulated world by a separate process, as one table.
//
// Completed points are recorded in a journal, so that an interrupted sweep can be resumed. The table is in the order of
// the points, not in the order of their completion: the same points give the same bytes.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "testbed/result/document.h"
#include "testbed/sweep/part.h"
#include "testbed/sweep/points.h"

namespace meshbed::testbed::sweep {

struct Options {
  std::string scenario_path;
  std::vector<std::string> overrides;  // of all points, as --set takes them
  std::vector<std::string> faults;     // of all points, as --fault takes them
  std::vector<Axis> axes;
  std::vector<Values> points;  // one value for each axis
  Fail fail = Fail::kNothing;
  std::string fail_at;              // empty: from the start
  std::string baseline;             // "KEY=VALUE"; empty: the intact variant, without --fail the first point
  double time_limit_s = 0;          // of one point, wall-clock; 0: none
  std::size_t points_max = 100000;  // failures included
  int workers = 1;                  // runs at one time
  std::string journal;              // a file; empty: none
  bool resume = false;              // take over what the journal has of this sweep
  Part part;                        // of several processes with the same journal, which each keep one of their own
};

struct Outcome {
  bool is_whole = true;  // false: other parts have not ended; there is no table
  document::Document table;
  std::size_t points = 0;   // of the whole sweep
  std::size_t failed = 0;   // points whose status is not "ok"; of a part that is not the last one, its own
  std::size_t resumed = 0;  // points that the journal had
};

/// `on_point(done, total)` is called after each point, by one thread at a time. Throws ScenarioError for a scenario
/// that cannot be read, and std::runtime_error for an axis whose values are all refused, too many points, or a journal
/// of another sweep. A point that fails, is refused or reaches its time limit is a row of the table.
Outcome run(const Options& options, const std::function<void(std::size_t done, std::size_t total)>& on_point);

}  // namespace meshbed::testbed::sweep
