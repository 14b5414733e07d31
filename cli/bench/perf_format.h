#pragma once
// The sizes of a sweep, and the columns of nccl-tests 2.19.

#include <optional>
#include <string>
#include <vector>

#include "testbed/workload/collective.h"

namespace meshbed::testbed {

/// "8", "64K", "256M", "6.9G" in powers of 1024, rounded down, as nccl-tests reads them (its src/common.cu, parsesize:
/// what follows the letter, as in "8KB", it does not look at; here it is B or iB); throws std::runtime_error otherwise.
std::uint64_t parse_size(const std::string& text);

struct SweepOptions {
  std::uint64_t min_bytes = 32 * kMiB;
  std::uint64_t max_bytes = 32 * kMiB;
  std::uint64_t step_bytes = 1 * kMiB;
  std::uint64_t step_factor = 1;  // > 1: sizes are multiplied instead
};
/// The sizes that nccl-tests would run; throws std::runtime_error where there are none, or no end of them.
std::vector<std::uint64_t> sweep_sizes(const SweepOptions& options);

/// A figure as nccl-tests 2.19 prints it in `width` columns: as many decimals as fit, two at most.
std::string figure(double value, int width);

/// Of the iterations' times, in microseconds of an operation, as nccl-tests' computeIterStats has them (its
/// src/util.cu): percentiles by nearest rank, the deviation of all.
struct IterationStatistics {
  std::vector<double> times_us;  // all of them, also those that the numbers below leave out
  double min_us = 0, max_us = 0, average_us = 0, p50_us = 0, p95_us = 0, p99_us = 0, deviation_us = 0;

  /// Of the average.
  double deviation_percent() const { return average_us > 0 ? deviation_us / average_us * 100 : 0; }
};
/// `skip`: so many of the first are left out, fewer than there are.
IterationStatistics iteration_statistics(const CaseResults& board, int skip);

/// What a table shows.
struct PerfColumns {
  bool check = true;                // false prints N/A for #wrong
  std::optional<int> iterations{};  // -I 1: their statistics, too, without so many of the first
};
/// The heading lines over the rows, and one row of `wanted`.
std::string perf_heading(const PerfColumns& columns);
std::string perf_row(const CollectiveCase& wanted, const CollectiveShape& shape, const CaseResults& out_of_place,
                     const CaseResults& in_place, double bus_factor, const PerfColumns& columns);
/// "sum", or "none" where the operation does not reduce; the root, or -1.
std::string reduction_text(const CollectiveCase& wanted);
int root_text(const CollectiveCase& wanted);

}  // namespace meshbed::testbed
