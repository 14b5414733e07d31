#pragma once
// NcclComparison: a sweep on NVIDIA's NCCL, as built by the user, and the same on the drop-in, in virtual time. Each
// runs in a separate process; the ranks' program is cli/nccl/program/sweep.cpp.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/nccl/program_run.h"
#include "models/algorithm.h"
#include "testbed/result/document.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

struct NcclPoint {
  models::Collective operation = models::Collective::kAllReduce;
  std::uint64_t bytes = 0;  // CollectiveShape::bytes
  bool operator==(const NcclPoint&) const = default;
};

/// all_reduce, all_gather, reduce_scatter, broadcast.
std::vector<std::string> compared_operations();

/// What one run came to.
struct NcclTimes {
  std::string failure;                         // the run's own words; empty: it ended well
  std::vector<std::optional<double>> time_us;  // [point], of the slowest rank; nullopt: a rank printed none
};
/// Reads a run's output: the ranks' lines are "rank0: {...}".
NcclTimes read_sweep(const std::string& output, int status, const std::vector<NcclPoint>& points, int ranks);

/// How a library carried out a point, as it announced it to its profiler: what most calls took. nullopt: it did not.
using NcclChoice = std::optional<NcclDecision>;
/// `summary`: a run's summary.json.
NcclChoice choice_of(const nlohmann::json& summary, const NcclPoint& point);
/// "RING LL 2": algorithm, protocol, channels; "-": not announced.
std::string text_of(const NcclChoice& choice);

struct ComparedPoint {
  NcclPoint point;
  double nccl_us = 0, dropin_us = 0;
  double bound_us = 0;  // BoundTable's for every algorithm; 0: none
  NcclChoice nccl_chose{}, dropin_chose{};
  double ratio() const { return dropin_us / nccl_us; }
  bool dropin_is_slower() const { return dropin_us > nccl_us; }
};

struct NcclComparison {
  std::string failure;  // of the run that did not end well; empty: both did
  int ranks = 0;
  std::vector<ComparedPoint> points;
};

/// `run.results` gets a folder for each library. Throws std::runtime_error where nothing can be run.
NcclComparison compare_nccl(const ProgramRun& run, const std::vector<models::Collective>& operations,
                            const std::vector<std::uint64_t>& sizes_bytes);

/// `version`: of `run.library`.
document::Document comparison_document(const std::string& version, const ProgramRun& run,
                                       const NcclComparison& comparison);

}  // namespace meshbed::testbed
