#pragma once
// Every decoder on the same bytes, as the fuzzer and the mutation test drive them.

#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/abi/packed.h"
#include "plugin/ring/abi/task.h"
#include "plugin/ring/queue/recording.h"
#include "plugin/ring/telemetry/sketch_telemetry.h"
#include "plugin/ring/telemetry/transitions.h"

namespace meshbed::test {

struct Decoded {
  int accepted = 0, refused = 0, silent = 0;  // silent: refused without a word

  template <typename Result>
  bool count(const Result& result) {
    ++(result ? accepted : refused);
    if (!result && result.error().text.empty()) ++silent;
    return result.has_value();
  }
};

inline Decoded decode_everything(ring::Bytes bytes) {
  using namespace meshbed::ring;
  Decoded decoded;
  for (const Mode mode : {Mode::kStrict, Mode::kSafe}) decoded.count(decode_debug_log(bytes, mode));
  decoded.count(decode_io_queue(bytes));
  decoded.count(decode_tasks(bytes));
  for (const Abi abi : {Abi::k2026_04, Abi::k2026_05}) {
    const Layout& layout = layout_of(abi);
    decoded.count(decode_control(bytes, layout));
    (void)doubt_of_layout(bytes, layout);
    const std::size_t least = layout.control_min_words * kWordBytes;
    if (bytes.size() < least) continue;
    const Bytes ring = bytes.subspan(least);
    const Result<RingTelemetry> telemetry = decode_telemetry(bytes.first(least), ring, layout, Mode::kSafe);
    if (!decoded.count(telemetry)) continue;
    (void)windows_of(telemetry->slots, {0, 8}, Mode::kStrict);
    decoded.count(sketch_of(*telemetry, {.depth = 2, .width = 16}));
    for (std::size_t slot = 0; slot < telemetry->slots.size(); ++slot) {
      decoded.count(decode_packed(*decode_slot(ring, layout, slot), layout));
    }
  }
  const Result<Recording> recording = read_recording(bytes);
  if (!decoded.count(recording)) return decoded;
  SnapshotChecker checker(Mode::kSafe);
  for (const auto& one : recording->snapshots) {
    const auto telemetry = decode_telemetry(one.control, one.ring, layout_of(recording->shape.abi), Mode::kSafe);
    if (decoded.count(telemetry)) checker.add(*telemetry);
  }
  if (checker.first() && to_text(*checker.first()).empty()) ++decoded.silent;
  return decoded;
}

}  // namespace meshbed::test
