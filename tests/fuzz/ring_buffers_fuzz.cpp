// Arbitrary buffers beside a ring: control words, debug log, IO queue, windows. The first byte chooses one. The results
// must have the reader's guaranteed properties: sums that agree, records within the buffer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/telemetry/telemetry.h"
#include "plugin/ring/telemetry/window.h"

using namespace meshbed::ring;

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

void try_control(Bytes bytes) {
  for (const Abi abi : {Abi::k2026_04, Abi::k2026_05}) {
    const Layout& layout = layout_of(abi);
    const auto control = decode_control(bytes, layout);
    must(control.has_value() == check_control(bytes, layout).has_value());
    (void)doubt_of_layout(bytes, layout);
    if (!control) {
      must(!control.error().text.empty());
      continue;
    }
    for (const auto& [opcode, count] : control->metrics) must(opcode < kMetricsSlots && count != 0);
    for (const std::uint64_t index : {std::uint64_t{0}, bytes.size() / kWordBytes, ~std::uint64_t{0}}) {
      (void)observable(bytes, layout, index).has_value();
    }
    const auto word = [&](std::uint64_t index) { return load_word(bytes.data(), index); };
    for (const Word tenant : {Word{0}, kTenantMasksMost - 1, kTenantMasksMost, Word{0xffff'ffff}}) {
      for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
        (void)tenant_may_run(tenant, bytes.size() / kWordBytes, mode, word);
      }
    }
  }
}

void try_debug_log(Bytes bytes) {
  const auto safe = decode_debug_log(bytes, Mode::kSafe), strict = decode_debug_log(bytes, Mode::kStrict);
  must(safe || !safe.error().text.empty());
  if (!strict) {
    must(!strict.error().text.empty());
  } else {
    must(safe.has_value() && strict->records == safe->records && !strict->torn && strict->dropped == 0);
  }
  if (!safe) return;
  must(safe->records.size() <= safe->capacity && debug_log_bytes(safe->capacity) == bytes.size());
  std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  (void)append(copy, {.format = 1}).has_value();
}

/// The entries, and then one step of some side for each byte that follows them.
void try_io_queue(Bytes bytes) {
  const Bytes entries = bytes.first(std::min<std::size_t>(bytes.size(), kIoQueueBytes));
  const auto decoded = decode_io_queue(entries);
  std::vector<std::uint8_t> copy(entries.begin(), entries.end());
  for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
    auto queue = IoQueue::over(copy, mode);
    must(queue.has_value() == decoded.has_value());
    if (!queue) {
      must(!queue.error().text.empty());
      return;
    }
    for (const std::uint8_t step : bytes.subspan(entries.size())) {
      const Word entry = step >> 1U;  // half of them are beyond the queue
      switch (step % 5) {
        case 0:
          (void)queue->submit_load_miss(step).has_value();
          break;
        case 1:
          (void)queue->collect(entry).has_value();
          break;
        case 2:
          if (const auto polled = queue->poll()) must(queue->entry(*polled).status == status::kClaimed);
          break;
        case 3:
          (void)queue->complete(entry, step % 2 == 0).has_value();
          break;
        default:
          if (const auto served = queue->serve()) must(served->status == status::kDone);
          break;
      }
    }
  }
}

/// The first word is a window's opcode, the others a ring's.
void try_windows(Bytes bytes) {
  if (bytes.size() < kWordBytes) return;
  std::vector<SlotSnapshot> slots;
  const Bytes ring = bytes.subspan(kWordBytes);
  for (const Abi abi : {Abi::k2026_04, Abi::k2026_05}) {
    const auto occupancy = decode_ring(ring, layout_of(abi), slots);
    const auto alone = occupancy_of(ring);
    const auto done = count_done(ring);
    must(occupancy.has_value() == alone.has_value() && occupancy.has_value() == done.has_value());
    if (!occupancy) return;
    must(*occupancy == *alone && occupancy->of(status::kDone) == *done && occupancy->total() == slots.size());
    for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
      std::uint64_t in_windows = 0;
      for (const WindowTelemetry& window : windows_of(slots, {load_word(bytes.data(), 0), opcode::kNop}, mode)) {
        in_windows += window.required + window.lookahead;
      }
      must(in_windows <= slots.size());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      try_control(bytes);
      break;
    case 1:
      try_debug_log(bytes);
      break;
    case 2:
      try_io_queue(bytes);
      break;
    default:
      try_windows(bytes);
      break;
  }
  return 0;
}
