#include "sim/cuda/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plugin/base/log.h"
#include "sim/perfetto/demangled.h"
#include "sim/perfetto/track_writer.h"

namespace meshbed::sim::cuda {
namespace {

double microseconds(Picoseconds time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerMicrosecond);
}

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= ' ') result += c;
  }
  return result + '"';
}

std::string track_events_of(const Record& record) {
  using namespace perfetto;
  TrackWriter writer;
  const Track program = writer.process(1, "program");
  std::vector<const Span*> spans;
  for (const Span& span : record.spans) spans.push_back(&span);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span* left, const Span* right) { return left->begin_ps < right->begin_ps; });
  std::map<std::string, Lanes> streams;
  for (const Span* span : spans) {
    perfetto::Event event = writer.event(span->track == kCallTrack ? "cuda" : "gpu",
                                         span->grid.empty() ? span->name : demangled(span->name));
    if (!span->grid.empty()) event.argument("grid", span->grid);
    if (span->bytes > 0) event.argument("bytes", span->bytes);
    streams.try_emplace(span->track, writer, program, span->track)
        .first->second.slice(span->begin_ps, span->end_ps, event);
  }
  return writer.finish();
}

}  // namespace

void keep_call(Record& record, const char* name, ProcessKey process, const std::pair<Picoseconds, Picoseconds>& time) {
  std::string& last = record.last_calls[process];
  if (time.first == time.second && last == name) return;
  last = name;
  record.keep({.name = name, .track = kCallTrack, .process = process, .begin_ps = time.first, .end_ps = time.second});
}

void warn_of_lost_spans(const Record& record) {
  if (record.lost_spans == 0) return;
  MESHBED_WARN("the time line leaves out the last %llu calls and things that GPUs did: it has no more than %zu",
               static_cast<unsigned long long>(record.lost_spans), Record::kMostSpans);
}

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

std::string perfetto_of(const Record& record, bool json) {
  if (!json) return track_events_of(record);
  // What the GPUs did alone.
  std::vector<std::string> tracks;
  for (const Span& span : record.spans) {
    if (span.track == kCallTrack) continue;
    if (std::find(tracks.begin(), tracks.end(), span.track) == tracks.end()) tracks.push_back(span.track);
  }
  std::string text = "{\"traceEvents\":[";
  for (std::size_t track = 0; track < tracks.size(); ++track) {
    text += fmt::format("{}{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":{},\"args\":{{\"name\":{}}}}}",
                        track == 0 ? "\n" : ",\n", track, json_text(tracks[track]));
  }
  for (const Span& span : record.spans) {
    if (span.track == kCallTrack) continue;
    const auto track = std::find(tracks.begin(), tracks.end(), span.track) - tracks.begin();
    text += fmt::format(",\n{{\"ph\":\"X\",\"name\":{},\"pid\":0,\"tid\":{},\"ts\":{:.6f},\"dur\":{:.6f}}}",
                        json_text(span.name), track, microseconds(span.begin_ps),
                        microseconds(span.end_ps - span.begin_ps));
  }
  return text + "\n]}\n";
}

}  // namespace meshbed::sim::cuda
