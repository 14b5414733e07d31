#pragma once
// The table of a sweep.

#include <cstddef>
#include <vector>

#include "testbed/plot/plot.h"
#include "testbed/result/document.h"
#include "testbed/sweep/measured.h"
#include "testbed/sweep/sweep.h"

namespace meshbed::testbed::sweep {

/// For each point the index of that which it is compared with; its own where there is none.
/// Throws std::runtime_error for a baseline that is not one of the varied values.
std::vector<std::size_t> baselines_of(const Options& options, const std::vector<Point>& points);

/// Times over the first varied key, a series for each combination of the others and what fails.
Plot plot_of(const Options& options, const document::Table& points);

/// A row for each point, in order.
document::Document document_of(const Options& options, const std::vector<Point>& points,
                               const std::vector<Measured>& measured);

}  // namespace meshbed::testbed::sweep
