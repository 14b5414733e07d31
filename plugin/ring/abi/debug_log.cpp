#include "plugin/ring/abi/debug_log.h"

#include <algorithm>

namespace meshbed::ring {
namespace {

constexpr std::uint64_t kRecordsMostEncoded = 1U << 20;

Result<std::uint64_t> capacity_of(std::uint64_t bytes) {
  if (bytes < debug_log_bytes(0) || (bytes - debug_log_bytes(0)) % (kDebugRecordWords * kWordBytes) != 0) {
    return refused("a debug log of " + std::to_string(bytes) + " bytes: not a cursor of " + std::to_string(kWordBytes) +
                   " and records of " + std::to_string(kDebugRecordWords * kWordBytes));
  }
  return (bytes - debug_log_bytes(0)) / (kDebugRecordWords * kWordBytes);
}

std::uint64_t record_word(std::uint64_t index) { return kDebugRecordsWord + index * kDebugRecordWords; }

}  // namespace

Result<std::vector<std::uint8_t>> encode_debug_log(std::uint64_t capacity) {
  if (capacity > kRecordsMostEncoded) {
    return refused("a debug log of " + std::to_string(capacity) + " records: more than " +
                   std::to_string(kRecordsMostEncoded) + " are not made room for");
  }
  return std::vector<std::uint8_t>(debug_log_bytes(capacity));
}

Result<void> append(MutableBytes log, const DebugRecord& record) {
  const Result<std::uint64_t> capacity = capacity_of(log.size());
  if (!capacity) return capacity.error();
  const Word cursor = load_word(log.data(), kDebugCursorWord);
  store_word(log.data(), kDebugCursorWord, cursor + kDebugRecordWords);
  if (std::uint64_t{cursor} + kDebugRecordWords > *capacity * kDebugRecordWords) return ok();
  const std::uint64_t at = kDebugRecordsWord + std::uint64_t{cursor};
  store_word(log.data(), at, record.format);
  store_word(log.data(), at + 1, record.arg1);
  store_word(log.data(), at + 2, record.arg2);
  store_word(log.data(), at + 3, record.slot_base);
  return ok();
}

Result<DebugLog> decode_debug_log(Bytes log, Mode mode) {
  const Result<std::uint64_t> capacity = capacity_of(log.size());
  if (!capacity) return capacity.error();
  const Word cursor = load_word(log.data(), kDebugCursorWord);
  DebugLog decoded;
  decoded.capacity = *capacity;
  const std::uint64_t room = *capacity * kDebugRecordWords;
  decoded.torn = cursor % kDebugRecordWords != 0;
  // Quirk debug-cursor.
  if (mode == Mode::kStrict && (cursor > room || decoded.torn)) {
    return refused("the cursor of the debug log is " + std::to_string(cursor) + ": " +
                   (cursor > room ? "beyond the " + std::to_string(room) + " words of its records"
                                  : "not a multiple of " + std::to_string(kDebugRecordWords)) +
                   "; safe mode reads what is there");
  }
  if (cursor > room) decoded.dropped = (cursor - room) / kDebugRecordWords;
  const std::uint64_t records = std::min<std::uint64_t>(cursor, room) / kDebugRecordWords;
  decoded.records.reserve(records);
  for (std::uint64_t index = 0; index < records; ++index) {
    const std::uint64_t at = record_word(index);
    decoded.records.push_back({.format = load_word(log.data(), at),
                               .arg1 = load_word(log.data(), at + 1),
                               .arg2 = load_word(log.data(), at + 2),
                               .slot_base = load_word(log.data(), at + 3)});
  }
  return decoded;
}

}  // namespace meshbed::ring
