#pragma once
// Record: what the GPUs did, for a summary and a picture. Filled as work ends.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugin/base/units.h"
#include "sim/cuda/ptx/machine.h"

namespace meshbed::sim::cuda {

struct KernelTotals {
  std::uint64_t launches = 0, blocks = 0;
  Picoseconds time_ps = 0;
  double occupancy = 0;  // of the last launch: resident threads over those that the SMs hold
  ptx::Counts counts{};
};

struct CopyTotals {
  std::uint64_t copies = 0, bytes = 0;
  Picoseconds time_ps = 0;
};

/// One thing that a GPU did, for the picture.
struct Span {
  std::string name;
  std::string track;  // "GPU 0, stream 3"
  Picoseconds begin_ps = 0, end_ps = 0;
};

struct Record {
  bool keeps_spans = false;
  std::map<std::string, KernelTotals> kernels{};
  std::map<std::string, CopyTotals> copies{};  // "host to device", "device to host", "inside the device", "fill"
  std::vector<Span> spans{};
};

/// A table of what was done, for people.
std::string summary_of(const Record& record, const std::string& gpu, Picoseconds ended_ps);
/// Chrome's trace format, which Perfetto reads.
std::string perfetto_of(const Record& record);

}  // namespace meshbed::sim::cuda
