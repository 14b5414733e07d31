#pragma once
// Left out: every measured file predicted without itself, and the intervals that follow.
//
// Nomenclature: source - a file; e - ln(measured / predicted); group - points of one distance
// (models/time/interval_table.h).
// Each choice is made without the source: the class, the common values of classes, the fit. The following are left out
// in turn:
//   the source              if its class has other sources, from which it is predicted
//   one kind of calls       of a class, from all its sources; predicted from other operations, settings and ranks
//   the sizes above a 16th  of the largest of each kind of a class
//   the class               all profiles that share it: predicted from the class that passes the gates, or none; and
//                           from the data sheet of its own profile, with values of other classes and without
// Cost: about four fits a source.

#include <cstddef>
#include <string>
#include <vector>

#include "models/fit/pool.h"
#include "models/time/interval.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

struct LeftOutPoint {
  std::string source;
  models::Distance distance = models::Distance::kBare;
  std::string gate, sizes;
  double wider = 1;  // widened_by() of how far its size lies beyond those that were fitted
  double measured_us = 0, predicted_us = 0;
};

/// All points of files of quality A and B.
std::vector<LeftOutPoint> leave_sources_out(const std::vector<MeasuredFile>& files,
                                            const std::vector<models::Machine>& profiles);

/// The interval of each distance, gate and size class that holds 9 of 10 points; a source weighs as the square root of
/// its points. A cell of few sources leans on that of all gates, and this on that of all sizes, which counts as much as
/// three more sources.
/// `without`: a source that is not counted, so that its own points can be judged; empty: none.
models::IntervalTable make_interval_table(const std::vector<LeftOutPoint>& points, const std::string& without = "");

/// One line of the page: a group's errors, and how intervals did that were made without each source in turn.
struct GroupScore {
  models::Distance distance = models::Distance::kBare;
  std::size_t points = 0, sources = 0;
  double median = 0, p90 = 0;            // of |predicted / measured - 1|, each source weighing the same
  double inside = 0;                     // part of the points
  double width = 0;                      // median of (high - low) / predicted
  double score = 0, constant_score = 0;  // interval scores of logarithms, lower is better: these, and one band for all
};
std::vector<GroupScore> score_groups(const std::vector<LeftOutPoint>& points);

/// The page's section.
std::string left_out_sources_section(const std::vector<GroupScore>& groups);

}  // namespace meshbed::testbed
