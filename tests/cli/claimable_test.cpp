// ClaimableSlots finds what the kernel's own scan of all slots finds, whatever was published, claimed and masked
// before.
#include "testbed/workload/megakernel/claimable.h"

#include <doctest/doctest.h>

#include "plugin/base/prng.h"

namespace claimable_test {

using namespace meshbed;
using namespace meshbed::testbed;
using ring::Word;

namespace {

constexpr Word kSlots = 23, kTenants = 3;

struct Ring {
  std::vector<Word> control = std::vector<Word>(ring::kLayout2026_05.control_min_words);
  std::vector<Word> slots = std::vector<Word>(kSlots * ring::kSlotWords);
  ring::Kernel kernel;

  Ring(Word lanes, ring::Mode mode, bool by_priority) {
    kernel = {.control = control.data(),
              .control_words = static_cast<Word>(control.size()),
              .ring = slots.data(),
              .slots = kSlots,
              .lanes = lanes,
              .mode = mode,
              .by_priority = by_priority};
    control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
    for (Word tenant = 0; tenant < kTenants; ++tenant) set_mask(tenant, true);
    for (Word level = 0; level <= ring::priority::kLevels; ++level) {
      control[ring::kLayout2026_05.priority_offsets + level] = kSlots * level / ring::priority::kLevels;
    }
  }
  void set_mask(Word tenant, bool may) {
    control[ring::control_word::kTenantMasks + tenant] = may ? ring::kTenantMaskAll : 0;
  }
  Word* at(Word slot) { return ring::slot_at(kernel, slot); }
};

/// Random lives of a ring; at each look both ways must choose the same slot.
void walk(Word lanes, ring::Mode mode, bool by_priority) {
  Ring ring(lanes, mode, by_priority);
  ClaimableSlots claimable(ring.kernel);
  Prng prng(lanes + (by_priority ? 100 : 0));
  for (int step = 0; step < 4000; ++step) {
    const auto slot = static_cast<Word>(prng.below(kSlots));
    Word* const status = ring.at(slot) + ring::slot_word::kStatus;
    switch (prng.below(4)) {
      case 0:
        if (!ring::status::is_free(*status)) break;
        ring.at(slot)[ring::slot_word::kTenant] = static_cast<Word>(prng.below(kTenants));
        *status = ring::status::kPublished;
        claimable.add(slot);
        break;
      case 1:
        if (*status != ring::status::kClaimed) break;
        *status = prng.below(3) == 0 ? ring::status::kYield : ring::status::kDone;
        claimable.add(slot);
        break;
      case 2:
        ring.set_mask(static_cast<Word>(prng.below(kTenants)), prng.below(2) == 0);
        break;
      default: {
        const auto index = static_cast<Word>(prng.below(lanes));
        ring::KernelLane mine{.index = index}, theirs{.index = index};
        const bool found = claimable.find(mine);
        const bool seen = by_priority ? ring::scan_by_priority<ring::PlainWords>(ring.kernel, theirs)
                                      : ring::scan_plain<ring::PlainWords>(ring.kernel, theirs);
        REQUIRE(found == seen);
        if (!found) break;
        REQUIRE(mine.slot == theirs.slot);
        CHECK(mine.level == theirs.level);
        ring.at(mine.slot)[ring::slot_word::kStatus] = ring::status::kClaimed;
        claimable.claimed(mine.slot);
      }
    }
  }
}

}  // namespace

TEST_CASE("slots that are kept book of are found in the order of the kernel's own scan") {
  for (const Word lanes : {1, 2, 5, 23, 30}) {
    for (const ring::Mode mode : {ring::Mode::kSafe, ring::Mode::kStrict}) {
      for (const bool by_priority : {false, true}) walk(lanes, mode, by_priority);
    }
  }
}

TEST_CASE("a lane whose slots are all done has nothing to look at, however many there are") {
  Ring ring(2, ring::Mode::kSafe, false);
  ClaimableSlots claimable(ring.kernel);
  ring::KernelLane even{.index = 0}, odd{.index = 1};
  CHECK_FALSE(claimable.any_for(even));
  ring.at(22)[ring::slot_word::kStatus] = ring::status::kPublished;
  CHECK(claimable.add(22));
  CHECK(claimable.any_for(even));
  CHECK_FALSE(claimable.any_for(odd));
  REQUIRE(claimable.find(even));
  claimable.claimed(even.slot);
  CHECK_FALSE(claimable.any_for(even));
  ring.at(22)[ring::slot_word::kStatus] = ring::status::kDone;
  CHECK_FALSE(claimable.add(22));
}

}  // namespace claimable_test
