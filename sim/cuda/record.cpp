#include "sim/cuda/record.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshbed::sim::cuda {
namespace {

double microseconds(Picoseconds time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerMicrosecond);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= ' ') result += c;
  }
  return result + '"';
}

}  // namespace

std::string summary_of(const Record& record, const std::string& gpu, Picoseconds ended_ps) {
  std::string text = fmt::format("simulated GPU {}: {:.3f} us in all\n", gpu, microseconds(ended_ps));
  if (!record.kernels.empty()) {
    text += fmt::format("{:>10} {:>10} {:>14} {:>10} {:>14} {:>14}  {}\n", "launches", "blocks", "time us", "occupancy",
                        "memory bytes", "instructions", "kernel");
  }
  for (const auto& [name, kernel] : record.kernels) {
    text += fmt::format("{:>10} {:>10} {:>14.3f} {:>8.0f} % {:>14} {:>14}  {}\n", kernel.launches, kernel.blocks,
                        microseconds(kernel.time_ps), kernel.occupancy * 100,
                        kernel.counts.global_bytes_read + kernel.counts.global_bytes_written,
                        kernel.counts.lane_instructions, name);
  }
  if (!record.copies.empty()) text += fmt::format("{:>10} {:>14} {:>14}\n", "copies", "bytes", "time us");
  for (const auto& [name, copy] : record.copies) {
    text += fmt::format("{:>10} {:>14} {:>14.3f}  {}\n", copy.copies, copy.bytes, microseconds(copy.time_ps), name);
  }
  return text;
}

std::string perfetto_of(const Record& record) {
  std::vector<std::string> tracks;
  for (const Span& span : record.spans) {
    if (std::find(tracks.begin(), tracks.end(), span.track) == tracks.end()) tracks.push_back(span.track);
  }
  std::string text = "{\"traceEvents\":[";
  for (std::size_t track = 0; track < tracks.size(); ++track) {
    text += fmt::format("{}{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":{},\"args\":{{\"name\":{}}}}}",
                        track == 0 ? "\n" : ",\n", track, quoted(tracks[track]));
  }
  for (const Span& span : record.spans) {
    const auto track = std::find(tracks.begin(), tracks.end(), span.track) - tracks.begin();
    text +=
        fmt::format(",\n{{\"ph\":\"X\",\"name\":{},\"pid\":0,\"tid\":{},\"ts\":{:.6f},\"dur\":{:.6f}}}",
                    quoted(span.name), track, microseconds(span.begin_ps), microseconds(span.end_ps - span.begin_ps));
  }
  return text + "\n]}\n";
}

}  // namespace meshbed::sim::cuda
