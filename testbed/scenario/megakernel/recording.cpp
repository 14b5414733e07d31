// A megakernel's work from a recording of a ring, instead of generated items.
#include <fmt/format.h>

#include <stdexcept>

#include "plugin/ring/telemetry/recorded_work.h"
#include "testbed/base/files.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {
namespace {

/// What the recording says, and a scenario with one does not.
constexpr const char* kOfRecordings[] = {"items",      "arrivals", "arrival_gap", "tenants",
                                         "priorities", "mix",      "faulty_item"};

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr std::uint64_t kSpanMost_ns = 24 * 3600 * kNanosecondsPerSecond;

Result<ring::RecordedWork> read_work(const std::string& path, ring::Mode mode) {
  std::vector<std::uint8_t> bytes;
  try {
    bytes = read_bytes(path);
  } catch (const std::runtime_error& problem) {
    return Error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = problem.what()};
  }
  const auto of_file = [&](const Error& error) {
    return Error{.code = error.code, .scope = error.scope, .text = path + ": " + error.text};
  };
  const Result<ring::Recording> recording = ring::read_recording(bytes);
  if (!recording) return of_file(recording.error());
  Result<ring::RecordedWork> work = ring::recorded_work(*recording, mode);
  if (!work) return of_file(work.error());
  return work;
}

}  // namespace

void take_recording(const MegakernelSpec& spec, const std::string& path, Diagnostics& diagnostics, Megakernel& result) {
  for (const char* key : kOfRecordings) {
    if (spec.has(key)) diagnostics.add(spec.at(key), fmt::format("{}: the recording says it; leave it out", key));
  }
  Result<ring::RecordedWork> work = read_work(path, result.strict ? ring::Mode::kStrict : ring::Mode::kSafe);
  if (!work) return diagnostics.add(spec.at("recording"), "recording: " + work.error().text);
  if (work->items.empty()) {
    return diagnostics.add(
        spec.at("recording"),
        fmt::format("recording: {}: no snapshot shows a slot with work; there is nothing to publish", path));
  }
  if (work->span_ns > kSpanMost_ns) {
    return diagnostics.add(spec.at("recording"),
                           fmt::format("recording: {}: from its first to its last snapshot {} s; {} at most", path,
                                       work->span_ns / kNanosecondsPerSecond, kSpanMost_ns / kNanosecondsPerSecond));
  }
  result.items = static_cast<int>(work->items.size());
  result.tenants = static_cast<int>(ring::kTenantMasksMost);  // whose masks are the recording's
  if (!spec.has("slots")) result.slots = static_cast<int>(work->slots);
  result.recorded = std::make_shared<const ring::RecordedWork>(*std::move(work));
}

}  // namespace meshbed::testbed
