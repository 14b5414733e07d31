#pragma once
// Verdict: why a ring makes no progress. The ancestor's watchdog only reports that it suspects a stall, and not even
// that if a slot has faulted (vyre, commit ca35047); this one names the cause, from ring, control buffer and lanes
// alone.
//
// Pure; for a moment at which no lane is between claim and re-check. Cost: one look at each slot.

#include <cstdint>
#include <span>
#include <string>

#include "plugin/ring/kernel/kernel.h"

namespace meshbed::ring {

enum class Cause {
  kDrained,         // nothing is queued
  kLivelock,        // CRITICAL and HIGH are passed over, and there is nothing else (2.11)
  kWaitsForPeer,    // a lane waits in a WAIT
  kWaitsForOther,   // a lane waits for what another slot or the host must do
  kAbandonedClaim,  // CLAIMED, and no lane has it
  kTenantMasked,    // all that may be claimed is of tenants that may not run
  kOutOfQuota,      // likewise, of tenants that have used up their quota
  kFaulted,         // a slot has faulted, and no lane is at work
  kFlagBeforeData,  // a slot read a message whose flag was seen before its data; needs the landing times of data
  kWaitCycle,       // slots wait for each other in a cycle; needs all ranks' rings (wait_chain.h)
  kUnclaimed,       // there is work that a lane might claim, and none does: no lane runs, or none owns its slot
  kNotResident,     // its lane is a block that the GPU has no room for; needs the GPU's occupancy
  kMessageFailed,   // what moves its messages has ended with an error
};
/// "drained", "livelock", "stalled-peer", "waiting", "abandoned-claim", "tenant-masked", "out-of-quota",
/// "faulted-slot", "flag-before-data", "wait-cycle", "unclaimed", "not-resident", "message-failed": as [expect] writes
/// them.
const char* name_of(Cause cause);

struct Tally {
  Word by_status[status::kCount] = {};
  Word unknown = 0;
  /// 2.8: published, claimed, waiting for IO, yielded, requeued, faulted and unknown.
  Word queue_depth() const;
};
Tally tally_of(const Kernel& kernel);

/// What the ancestor's watchdog suspects (2.8), from two looks at DONE_COUNT. The count may go round.
inline bool suspects_stall(const Tally& tally, Word done_delta) {
  return tally.queue_depth() > 0 && done_delta == 0 && tally.by_status[status::kFault] == 0;
}

struct Verdict {
  Cause cause = Cause::kDrained;
  Tally tally{};
  Word slot = 0;       // the first that shows it; not of kDrained and kLivelock
  std::string text{};  // "slot 3 waits for message 4 of connection 0": what and where
};

/// Of a ring that has got nothing done for a while, or is drained.
Verdict verdict_of(const Kernel& kernel, std::span<const KernelLane> lanes);

}  // namespace meshbed::ring
