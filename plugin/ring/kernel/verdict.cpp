#include "plugin/ring/kernel/verdict.h"

#include <algorithm>
#include <optional>

#include "plugin/ring/kernel/mesh_ops.h"
#include "plugin/ring/kernel/scan.h"

namespace meshbed::ring {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

bool is_held(std::span<const KernelLane> lanes, Word slot) {
  return std::any_of(lanes.begin(), lanes.end(), [slot](const KernelLane& lane) {
    return lane.slot == slot && lane.phase != LanePhase::kScan && lane.phase != LanePhase::kStopped;
  });
}

/// The first slot of that status and, where asked for, held by a lane or by none.
std::optional<Word> first_of(const Kernel& kernel, std::span<const KernelLane> lanes, Word wanted,
                             std::optional<bool> held) {
  for (Word slot = 0; slot < kernel.slots; ++slot) {
    if (slot_at(kernel, slot)[slot_word::kStatus] != wanted) continue;
    if (!held || is_held(lanes, slot) == *held) return slot;
  }
  return std::nullopt;
}

/// Of a slot that a lane waits in.
Verdict waiting(const Kernel& kernel, Word slot) {
  const Word* const words = slot_at(kernel, slot);
  const Word* const args = words + kLayout2026_05.arg0_word;
  const Word op = words[slot_word::kOpcode];
  if (op == opcode::kWait) {
    return {.cause = Cause::kWaitsForPeer,
            .slot = slot,
            .text = "slot " + number(slot) + " waits for message " + number(args[mesh_arg::kMessage]) +
                    " of connection " + number(args[mesh_arg::kConnection])};
  }
  return {.cause = Cause::kWaitsForOther,
          .slot = slot,
          .text = "slot " + number(slot) + ", opcode " + number(op) + ", waits for another slot or for the host"};
}

/// What the slots come to that a lane might claim but for something; nothing where there are none.
std::optional<Verdict> unclaimed(const Kernel& kernel) {
  std::optional<Word> first, first_allowed;
  bool masked = false, all_high = kernel.by_priority;
  const Word normal = PlainWords::load(kernel.control + kLayout2026_05.priority_offsets + priority::kNormal);
  for (Word slot = 0; slot < kernel.slots; ++slot) {
    const Word* const words = slot_at(kernel, slot);
    if (!is_claimable(kernel, words[slot_word::kStatus])) continue;
    if (!first) first = slot;
    if (slot >= normal) all_high = false;
    const Word tenant = words[slot_word::kTenant];
    if (authority_of<PlainWords>(kernel, tenant) != Authority::kNo) {
      if (!first_allowed) first_allowed = slot;
      continue;
    }
    const std::uint64_t mask = std::uint64_t{kernel.control[control_word::kTenantBase]} + tenant;
    masked = masked || mask >= kernel.control_words || kernel.control[mask] == 0;
  }
  if (!first) return std::nullopt;
  if (!first_allowed) {
    const std::string whose =
        "slot " + number(*first) + " is of tenant " + number(slot_at(kernel, *first)[slot_word::kTenant]) + ", which ";
    return masked ? Verdict{.cause = Cause::kTenantMasked, .slot = *first, .text = whose + "is masked"}
                  : Verdict{.cause = Cause::kOutOfQuota, .slot = *first, .text = whose + "has used up its quota"};
  }
  const Word starvation = kernel.control[kLayout2026_05.starvation_counter];
  if (all_high && kernel.mode == Mode::kStrict && starvation >= kStarvationThreshold) {
    return Verdict{.cause = Cause::kLivelock,
                   .slot = *first_allowed,
                   .text = "the starvation counter is " + number(starvation) +
                           ", so that CRITICAL and HIGH are passed over, and nothing else is published"};
  }
  return Verdict{.cause = Cause::kUnclaimed,
                 .slot = *first_allowed,
                 .text = "slot " + number(*first_allowed) + " is published, and no lane claims it"};
}

}  // namespace

const char* name_of(Cause cause) {
  switch (cause) {
    case Cause::kDrained:
      return "drained";
    case Cause::kLivelock:
      return "livelock";
    case Cause::kWaitsForPeer:
      return "stalled-peer";
    case Cause::kWaitsForOther:
      return "waiting";
    case Cause::kAbandonedClaim:
      return "abandoned-claim";
    case Cause::kTenantMasked:
      return "tenant-masked";
    case Cause::kOutOfQuota:
      return "out-of-quota";
    case Cause::kFaulted:
      return "faulted-slot";
    case Cause::kFlagBeforeData:
      return "flag-before-data";
    case Cause::kWaitCycle:
      return "wait-cycle";
    case Cause::kUnclaimed:
      return "unclaimed";
    case Cause::kNotResident:
      return "not-resident";
    case Cause::kMessageFailed:
      return "message-failed";
  }
  return "";
}

Word Tally::queue_depth() const {
  Word depth = unknown;
  for (Word value = 0; value < status::kCount; ++value) depth += status::is_queued(value) ? by_status[value] : 0;
  return depth;
}

Tally tally_of(const Kernel& kernel) {
  Tally tally;
  for (Word slot = 0; slot < kernel.slots; ++slot) {
    const Word value = slot_at(kernel, slot)[slot_word::kStatus];
    ++(status::is_known(value) ? tally.by_status[value] : tally.unknown);
  }
  return tally;
}

Verdict verdict_of(const Kernel& kernel, std::span<const KernelLane> lanes) {
  const auto find = [&]() -> Verdict {
    for (const Word value : {status::kClaimed, status::kWaitIo}) {
      // A WAIT before what waits behind it.
      std::optional<Verdict> first;
      for (const KernelLane& lane : lanes) {
        if (lane.phase != LanePhase::kRun || slot_at(kernel, lane.slot)[slot_word::kStatus] != value) continue;
        const Verdict one = waiting(kernel, lane.slot);
        if (!first || (one.cause == Cause::kWaitsForPeer && first->cause != Cause::kWaitsForPeer)) first = one;
      }
      if (first) return *first;
    }
    if (const auto slot = first_of(kernel, lanes, status::kClaimed, false)) {
      return {.cause = Cause::kAbandonedClaim,
              .slot = *slot,
              .text = "slot " + number(*slot) + " is CLAIMED, and no lane has it"};
    }
    // Faults before what is masked: they are why the ancestor's watchdog is silent.
    const auto faulted = first_of(kernel, lanes, status::kFault, std::nullopt);
    if (faulted) {
      return {.cause = Cause::kFaulted, .slot = *faulted, .text = "slot " + number(*faulted) + " has faulted"};
    }
    if (const auto verdict = unclaimed(kernel)) return *verdict;
    const Tally tally = tally_of(kernel);
    if (tally.queue_depth() == 0) return {.cause = Cause::kDrained, .text = "nothing is queued"};
    return {.cause = Cause::kUnclaimed, .text = "slots of unknown status are left"};
  };
  Verdict verdict = find();
  verdict.tally = tally_of(kernel);
  return verdict;
}

}  // namespace meshbed::ring
