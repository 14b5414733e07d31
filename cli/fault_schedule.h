#pragma once
// Random fault schedules: from a number to a scenario file. A small cluster, a small all-reduce, and cables, ports and
// nodes that fail and come back while it runs. Equal numbers give equal files, on every machine.

#include <cstdint>
#include <string>

namespace meshbed::cli {

/// The text of a scenario file. All its faults end, soon enough for every connection to be taken up again.
std::string fault_schedule(std::uint64_t seed);

}  // namespace meshbed::cli
