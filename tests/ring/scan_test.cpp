// Who works on what, when: masks, quotas, priorities, starvation (vyre, commit ca35047).
#include "plugin/ring/kernel/scan.h"

#include <doctest/doctest.h>

#include "tests/ring/launch.h"

namespace scan_test {

using namespace meshbed::ring;
using meshbed::test::kModes;
using meshbed::test::Launch;

namespace {

struct Count {
  Word of[status::kCount] = {};
  Word operator[](Word value) const { return of[value]; }
};

Count count_statuses(const Launch& launch) {
  Count count;
  for (Word slot = 0; slot < launch.kernel.slots; ++slot) ++count.of[launch.status(slot)];
  return count;
}

/// A user's operation that ends as its first argument demands; 99: it asks to be called again.
struct EndsAs {
  End operator()(const Operation& op) const { return op.args[0] == 99 ? End::kAgain : static_cast<End>(op.args[0]); }
};

/// Words of a lane that the host overtakes: at the lane's look number `at`, all slots become published.
struct OvertakenWords : PlainWords {
  static inline Launch* launch = nullptr;
  static inline int at = 0;
  static Word acquire(const Word* word) {
    if (at-- == 0) {
      for (Word slot = 0; slot < launch->kernel.slots; ++slot) launch->publish(slot, opcode::kNop);
    }
    return load(word);
  }
};

void publish_all(Launch& launch, Word first, Word last, Word op = opcode::kNop) {
  for (Word slot = first; slot < last; ++slot) launch.publish(slot, op);
}

}  // namespace

TEST_CASE("the plain kernel's lane i works on slot i alone; in safe mode on every slot i + k lanes") {
  for (const Mode mode : kModes) {
    Launch launch({.slots = 10, .lanes = 3, .mode = mode});
    publish_all(launch, 0, 10);
    launch.run();
    CHECK(count_statuses(launch)[status::kDone] == (mode == Mode::kStrict ? 3 : 10));
  }
}

TEST_CASE("a masked tenant's slot stays published, and runs when its tenant may again") {
  for (const Mode mode : kModes) {
    for (const bool by_priority : {false, true}) {
      Launch launch({.slots = 5, .lanes = 5, .mode = mode, .by_priority = by_priority});
      launch.mask(1, 0);
      launch.publish(0, opcode::kNop, {}, 1);
      launch.publish(1, opcode::kNop, {}, 0);
      CHECK(launch.run() == 1);
      CHECK(launch.status(0) == status::kPublished);
      launch.mask(1, 1);
      CHECK(launch.run() == 1);
      CHECK(launch.status(0) == status::kDone);
    }
  }
}

TEST_CASE(
    "tenants beyond the masks: in strict mode the words behind them decide; in safe mode there is no such tenant") {
  for (Word tenant = 0; tenant < 200; ++tenant) {
    Launch strict({.slots = 1, .tenants = 2, .observables = 0, .mode = Mode::kStrict});
    Launch safe({.slots = 1, .tenants = 2, .observables = 0, .mode = Mode::kSafe});
    for (Launch* launch : {&strict, &safe}) {
      launch->publish(0, opcode::kNop, {}, tenant);
      launch->run();
    }
    const bool has_mask = tenant < 2;
    // 29 and 30 read the quotas of tenants 0 and 1; word 160 and on are not there. The offsets of a ring of one slot
    // are 0 0 0 1 1 1 (words 129-134), so that tenants 129 to 131 come upon the last three.
    const bool drifts = tenant == 29 || tenant == 30 || (tenant >= 129 && tenant <= 131);
    CHECK(strict.status(0) == (has_mask || drifts ? status::kDone : status::kPublished));
    CHECK(safe.status(0) == (has_mask                    ? status::kDone
                             : tenant < kTenantMasksMost ? status::kPublished
                                                         : status::kFault));
  }
}

TEST_CASE(
    "abandoned claim: a tenant masked between claim and re-check leaves its slot CLAIMED; safe mode puts it back") {
  for (const Mode mode : kModes) {
    Launch launch({.slots = 5, .mode = mode, .by_priority = true});
    NoUserOperations none;
    launch.publish(0, opcode::kNop, {}, 1);
    CHECK(step<PlainWords>(launch.kernel, launch.lanes[0], none) == Step::kCandidate);
    CHECK(step<PlainWords>(launch.kernel, launch.lanes[0], none) == Step::kClaimed);
    launch.mask(1, 0);
    const Step then = step<PlainWords>(launch.kernel, launch.lanes[0], none);
    launch.mask(1, 1);
    CHECK(launch.run() == (mode == Mode::kStrict ? 0 : 1));
    CHECK(then == (mode == Mode::kStrict ? Step::kAbandoned : Step::kGivenBack));
    CHECK(launch.status(0) == (mode == Mode::kStrict ? status::kClaimed : status::kDone));
  }
}

TEST_CASE("quotas: never read in strict mode; in safe mode a tenant that has used its own up is passed over") {
  for (const Mode mode : kModes) {
    Launch launch({.slots = 10, .lanes = 2, .mode = mode, .by_priority = true});
    launch.kernel.enforces_quotas = true;
    launch.control[kLayout2026_05.tenant_quotas + 1] = 3;
    for (Word slot = 0; slot < 10; ++slot) launch.publish(slot, opcode::kNop, {}, slot % 2);
    launch.run();
    CHECK(count_statuses(launch)[status::kDone] == (mode == Mode::kStrict ? 10 : 8));
    CHECK(launch.control[kLayout2026_05.tenant_fairness + 1] == (mode == Mode::kStrict ? 5 : 3));
    launch.control[kLayout2026_05.tenant_quotas + 1] = 5;
    launch.run();
    CHECK(count_statuses(launch)[status::kDone] == 10);
  }
}

TEST_CASE("levels are worked on in their order, and each claim is counted for its level and its tenant") {
  for (const Mode mode : kModes) {
    Launch launch({.slots = 15, .mode = mode, .by_priority = true});
    publish_all(launch, 0, 15);
    std::vector<Word> order;
    NoUserOperations none;
    while (turn<PlainWords>(launch.kernel, launch.lanes[0], none) == Step::kEnded) {
      order.push_back(launch.lanes[0].slot);
    }
    CHECK(order == std::vector<Word>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
    for (Word level = 0; level < priority::kLevels; ++level) {
      CHECK(launch.control[kLayout2026_05.priority_fairness + level] == 3);
    }
    CHECK(launch.control[kLayout2026_05.tenant_fairness] == 15);
    CHECK(launch.control[kLayout2026_05.starvation_counter] == 0);
  }
}

TEST_CASE(
    "livelock: sixteen claims of high work, and the ancestor claims no more until lower work comes; safe drains") {
  for (const Mode mode : kModes) {
    Launch launch({.slots = 100, .mode = mode, .by_priority = true});
    publish_all(launch, 0, 40);  // CRITICAL and HIGH
    launch.run();
    const bool strict = mode == Mode::kStrict;
    CHECK(count_statuses(launch)[status::kDone] == (strict ? kStarvationThreshold : 40));
    CHECK(launch.control[kLayout2026_05.starvation_counter] == (strict ? kStarvationThreshold : 40));
    if (!strict) continue;
    launch.publish(99, opcode::kNop);  // IDLE: it lets sixteen more through
    launch.run();
    CHECK(count_statuses(launch)[status::kDone] == 2 * kStarvationThreshold + 1);
  }
}

TEST_CASE("starved lower work goes first after sixteen claims of high work, in both modes") {
  for (const Mode mode : kModes) {
    Launch launch({.slots = 100, .mode = mode, .by_priority = true});
    publish_all(launch, 0, 20);
    launch.publish(80, opcode::kNop);
    NoUserOperations none;
    int before = 0;
    while (launch.status(80) != status::kDone) {
      REQUIRE(turn<PlainWords>(launch.kernel, launch.lanes[0], none) == Step::kEnded);
      ++before;
    }
    CHECK(before == kStarvationThreshold + 1);
    CHECK(launch.control[kLayout2026_05.starvation_counter] == 0);
  }
}

TEST_CASE("every slot has its lane, for every count of slots and lanes; offsets that make no sense lead nowhere else") {
  for (const Mode mode : kModes) {
    for (Word slots = 1; slots <= 24; ++slots) {
      for (Word lanes = 1; lanes <= 9; ++lanes) {
        Launch launch({.slots = slots, .lanes = lanes, .mode = Mode::kSafe, .by_priority = true});
        publish_all(launch, 0, slots);
        CHECK(launch.run() == static_cast<int>(slots));
        Launch twisted({.slots = slots, .lanes = lanes, .mode = mode, .by_priority = true});
        for (Word level = 0; level <= priority::kLevels; ++level) {
          twisted.control[kLayout2026_05.priority_offsets + level] = level % 2 == 0 ? 0xffff'ffff : slots / 2;
        }
        publish_all(twisted, 0, slots);
        twisted.run();  // the sanitizers look on
      }
    }
  }
}

TEST_CASE("a user's operation may yield, be put back, fault, and wait") {
  for (const Mode mode : kModes) {
    for (const bool by_priority : {false, true}) {
      Launch launch({.slots = 25, .lanes = 25, .mode = mode, .by_priority = by_priority});
      launch.publish(10, opcode::kUserFirst, {static_cast<Word>(End::kYield)});
      launch.publish(11, opcode::kUserFirst, {static_cast<Word>(End::kRequeue)});
      launch.publish(12, opcode::kUserFirst, {static_cast<Word>(End::kFault)});
      launch.publish(13, opcode::kUserFirst, {99});
      launch.run(EndsAs{}, 20);
      const bool again = by_priority || mode == Mode::kSafe;
      CHECK(launch.status(10) == status::kYield);
      CHECK(launch.status(11) == status::kRequeue);
      CHECK(launch.status(12) == status::kFault);
      CHECK(launch.status(13) == status::kClaimed);
      CHECK(launch.done_count() == 0);
      // Once it has what it needs, a slot that was put back comes to its end; the plain ancestor never looks again.
      for (const Word slot : {10U, 11U, 13U}) {
        slot_at(launch.kernel, slot)[kLayout2026_05.arg0_word] = static_cast<Word>(End::kDone);
      }
      launch.run(EndsAs{}, 20);
      CHECK(launch.status(10) == (again ? status::kDone : status::kYield));
      CHECK(launch.status(11) == (again ? status::kDone : status::kRequeue));
      CHECK(launch.status(13) == status::kDone);
      CHECK(launch.metric(opcode::kUserFirst) == launch.done_count());
    }
  }
}

TEST_CASE("a stream that is published while a lane looks is begun at its first slot, wherever the lane was") {
  for (int look = 0; look < 12; ++look) {
    CAPTURE(look);
    Launch launch({.slots = 12, .lanes = 2});
    OvertakenWords::launch = &launch;
    OvertakenWords::at = look;
    KernelLane& lane = launch.lanes[1];
    while (!scan_plain<OvertakenWords>(launch.kernel, lane)) {
    }
    CHECK(lane.phase == LanePhase::kCandidate);
    CHECK(lane.slot == 1);  // its first; the even ones are the other lane's
  }
}

}  // namespace scan_test
