#pragma once
// Record: what the GPUs did, for a summary and a picture. Filled as work ends.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/units.h"
#include "sim/cuda/host.h"
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

/// One thing that a GPU did, or a call, for the picture.
struct Span {
  std::string name;   // of a kernel its symbol
  std::string track;  // "GPU 0, stream 3"; kCallTrack
  ProcessKey process = nullptr;
  Picoseconds begin_ps = 0, end_ps = 0;
  std::string grid{};       // of a kernel: "108x1x1 blocks of 256x1x1"
  std::uint64_t bytes = 0;  // of a copy or fill
};

inline constexpr const char* kCallTrack = "CUDA calls";  // of what a program does itself

struct Record {
  static constexpr std::size_t kMostSpans = 1'000'000;
  bool keeps_spans = false;
  std::uint64_t lost_spans = 0;  // over the most
  std::map<std::string, KernelTotals> kernels{};
  std::map<std::string, CopyTotals> copies{};  // "host to device", "device to host", "inside the device", "fill"
  std::vector<Span> spans{};
  std::map<ProcessKey, std::string> last_calls{};  // of which spans are kept

  /// Unless there are too many.
  void keep(Span span) {
    if (spans.size() < kMostSpans) {
      spans.push_back(std::move(span));
    } else {
      ++lost_spans;
    }
  }
};

/// A call of a program's. One that takes no time and follows one of its name in that process, as in a loop that polls,
/// is left out.
void keep_call(Record& record, const char* name, ProcessKey process, const std::pair<Picoseconds, Picoseconds>& time);
/// A table of what was done, for people.
std::string summary_of(const Record& record, const std::string& gpu, Picoseconds ended_ps);
/// One WARN where the record has not kept everything.
void warn_of_lost_spans(const Record& record);
/// What the GPUs did on one time line, in Perfetto's format; `json`: in Chrome's, which it reads, too.
std::string perfetto_of(const Record& record, bool json);

}  // namespace meshbed::sim::cuda
