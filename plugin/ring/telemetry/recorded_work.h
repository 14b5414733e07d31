#pragma once
// RecordedWork: what a recording (plugin/ring/queue/recording.h) shows of the work that its hosts published, so that it
// can be published again at the same times.
//
// A snapshot shows each slot at one moment. An item counts as published when the first snapshot shows it, so it is late
// by at most the time between two snapshots. A slot whose words are unchanged and which is not queued again counts as
// the same item. Items that were published and done between two snapshots are not seen: the done count gives their
// number.

#include <array>
#include <cstdint>
#include <vector>

#include "plugin/ring/abi/slot.h"
#include "plugin/ring/queue/recording.h"

namespace meshbed::ring {

struct RecordedItem {
  std::uint64_t at_ns = 0;         // since the first snapshot
  Word slot = 0;                   // its index in the recorded ring
  Word level = priority::kNormal;  // whose partition the slot is in, where the control buffer has partitions
  Slot words{};                    // as it was first seen; its status is no more than that
  Word end = status::kDone;        // YIELD, REQUEUE or FAULT where a later snapshot shows that it came to it
};

struct RecordedWork {
  Abi abi = Abi::k2026_05;
  Word slots = 0;                                     // of the recorded ring
  std::uint64_t span_ns = 0;                          // from the first snapshot to the last
  std::vector<RecordedItem> items;                    // by time, then by slot
  std::uint64_t unseen = 0;                           // published and done between two snapshots, in none of them
  std::array<Word, kTenantMasksMost> tenant_masks{};  // of the first snapshot
};

/// Errors: no snapshot; an illegal step between snapshots (telemetry/transitions.h), named as there; as
/// decode_telemetry().
Result<RecordedWork> recorded_work(const Recording& recording, Mode mode);

}  // namespace meshbed::ring
