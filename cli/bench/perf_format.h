#pragma once
// The sizes of a sweep, and the columns of nccl-tests 2.19.

#include "cli/workload/collective.h"

namespace meshbed::cli {

/// "8", "64K", "256M", "1G" in powers of 1024, as nccl-tests reads them; throws std::runtime_error otherwise.
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

/// The two heading lines over the rows, and one row of `wanted`. `check`: false prints N/A for #wrong.
std::string perf_heading();
std::string perf_row(const CollectiveCase& wanted, const CollectiveShape& shape, const CaseResults& out_of_place,
                     const CaseResults& in_place, double bus_factor, bool check);

}  // namespace meshbed::cli
