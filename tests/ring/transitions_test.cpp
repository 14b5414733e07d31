// The transition checker, on single steps and on recorded snapshots: vyre, commit ca35047.
#include "plugin/ring/telemetry/transitions.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "plugin/ring/queue/recording.h"
#include "tests/ring/rings.h"

namespace transitions_test {

using namespace meshbed::ring;
using namespace meshbed::test;

namespace {

std::string broken(const SnapshotChecker& checker) { return checker.first() ? to_text(*checker.first()) : ""; }

/// What the checker says of one ring after the other, with these done counts.
std::string verdict(std::initializer_list<std::pair<Word, Buffer>> snapshots, Mode mode = Mode::kSafe) {
  SnapshotChecker checker(mode);
  for (const auto& [done_count, ring] : snapshots) checker.add(telemetry_of(control_of(done_count), ring));
  return broken(checker);
}

}  // namespace

TEST_CASE("of the 100 pairs of statuses 13 are steps, each of one actor") {
  int legal = 0;
  for (Word from = 0; from < 10; ++from) {
    for (Word to = 0; to < 10; ++to) {
      const auto who = who_may(from, to);
      if (!who) continue;
      ++legal;
      CHECK(may(*who, from, to));
      CHECK(may(Actor::kHost, from, to) == (to == status::kPublished && status::is_free(from)));
      CHECK((from != status::kFault && to != status::kEmpty));
    }
  }
  CHECK(legal == 13);
  CHECK(may(Actor::kPriorityKernel, status::kPublished, status::kClaimed));
  CHECK_FALSE(may(Actor::kKernel, status::kYield, status::kClaimed));
}

TEST_CASE(
    "single steps: a whole life is legal, and the first illegal step is named with slot, statuses, actor, number") {
  TransitionChecker checker(2);
  checker.add({0, status::kEmpty, status::kPublished, Actor::kHost});
  checker.add({0, status::kPublished, status::kClaimed, Actor::kKernel});
  checker.add({0, status::kClaimed, status::kWaitIo, Actor::kHandler});
  checker.add({0, status::kWaitIo, status::kDone, Actor::kHandler});
  checker.observe_done_count(1);
  checker.add({0, status::kDone, status::kPublished, Actor::kHost});
  CHECK_FALSE(checker.first());
  CHECK(checker.done() == 1);
  checker.add({1, status::kEmpty, status::kClaimed, Actor::kKernel});
  checker.add({1, status::kDone, status::kEmpty, Actor::kHost});
  REQUIRE(checker.first());
  CHECK(to_text(*checker.first()) == "step 5: slot 1: EMPTY -> CLAIMED by kernel: this is never allowed");
}

TEST_CASE("single steps: another's step, a slot that is elsewhere, a slot that is not there, a count that is behind") {
  const auto first = [](const Transition& step) {
    TransitionChecker checker(1);
    checker.add(step);
    return checker.first() ? to_text(*checker.first()) : "";
  };
  CHECK(first({0, status::kEmpty, status::kPublished, Actor::kKernel}) ==
        "step 0: slot 0: EMPTY -> PUBLISHED by kernel: that is for the host to do");
  CHECK(first({0, status::kDone, status::kPublished, Actor::kHost}) ==
        "step 0: slot 0: DONE -> PUBLISHED by host: the slot is EMPTY");
  CHECK(first({7, status::kEmpty, status::kPublished, Actor::kHost}) ==
        "step 0: slot 7: EMPTY -> PUBLISHED by host: the ring has 1 slots");
  TransitionChecker checker(1);
  checker.add({0, status::kEmpty, status::kPublished, Actor::kHost});
  checker.add({0, status::kPublished, status::kClaimed, Actor::kKernel});
  checker.observe_done_count(1);  // ahead: the status follows
  CHECK_FALSE(checker.first());
  checker.add({0, status::kClaimed, status::kDone, Actor::kKernel});
  checker.observe_done_count(1);
  CHECK_FALSE(checker.first());
  checker.add({0, status::kDone, status::kPublished, Actor::kHost});
  checker.add({0, status::kPublished, status::kClaimed, Actor::kKernel});
  checker.add({0, status::kClaimed, status::kDone, Actor::kKernel});
  checker.observe_done_count(1);
  REQUIRE(checker.first());
  CHECK(to_text(*checker.first()).find("the done count is 1, and slots have become DONE 2 times") != std::string::npos);
}

TEST_CASE("between snapshots: the fewest DONEs of every pair of statuses, against a walk over the steps") {
  // A second way to the same numbers: all words of steps up to 9 long from `from`.
  for (Word from = 0; from < status::kCount; ++from) {
    unsigned fewest[2][status::kCount];
    std::fill(&fewest[0][0], &fewest[0][0] + 2 * status::kCount, 1000U);
    const auto walk = [&](const auto& self, Word at, bool published, unsigned done, int left) -> void {
      fewest[0][at] = std::min(fewest[0][at], done);
      if (published) fewest[1][at] = std::min(fewest[1][at], done);
      if (left == 0) return;
      for (Word to = 0; to < status::kCount; ++to) {
        if (who_may(at, to))
          self(self, to, published || to == status::kPublished, done + (to == status::kDone), left - 1);
      }
    };
    walk(walk, from, false, 0, 9);
    for (Word to = 0; to < status::kCount; ++to) {
      for (const bool published : {false, true}) {
        const auto found = fewest_done(from, to, published);
        CHECK(found.value_or(1000) == fewest[published][to]);
      }
    }
  }
  CHECK_FALSE(fewest_done(9, 1, false));
}

TEST_CASE("snapshots: legal lives pass, however much lies between") {
  CHECK(verdict({{0, ring_of({0, 0})}, {0, ring_of({1, 2})}, {1, ring_of({3, 6})}, {5, ring_of({1, 3})}}).empty());
  CHECK(verdict({{1, ring_of({2})}, {1, ring_of({3})}}).empty());  // the count was one ahead
}

TEST_CASE("snapshots: the first illegal one is named") {
  CHECK(verdict({{0, ring_of({1, 1})}, {0, ring_of({2, 0})}}) ==
        "step 1: slot 1: PUBLISHED -> EMPTY: no legal way leads there");
  CHECK(verdict({{0, ring_of({7})}, {1, ring_of({2})}}).find("FAULT -> CLAIMED: no legal way") != std::string::npos);
  CHECK(verdict({{0, ring_of({1})}, {0, ring_of({9})}}) ==
        "step 1: slot 0: PUBLISHED -> UNKNOWN(9): there is no such status");
  CHECK(verdict({{0, ring_of({9})}}).find("step 0: slot 0") == 0);
  CHECK(verdict({{0, ring_of({1})}, {0, ring_of({1, 1})}}) == "step 1: the ring has 2 slots, and had 1");
  CHECK(verdict({{0, ring_of({3})}}).find("the done count is 0, and slots have become DONE 1 times") !=
        std::string::npos);
  CHECK(verdict({{1, ring_of({3, 2})}, {1, ring_of({1, 3})}}).find("step 1: the done count is 1") == 0);
  // CLAIMED -> PUBLISHED takes a DONE in between.
  CHECK(verdict({{0, ring_of({2})}, {0, ring_of({1})}}).find("the done count is 0") != std::string::npos);
  CHECK(verdict({{0, ring_of({2})}, {1, ring_of({1})}}).empty());
}

TEST_CASE("snapshots: words that change under a claim need a publish, and a publish needs a DONE") {
  const Buffer before = ring_of({status::kClaimed});
  Buffer now = before;
  set_word(now, 4, 99);
  CHECK(verdict({{0, before}, {1, now}}).empty());
  CHECK(verdict({{0, before}, {0, now}}) ==
        "step 1: slot 0: CLAIMED -> CLAIMED: word 4 (ARG0) changed from 0 to 99 while the slot was CLAIMED: the done "
        "count leaves no room for a publish in between, so it was overwritten");
  const Buffer faulted = ring_of({status::kFault});
  Buffer changed = faulted;
  set_word(changed, 4, 99);
  CHECK(
      verdict({{0, faulted}, {9, changed}}) ==
      "step 1: slot 0: FAULT -> FAULT: word 4 (ARG0) changed from 0 to 99, and the slot cannot have been published in "
      "between");
}

TEST_CASE("snapshots: a PUBLISHED slot whose words are overwritten is named with the word, not the done count") {
  const Buffer before = ring_of({status::kPublished, status::kPublished});
  const auto overwritten = [&](std::uint64_t word, Word value) {
    Buffer now = before;
    set_word(now, kSlotWords + word, value);
    return verdict({{0, before}, {0, now}});
  };
  const std::string slot = "step 1: slot 1: PUBLISHED -> PUBLISHED: word ";
  CHECK(overwritten(slot_word::kOpcode, opcode::kAtomicAdd).find(slot + "1 (OPCODE) changed from ") == 0);
  CHECK(overwritten(slot_word::kTenant, 5).find(slot + "2 (TENANT) changed from 0 to 5 while the slot was PUBLISHED") ==
        0);
  CHECK(overwritten(kLayout2026_05.priority_word, 2).find("(PRIORITY) changed from 0 to 2") != std::string::npos);
  CHECK(overwritten(kLayout2026_05.arg0_word + 2, 7).find("(ARG2) changed from 0 to 7") != std::string::npos);
  // With a DONE in between it may have been published.
  Buffer now = before;
  set_word(now, kSlotWords + slot_word::kTenant, 5);
  CHECK(verdict({{0, before}, {1, now}}).empty());
}

TEST_CASE("snapshots: SHUTDOWN, TENANT_BASE, EPOCH and DONE_COUNT that nothing can have written so are named") {
  const Buffer ring = ring_of({status::kPublished, status::kDone});
  const auto words = [&](Word word, Word before, Word now) {
    SnapshotChecker checker(Mode::kSafe);
    for (const Word value : {before, now}) {
      Buffer control = control_of(1);
      set_word(control, word, value);
      checker.add(telemetry_of(control, ring));
    }
    return broken(checker);
  };
  CHECK(words(control_word::kShutdown, 0, 1).empty());
  CHECK(words(control_word::kShutdown, 0, 7) == "step 1: control word 0 (SHUTDOWN) is 7, and not 0 or 1");
  CHECK(words(control_word::kShutdown, 1, 0) ==
        "step 1: control word 0 (SHUTDOWN) went back from 1 to 0: a kernel that has seen it has ended");
  CHECK(words(control_word::kTenantBase, 3, 9) ==
        "step 1: control word 2 (TENANT_BASE) is 9; hosts write 3, and kernels never write it");
  CHECK(words(control_word::kTenantBase, 9, 9).find("step 0: control word 2 (TENANT_BASE) is 9") == 0);
  const Word epoch = kLayout2026_05.epoch;
  CHECK(words(epoch, 3, 4).empty());
  CHECK(words(epoch, 0xffff'ffff, 0).empty());
  CHECK(words(epoch, 4, 3).find("(EPOCH) fell from 4 to 3: kernels add 1 to it at a BATCH_FENCE") != std::string::npos);
  CHECK(words(control_word::kDoneCount, 1, 3).empty());
  CHECK(words(control_word::kDoneCount, 1, 1001) ==
        "step 1: control word 1 (DONE_COUNT) jumped from 1 to 1001: more than all slots of the ring, of which none has "
        "changed");
  // Where claims are counted, each DONE has one.
  const auto claims = [&](Word claims_now, Word done_now) {
    SnapshotChecker checker(Mode::kSafe);
    Buffer control = control_of(10);
    set_word(control, kLayout2026_05.tenant_fairness, 10);
    checker.add(telemetry_of(control, ring));
    set_word(control, kLayout2026_05.tenant_fairness, claims_now);
    set_word(control, control_word::kDoneCount, done_now);
    checker.add(telemetry_of(control, ring));
    return broken(checker);
  };
  CHECK(claims(1010, 1010).empty());
  CHECK(claims(20, 1010) ==
        "step 1: control word 1 (DONE_COUNT) jumped from 10 to 1010: 1000 slots DONE, and 10 claims since");
}

TEST_CASE("snapshots: a done count that wraps is followed in safe mode, and named in strict mode") {
  const std::initializer_list<std::pair<Word, Buffer>> wrap{{0xffff'ffff, ring_of({2})}, {0, ring_of({3})}};
  CHECK(verdict(wrap).empty());
  CHECK(verdict(wrap, Mode::kStrict) == "step 1: the done count went back from 4294967295 to 0");
}

TEST_CASE("a recording comes back snapshot by snapshot, and what is none is refused") {
  const RecordingShape shape{.abi = Abi::k2026_05, .slots = 2, .control_words = 160};
  Buffer file = *begin_recording(shape);
  REQUIRE(add_snapshot(file, shape, 10, control_of(0), ring_of({1, 0})));
  REQUIRE(add_snapshot(file, shape, 20, control_of(1), ring_of({3, 1})));
  const auto read = read_recording(file);
  REQUIRE(read);
  REQUIRE(read->snapshots.size() == 2);
  CHECK(read->snapshots[1].time_ns == 20);
  CHECK(Buffer(read->snapshots[1].ring.begin(), read->snapshots[1].ring.end()) == ring_of({3, 1}));
  CHECK(Buffer(read->snapshots[1].control.begin(), read->snapshots[1].control.end()) == control_of(1));
  const auto refuses = [](const Buffer& bytes, const std::string& words) {
    const auto result = read_recording(bytes);
    REQUIRE_FALSE(result);
    CHECK_MESSAGE(result.error().text.find(words) != std::string::npos, result.error().text);
  };
  // Cut anywhere: whole snapshots are read, and nothing else is.
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto cut = read_recording(Bytes(file).first(size));
    CHECK(cut.has_value() == (size == 24 || size == 24 + 8 + 640 + 128));
  }
  Buffer wrong = file;
  set_word(wrong, 2, 202603);
  refuses(wrong, "ABI 202603");
  wrong = file;
  set_word(wrong, 3, 0xffff'ffff);
  refuses(wrong, "slots: 1048576 at most");
  wrong = file;
  set_word(wrong, 4, 159);
  refuses(wrong, "159 words");
  Buffer back = *begin_recording(shape);
  REQUIRE(add_snapshot(back, shape, 20, control_of(), ring_of({0, 0})));
  REQUIRE(add_snapshot(back, shape, 19, control_of(), ring_of({0, 0})));
  refuses(back, "snapshot 1 is of 19 ns");
  CHECK_FALSE(add_snapshot(back, shape, 30, control_of(), ring_of({0})));
}

}  // namespace transitions_test
