#pragma once
// ClaimableSlots: the set of a ring's slots whose status allows a claim. The host updates it on publishing and the
// lanes on claiming, so that the cost of a search for work depends on the claimable slots and not on the size of the
// ring: a program has one slot a step, and a scan of all slots for each claim would make a run's cost quadratic.
//
// find() leaves the lane in the same state as the kernel's own scan (plugin/ring/kernel/scan.h). For the priority
// kernel it is that scan, skipped if no slot is claimable.

#include <cstddef>
#include <set>
#include <vector>

#include "plugin/ring/kernel/scan.h"

namespace meshbed::testbed {

class ClaimableSlots {
 public:
  explicit ClaimableSlots(const ring::Kernel& kernel)
      : kernel_(kernel), by_lane_(kernel.by_priority ? 1 : kernel.lanes) {}

  /// Updates the slot after a change of its status. Returns whether it can be claimed.
  bool add(ring::Word slot) {
    if (!ring::is_claimable(kernel_, ring::slot_at(kernel_, slot)[ring::slot_word::kStatus])) return false;
    if (std::set<ring::Word>* const slots = of_slot(slot)) slots->insert(slot);
    return true;
  }
  void claimed(ring::Word slot) {
    if (std::set<ring::Word>* const slots = of_slot(slot)) slots->erase(slot);
  }
  /// Whether the lane has any slot to look at.
  bool any_for(const ring::KernelLane& lane) const { return !by_lane_[index_of(lane.index)].empty(); }

  bool find(ring::KernelLane& lane) const {
    if (!any_for(lane)) return false;
    if (kernel_.by_priority) return ring::scan_by_priority<ring::PlainWords>(kernel_, lane);
    for (const ring::Word slot : by_lane_[lane.index]) {
      if (ring::consider<ring::PlainWords>(kernel_, lane, slot)) return true;
    }
    return false;
  }

 private:
  std::size_t index_of(ring::Word lane) const { return kernel_.by_priority ? 0 : lane; }
  /// nullptr: no lane looks at it.
  std::set<ring::Word>* of_slot(ring::Word slot) {
    const std::size_t index = kernel_.by_priority ? 0 : ring::owner_of(kernel_, slot);
    return index < by_lane_.size() ? &by_lane_[index] : nullptr;
  }

  const ring::Kernel& kernel_;
  std::vector<std::set<ring::Word>> by_lane_;
};

}  // namespace meshbed::testbed
