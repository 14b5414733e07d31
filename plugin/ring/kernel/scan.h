#pragma once
// Which slot a lane works on next (vyre, commit ca35047 for the plain kernel, 2.11 for the priority kernel).
// Cost: a pass looks at each slot that is the lane's once, until one may be claimed.

#include "plugin/ring/kernel/kernel.h"

namespace meshbed::ring {

/// Whether the tenant may run now, as the kernel sees it.
enum class Authority : Word { kYes, kNo, kNoSuchTenant };

template <typename Words>
MESHBED_DEVICE Authority authority_of(const Kernel& kernel, Word tenant) {
  const bool strict = kernel.mode == Mode::kStrict;
  if (!strict && tenant >= kTenantMasksMost) return Authority::kNoSuchTenant;
  const std::uint64_t word =
      static_cast<std::uint64_t>(Words::load(kernel.control + control_word::kTenantBase)) + tenant;
  if (word >= kernel.control_words || Words::load(kernel.control + word) == 0) return Authority::kNo;
  if (strict || !kernel.enforces_quotas) return Authority::kYes;
  const Word claimed = Words::load(kernel.control + kLayout2026_05.tenant_fairness + tenant);
  return claimed < Words::load(kernel.control + kLayout2026_05.tenant_quotas + tenant) ? Authority::kYes
                                                                                       : Authority::kNo;
}

MESHBED_DEVICE inline bool is_claimable(const Kernel& kernel, Word now) {
  if (now == status::kPublished) return true;
  const bool again = kernel.by_priority || kernel.mode == Mode::kSafe;
  return again && (now == status::kYield || now == status::kRequeue);
}

/// The lane of the plain kernel that looks at the slot, and no other does; there need not be one of that index.
MESHBED_DEVICE inline Word owner_of(const Kernel& kernel, Word slot) {
  return kernel.mode == Mode::kStrict ? slot : slot % kernel.lanes;
}

/// Makes the slot the lane's candidate where it may be claimed.
template <typename Words>
MESHBED_DEVICE bool consider(const Kernel& kernel, KernelLane& lane, Word slot) {
  const Word* const words = slot_at(kernel, slot);
  const Word now = Words::acquire(words + slot_word::kStatus);
  if (!is_claimable(kernel, now)) return false;
  if (authority_of<Words>(kernel, words[slot_word::kTenant]) == Authority::kNo) return false;
  lane.slot = slot;
  lane.seen = now;
  lane.phase = LanePhase::kCandidate;
  return true;
}

template <typename Words>
MESHBED_DEVICE bool scan_plain(const Kernel& kernel, KernelLane& lane) {
  if (kernel.mode == Mode::kStrict) return lane.index < kernel.slots && consider<Words>(kernel, lane, lane.index);
  for (std::uint64_t slot = lane.index; slot < kernel.slots;) {
    if (!consider<Words>(kernel, lane, static_cast<Word>(slot))) {
      slot += kernel.lanes;
      continue;
    }
    // A host that publishes a stream in order may overtake the lane: the lane finds a slot whose predecessors were not
    // published when it passed them, and would wait for them for ever. Now all of them are published or done; the last
    // of them shows which.
    if (slot == lane.index || !consider<Words>(kernel, lane, static_cast<Word>(slot - kernel.lanes))) return true;
    slot = lane.index;
  }
  lane.phase = LanePhase::kScan;
  return false;
}

/// Slots of one level: [begin, end), limited to the ring for every content of the control buffer.
struct Partition {
  Word begin = 0, end = 0;
};
template <typename Words>
MESHBED_DEVICE Partition partition_of(const Kernel& kernel, Word level) {
  const Word* const offsets = kernel.control + kLayout2026_05.priority_offsets;
  Partition partition{.begin = Words::load(offsets + level), .end = Words::load(offsets + level + 1)};
  if (partition.end > kernel.slots) partition.end = kernel.slots;
  if (partition.begin > partition.end) partition.begin = partition.end;
  return partition;
}

/// KernelLane l's slots: begin + (l + i lanes) mod length for i < ceil(length / lanes), if l < length.
template <typename Words>
MESHBED_DEVICE bool scan_level(const Kernel& kernel, KernelLane& lane, Word level) {
  const Partition partition = partition_of<Words>(kernel, level);
  const Word length = partition.end - partition.begin;
  const Word first = lane.index % kernel.lanes;
  if (first >= length) return false;
  const Word turns = (length + kernel.lanes - 1) / kernel.lanes;
  for (Word turn = 0; turn < turns; ++turn) {
    const std::uint64_t offset = first + static_cast<std::uint64_t>(turn) * kernel.lanes;
    if (!consider<Words>(kernel, lane, partition.begin + static_cast<Word>(offset % length))) continue;
    lane.level = level;
    return true;
  }
  return false;
}

template <typename Words>
MESHBED_DEVICE bool scan_by_priority(const Kernel& kernel, KernelLane& lane) {
  const bool lower_first = Words::load(kernel.control + kLayout2026_05.starvation_counter) >= kStarvationThreshold;
  const Word begin = lower_first ? priority::kNormal : priority::kCritical;
  for (Word level = begin; level < priority::kLevels; ++level) {
    if (scan_level<Words>(kernel, lane, level)) return true;
  }
  // Strict: nothing resets the counter until lower work comes.
  if (kernel.mode == Mode::kStrict) return false;
  for (Word level = priority::kCritical; level < begin; ++level) {
    if (scan_level<Words>(kernel, lane, level)) return true;
  }
  return false;
}

/// What a claim leaves in the counters.
template <typename Words>
MESHBED_DEVICE void count_claim(const Kernel& kernel, const KernelLane& lane) {
  const bool strict = kernel.mode == Mode::kStrict;
  if (!kernel.by_priority && strict) return;
  const Word tenant = slot_at(kernel, lane.slot)[slot_word::kTenant];
  Words::add(kernel.control + kLayout2026_05.tenant_fairness + tenant % kTenantFairnessSlots, 1);
  if (!kernel.by_priority) return;
  Words::add(kernel.control + kLayout2026_05.priority_fairness + lane.level, 1);
  Word* const starvation = kernel.control + kLayout2026_05.starvation_counter;
  if (lane.level <= priority::kHigh) {
    Words::add(starvation, 1);
  } else {
    Words::exchange(starvation, 0);
  }
}

}  // namespace meshbed::ring
