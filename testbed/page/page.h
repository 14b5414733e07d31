#pragma once
// Page: results as one HTML file that needs nothing beside it. A rendering of the documents that a results folder
// holds: pure functions of its files, the same bytes for the same digest.
//
// The file loads nothing: its style sheet and its script (testbed/page/bundle) are in it, and its content security
// policy forbids the rest. Without the script everything but the timeline is there.

#include <cstddef>
#include <string>
#include <vector>

#include "testbed/page/source.h"

namespace meshbed::testbed::page {

inline constexpr std::size_t kPageMostBytes = 5'000'000;

/// Of these, in order. Long lists are thinned until the page has kPageMostBytes at most, which it says.
std::string page_of(const std::vector<Source>& sources);

/// Of the results in these folders, with the rows of files of measured times beside the curves of sweeps. Throws
/// std::runtime_error as read_results() and read_measured_curves() do, and for measured times without a sweep over
/// sizes.
std::string report_page(const std::vector<std::string>& folders, const std::vector<std::string>& measured = {});

/// What a page says of one run or sweep.
struct Part {
  std::string title;     // "ring8 (sim)"
  bool good = true;      // nothing failed
  std::string verdict;   // "Passed", "Failed", "12 of 20 points ok"
  std::string lead;      // what ran, how fast, how far from the bound, what failed
  std::string contents;  // links to its sections
  std::string html;      // the sections
};
/// `prefix` of the ids in it.
Part run_part(const RunSource& source, const std::string& prefix, const Budget& budget);
/// Sizes are varied, so that curves stand in its part.
bool has_curves(const SweepSource& source);
Part sweep_part(const SweepSource& source, const std::string& prefix, const Budget& budget);

}  // namespace meshbed::testbed::page
