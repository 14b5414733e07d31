#pragma once
// The debug log: what PRINTF left behind (vyre, commit ca35047).

#include <cstdint>
#include <vector>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {

struct DebugRecord {
  Word format = 0;
  Word arg1 = 0, arg2 = 0;
  Word slot_base = 0;  // word index of the slot that printed: 16 times its own

  bool operator==(const DebugRecord&) const = default;
};

struct DebugLog {
  std::vector<DebugRecord> records;
  std::uint64_t capacity = 0;  // records
  std::uint64_t dropped = 0;   // records that found no room
  bool torn = false;           // the cursor stands within a record
};

/// An empty log for so many records. Errors: more than 2^20.
Result<std::vector<std::uint8_t>> encode_debug_log(std::uint64_t capacity);

/// As the kernel does it: the cursor goes on where there is no room. Errors: as check_debug_log().
Result<void> append(MutableBytes log, const DebugRecord& record);

/// Errors: no cursor, or bytes that are no whole records; strict: a cursor beyond the end or within a record.
Result<DebugLog> decode_debug_log(Bytes log, Mode mode);

}  // namespace meshbed::ring
