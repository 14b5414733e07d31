// An arbitrary recording of a ring: it is read, or refused with a message, as is the published work in it. The first
// byte chooses the mode.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "plugin/ring/telemetry/recorded_work.h"

using namespace meshbed::ring;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto recording = read_recording(Bytes(data + 1, size - 1));
  if (!recording) {
    if (recording.error().text.empty()) std::abort();
    return 0;
  }
  const auto work = recorded_work(*recording, data[0] % 2 == 0 ? Mode::kSafe : Mode::kStrict);
  if (!work) {
    if (work.error().text.empty()) std::abort();
    return 0;
  }
  std::uint64_t before_ns = 0;
  for (const RecordedItem& item : work->items) {
    if (item.slot >= work->slots || item.level >= priority::kLevels) std::abort();
    if (item.at_ns < before_ns || item.at_ns > work->span_ns) std::abort();
    before_ns = item.at_ns;
  }
  return 0;
}
