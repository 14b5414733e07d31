// Why a ring gets nothing done: each cause by a ring that has it.
#include "plugin/ring/kernel/verdict.h"

#include <doctest/doctest.h>

#include "plugin/ring/kernel/mesh_ops.h"
#include "tests/ring/launch.h"

namespace verdict_test {

using namespace meshbed::ring;
using meshbed::test::Launch;

namespace {

Verdict verdict(const Launch& launch) { return verdict_of(launch.kernel, launch.lanes); }

/// A port over which nothing ever comes.
struct Silence {
  bool put(Word, Word, Word, Word, Word) { return true; }
  void signal(Word, Word) {}
  Word completed(Word) const { return 0; }
  void reduce(const Word*) {}
  void copy(const Word*) {}
};

}  // namespace

TEST_CASE("a drained ring, and one whose lanes own none of its slots") {
  Launch launch({.mode = Mode::kStrict});
  CHECK(verdict(launch).cause == Cause::kDrained);
  launch.publish(5, opcode::kNop);
  launch.run();
  CHECK(verdict(launch).cause == Cause::kUnclaimed);
  CHECK(verdict(launch).slot == 5);
  CHECK(suspects_stall(verdict(launch).tally, 0));
}

TEST_CASE("livelock is the strict priority kernel's with nothing but high work; lower work is another matter") {
  Launch launch({.slots = 100, .mode = Mode::kStrict, .by_priority = true});
  for (Word slot = 0; slot < 40; ++slot) launch.publish(slot, opcode::kNop);
  launch.run();
  CHECK(verdict(launch).cause == Cause::kLivelock);
  CHECK(verdict(launch).tally.queue_depth() == 24);
  launch.publish(99, opcode::kNop);
  CHECK(verdict(launch).cause == Cause::kUnclaimed);
}

TEST_CASE("masked tenants, used up quotas and abandoned claims are distinguished") {
  Launch launch({.slots = 5, .mode = Mode::kSafe, .by_priority = true});
  launch.publish(0, opcode::kNop, {}, 1);
  launch.mask(1, 0);
  launch.run();
  CHECK(verdict(launch).cause == Cause::kTenantMasked);
  launch.mask(1, 1);
  launch.kernel.enforces_quotas = true;
  launch.control[kLayout2026_05.tenant_quotas + 1] = 0;
  launch.run();
  CHECK(verdict(launch).cause == Cause::kOutOfQuota);
  slot_at(launch.kernel, 0)[slot_word::kStatus] = status::kClaimed;
  CHECK(verdict(launch).cause == Cause::kAbandonedClaim);
}

TEST_CASE("a faulted slot is named, and the ancestor's watchdog suspects nothing") {
  Launch launch({.slots = 4, .lanes = 4, .mode = Mode::kSafe});
  launch.publish(2, opcode::kStoreU32, {1, control_word::kShutdown});
  launch.publish(3, opcode::kNop, {}, 1);
  launch.mask(1, 0);
  launch.run();
  const Verdict found = verdict(launch);
  CHECK(found.cause == Cause::kFaulted);
  CHECK(found.slot == 2);
  CHECK(found.tally.queue_depth() == 2);
  CHECK_FALSE(suspects_stall(found.tally, 0));
}

TEST_CASE("a lane that waits for a message is reported before one that waits for that lane") {
  Launch launch({.slots = 2, .lanes = 2});
  const MeshBoard board{.connections = 1, .ids = 2};
  launch.publish(0, opcode::kCompute, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, kNoId, 1});
  launch.publish(1, opcode::kWait, {0, 0, 0, 0, 1, 7, 0, 0, 1, kNoId, kNoId, 1});
  Silence silence;
  MeshOperations<PlainWords, Silence> operations(launch.kernel, board, silence);
  launch.run(operations, 5);
  CHECK(verdict(launch).cause == Cause::kWaitsForPeer);
  CHECK(verdict(launch).text.find("message 7 of connection 0") != std::string::npos);
  launch.control[kLayout2026_05.observables + board.arrivals_of(0)] = 1;
  CHECK(launch.run(operations, 5) == 2);
  CHECK(verdict(launch).cause == Cause::kDrained);
}

TEST_CASE("every cause has a name of its own") {
  for (int left = 0; left <= static_cast<int>(Cause::kNotResident); ++left) {
    for (int right = 0; right < left; ++right) {
      CHECK(std::string(name_of(static_cast<Cause>(left))) != name_of(static_cast<Cause>(right)));
    }
  }
}

}  // namespace verdict_test
