#pragma once
// The machine: one step of one lane. See kernel.h for its phases.

#include "plugin/ring/kernel/handlers.h"
#include "plugin/ring/kernel/scan.h"

namespace meshbed::ring {

template <typename Words>
MESHBED_DEVICE Step claim(const Kernel& kernel, KernelLane& lane) {
  Word* const words = slot_at(kernel, lane.slot);
  if (Words::swap(words + slot_word::kStatus, lane.seen, status::kClaimed) != lane.seen) {
    lane.phase = LanePhase::kScan;
    return Step::kMissed;
  }
  lane.phase = LanePhase::kRecheck;
  return Step::kClaimed;
}

/// The priority kernel asks once more whether the tenant may run; the plain one does not in strict mode.
template <typename Words>
MESHBED_DEVICE Step recheck(const Kernel& kernel, KernelLane& lane) {
  const bool strict = kernel.mode == Mode::kStrict;
  Word* const words = slot_at(kernel, lane.slot);
  if (kernel.by_priority || !strict) {
    const Authority authority = authority_of<Words>(kernel, words[slot_word::kTenant]);
    if (authority == Authority::kNoSuchTenant) {
      lane.ends_as = status::kFault;
      lane.phase = LanePhase::kFinish;
      return Step::kRan;
    }
    if (authority == Authority::kNo) {
      lane.phase = LanePhase::kScan;
      if (strict) return Step::kAbandoned;
      Words::release(words + slot_word::kStatus, status::kRequeue);
      return Step::kGivenBack;
    }
  }
  count_claim<Words>(kernel, lane);
  lane.packed_at = 0;
  lane.polls = 0;
  lane.io_entry = KernelLane::kNone;
  lane.waits_io = false;
  lane.phase = LanePhase::kRun;
  return Step::kChecked;
}

MESHBED_DEVICE inline Word status_of(End end) {
  switch (end) {
    case End::kYield:
      return status::kYield;
    case End::kRequeue:
      return status::kRequeue;
    case End::kFault:
      return status::kFault;
    default:
      return status::kDone;
  }
}

template <typename Words, typename User>
MESHBED_DEVICE Step run(const Kernel& kernel, KernelLane& lane, User& user) {
  const End end = run_slot<Words>(kernel, lane, user);
  if (end == End::kAgain) return Step::kWaiting;
  if (end == End::kWaitIo) {
    if (!lane.waits_io) Words::release(slot_at(kernel, lane.slot) + slot_word::kStatus, status::kWaitIo);
    lane.waits_io = true;
    return Step::kWaiting;
  }
  lane.ends_as = status_of(end);
  // Counted before the status is set: a thread that sees the slot DONE sees it counted.
  if (lane.ends_as == status::kDone) Words::add(kernel.control + control_word::kDoneCount, 1);
  lane.phase = LanePhase::kFinish;
  return Step::kRan;
}

/// One step. After kStopped the lane has ended for good; lanes in the middle of a slot finish it first.
template <typename Words, typename User>
MESHBED_DEVICE Step step(const Kernel& kernel, KernelLane& lane, User& user) {
  switch (lane.phase) {
    case LanePhase::kScan:
      if (Words::load(kernel.control + control_word::kShutdown) != 0) {
        lane.phase = LanePhase::kStopped;
        return Step::kStopped;
      }
      return (kernel.by_priority ? scan_by_priority<Words>(kernel, lane) : scan_plain<Words>(kernel, lane))
                 ? Step::kCandidate
                 : Step::kNothing;
    case LanePhase::kCandidate:
      return claim<Words>(kernel, lane);
    case LanePhase::kRecheck:
      return recheck<Words>(kernel, lane);
    case LanePhase::kRun:
      return run<Words>(kernel, lane, user);
    case LanePhase::kFinish:
      Words::release(slot_at(kernel, lane.slot) + slot_word::kStatus, lane.ends_as);
      lane.phase = LanePhase::kScan;
      return Step::kEnded;
    case LanePhase::kStopped:
      break;
  }
  return Step::kStopped;
}

/// Steps until the lane has nothing to do, waits, has ended a slot, or has stopped, as if no other lane overtook it.
template <typename Words, typename User>
MESHBED_DEVICE Step turn(const Kernel& kernel, KernelLane& lane, User& user) {
  for (;;) {
    const Step now = step<Words>(kernel, lane, user);
    if (now == Step::kNothing || now == Step::kWaiting || now == Step::kEnded || now == Step::kStopped) return now;
  }
}

}  // namespace meshbed::ring
