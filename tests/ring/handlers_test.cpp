// What the opcodes do, as written and as they should have been (vyre, commit ca35047).
#include "plugin/ring/kernel/handlers.h"

#include <doctest/doctest.h>

#include "tests/ring/launch.h"

namespace handlers_test {

using namespace meshbed::ring;
using meshbed::test::kModes;
using meshbed::test::Launch;

namespace {

constexpr Word kFirst = kLayout2026_05.observables;

}  // namespace

TEST_CASE("stores, adds, loads, swaps and copies do what they say, are counted, and end DONE") {
  for (const Mode mode : kModes) {
    Launch launch({.lanes = 8, .mode = mode});
    launch.publish(0, opcode::kStoreU32, {7, kFirst + 1});
    launch.publish(1, opcode::kAtomicAdd, {5, kFirst + 1});
    launch.publish(2, opcode::kLoadU32, {kFirst + 1, 2});
    launch.publish(3, opcode::kCompareSwap, {kFirst + 1, 12, 99});  // observable[a0] is far beyond
    launch.publish(4, opcode::kMemcpy, {kFirst + 1, kFirst + 10, 2});
    launch.publish(5, opcode::kDfaStep);
    launch.publish(6, opcode::kNop);
    launch.run();
    CHECK(launch.observed(1) == 12);
    CHECK(launch.observed(2) == 12);
    CHECK(launch.observed(10) == 12);
    CHECK(launch.observed(11) == 12);
    for (const Word op :
         {opcode::kStoreU32, opcode::kAtomicAdd, opcode::kLoadU32, opcode::kMemcpy, opcode::kDfaStep, opcode::kNop}) {
      CHECK(launch.metric(op) == 1);
    }
    CHECK(launch.status(7) == status::kEmpty);
    CHECK(launch.status(3) == (mode == Mode::kStrict ? status::kDone : status::kFault));
    CHECK(launch.done_count() == (mode == Mode::kStrict ? 7 : 6));
  }
}

TEST_CASE("a swap leaves what was there in the observable of its own index") {
  Launch launch({.observables = 400});
  launch.control[kFirst + 3] = 41;
  // observable[163] is word 323; the swapped word is 163 itself.
  launch.publish(0, opcode::kCompareSwap, {kFirst + 3, 41, 42});
  launch.publish(1, opcode::kCompareSwap, {kFirst + 3, 41, 43});
  CHECK(launch.run() == 2);
  CHECK(launch.control[kFirst + 3] == 42);
  CHECK(launch.observed(kFirst + 3) == 42);  // of the second, which failed
}

TEST_CASE("an index may overwrite SHUTDOWN and the masks in strict mode; in safe mode it is a fault") {
  for (const Word word : {control_word::kShutdown, control_word::kTenantMasks}) {
    for (const Word op : {opcode::kStoreU32, opcode::kAtomicAdd}) {
      Launch strict({.mode = Mode::kStrict}), safe({.mode = Mode::kSafe});
      for (Launch* launch : {&strict, &safe}) {
        launch->publish(0, op, {1, word});
        launch->run();
      }
      CHECK(strict.status(0) == status::kDone);
      CHECK(strict.control[word] == (op == opcode::kStoreU32 || word == control_word::kShutdown ? 1U : 0U));
      CHECK(safe.status(0) == status::kFault);
      CHECK(safe.control[word] == (word == control_word::kShutdown ? 0U : kTenantMaskAll));
    }
  }
}

TEST_CASE("no index leads out of the buffer, whatever the operation") {
  constexpr Word kFar[] = {kFirst + 64, 0x7fff'ffff, 0xffff'ffff};
  for (const Mode mode : kModes) {
    for (const Word far : kFar) {
      Launch launch({.lanes = 8, .mode = mode});
      const std::vector<Word> before(launch.control.begin() + kFirst, launch.control.end());
      launch.publish(0, opcode::kStoreU32, {1, far});
      launch.publish(1, opcode::kAtomicAdd, {1, far});
      launch.publish(2, opcode::kLoadU32, {far, far});
      launch.publish(3, opcode::kCompareSwap, {far, 0, 1});
      launch.publish(4, opcode::kMemcpy, {far, far, far});
      launch.publish(5, opcode::kMemcpy, {kFirst, far, 1});
      launch.run();
      CHECK(std::equal(before.begin(), before.end(), launch.control.begin() + kFirst));
      for (Word slot = 0; slot < 6; ++slot) {
        CHECK(launch.status(slot) == (mode == Mode::kStrict ? status::kDone : status::kFault));
      }
    }
  }
}

TEST_CASE("a batch fence advances the epoch and reports its tag") {
  for (const Mode mode : kModes) {
    Launch launch({.mode = mode});
    launch.publish(0, opcode::kBatchFence, {3, 77});
    launch.run();
    CHECK(launch.control[kLayout2026_05.epoch] == 1);
    CHECK(launch.observed(0) == 77);
    CHECK(launch.metric(opcode::kBatchFence) == 1);
  }
}

TEST_CASE("printf appends records and its cursor goes on when the log is full") {
  for (const Mode mode : kModes) {
    constexpr Word kSlots = kDebugRecords + 6;
    Launch launch({.slots = kSlots, .lanes = kSlots, .mode = mode});
    for (Word slot = 0; slot < kSlots; ++slot) launch.publish(slot, opcode::kPrintf, {slot, 10 * slot, 100 * slot});
    launch.run();
    CHECK(launch.debug[kDebugCursorWord] == kSlots * kDebugRecordWords);
    for (Word record = 0; record < kDebugRecords; ++record) {
      const Word* const words = launch.debug.data() + kDebugRecordsWord + record * kDebugRecordWords;
      CHECK(words[0] == record);
      CHECK(words[1] == 10 * record);
      CHECK(words[2] == 100 * record);
      CHECK(words[3] == record * kSlotWords);
    }
  }
}

TEST_CASE("shutdown stops the lanes, and its own slot is done") {
  for (const Mode mode : kModes) {
    Launch launch({.lanes = 2, .mode = mode});
    launch.publish(0, opcode::kShutdown);
    launch.run();
    launch.publish(1, opcode::kNop);
    CHECK(launch.run() == 0);
    CHECK(launch.status(0) == status::kDone);
    CHECK(launch.lanes[1].phase == LanePhase::kStopped);
    CHECK(launch.control[control_word::kShutdown] == 1);
  }
}

TEST_CASE("what has no handler is silently done in strict mode, and a fault in safe mode") {
  for (const Word op : {opcode::kUserFirst, Word{0xffef}, Word{0x1'0000}, Word{0x7fff'ffff}, opcode::kLoadMiss}) {
    Launch strict({.mode = Mode::kStrict}), safe({.mode = Mode::kSafe});
    for (Launch* launch : {&strict, &safe}) {
      launch->publish(0, op, {1, 2});
      launch->run();
    }
    CHECK(strict.status(0) == status::kDone);
    CHECK(safe.status(0) == status::kFault);
    CHECK(safe.done_count() == 0);
  }
}

TEST_CASE("the golden packed slot runs both of its operations; each is counted, the outer one is not") {
  for (const Mode mode : kModes) {
    Launch launch({.mode = mode});
    launch.publish(0, opcode::kPackedSlot, {0x0001'0402, 0x0000'0202, 9, kFirst, 4, kFirst});
    launch.run();
    CHECK(launch.status(0) == status::kDone);
    CHECK(launch.observed(0) == 13);
    CHECK(launch.metric(opcode::kStoreU32) == 1);
    CHECK(launch.metric(opcode::kAtomicAdd) == 1);
    CHECK(launch.done_count() == 1);
  }
}

TEST_CASE("five packed operations: the kernel cuts the last one off, six take the wrong words; safe mode runs all") {
  // n NOPs but for the last, an ATOMIC_ADD of 5 to observable 1; its two words follow the table, with none behind.
  for (const Word count : {5U, 6U}) {
    const Word metadata = packed_metadata_words(count);
    for (const Mode mode : kModes) {
      Launch launch({.mode = mode});
      launch.publish(0, opcode::kPackedSlot);
      Word* const args = slot_at(launch.kernel, 0) + kLayout2026_05.arg0_word;
      auto* const bytes = reinterpret_cast<unsigned char*>(args);  // the machine is little-endian, as the ABI is
      bytes[0] = static_cast<unsigned char>(count);
      bytes[1] = 3;
      const Word last = count - 1;
      bytes[2 + 2 * (count == 6 ? 0 : last)] = opcode::kAtomicAdd;
      args[metadata] = 5;
      args[metadata + 1] = kFirst + 1;
      launch.run();
      if (mode == Mode::kSafe) {
        CHECK(launch.observed(1) == 5);
        CHECK(launch.metric(opcode::kNop) == last);
      } else {
        // Five: never reached. Six: the arguments are read one word too early: a0 is the table's, the index is 5.
        CHECK(launch.observed(1) == 0);
        CHECK(launch.metric(opcode::kNop) == (count == 5 ? 4 : 3));
      }
    }
  }
}

TEST_CASE("a packed operation whose words do not fit is skipped in strict mode, a fault in safe mode") {
  for (const Mode mode : kModes) {
    Launch launch({.mode = mode});
    launch.publish(0, opcode::kPackedSlot, {0x0c00'0001U | opcode::kAtomicAdd << 16U});
    launch.run();
    CHECK(launch.metric(opcode::kAtomicAdd) == 0);
    CHECK(launch.status(0) == (mode == Mode::kStrict ? status::kDone : status::kFault));
  }
}

TEST_CASE("no packed slot leads out of its slot: every count with every offset") {
  for (const Mode mode : kModes) {
    for (Word count = 0; count < 256; ++count) {
      for (Word offset = 0; offset < 256; ++offset) {
        Launch launch({.slots = 1, .mode = mode});
        launch.publish(0, opcode::kPackedSlot, {count | offset << 24U, offset << 8U | offset << 24U});
        launch.run();  // the sanitizers look on
        CHECK((launch.status(0) == status::kDone || launch.status(0) == status::kFault));
      }
    }
  }
}

namespace {

/// What a host does with the IO queue: takes the first request, and ends it.
Word serve_io(Launch& launch, Word answer) {
  for (Word index = 0; index < kIoEntries; ++index) {
    Word* const entry = launch.io.data() + index * kIoEntryWords;
    if (entry[io_word::kStatus] != status::kPublished) continue;
    entry[io_word::kStatus] = answer;
    return entry[io_word::kTag];
  }
  return KernelLane::kNone;
}

Word io_status(const Launch& launch, Word index) { return launch.io[index * kIoEntryWords + io_word::kStatus]; }

}  // namespace

TEST_CASE("a load miss asks the host for its resource, and goes on when it is there; the entry is free again") {
  for (const Mode mode : kModes) {
    Launch launch({.mode = mode, .has_io = true});
    NoUserOperations none;
    launch.publish(0, opcode::kLoadMiss, {42, 1});
    CHECK(turn<PlainWords>(launch.kernel, launch.lanes[0], none) == Step::kWaiting);
    CHECK(launch.status(0) == (mode == Mode::kStrict ? status::kClaimed : status::kWaitIo));
    CHECK(launch.io[io_word::kOp] == io_op::kRead);
    CHECK(launch.io[io_word::kDestination] == 42);
    CHECK(serve_io(launch, status::kIoOk) == 42);
    CHECK(turn<PlainWords>(launch.kernel, launch.lanes[0], none) == Step::kEnded);
    CHECK(launch.status(0) == status::kDone);
    CHECK(io_status(launch, 0) == status::kEmpty);
  }
}

TEST_CASE("lost miss: an ERROR or a GPU's DONE is waited for as long as the polls last, and its entry is lost") {
  for (const Word answer : {status::kIoError, status::kDone}) {
    Launch strict({.mode = Mode::kStrict, .has_io = true}), safe({.mode = Mode::kSafe, .has_io = true});
    NoUserOperations none;
    for (Launch* launch : {&strict, &safe}) {
      launch->publish(0, opcode::kLoadMiss, {42});
      CHECK(turn<PlainWords>(launch->kernel, launch->lanes[0], none) == Step::kWaiting);
      serve_io(*launch, answer);
    }
    for (Word poll = 2; poll < strict.kernel.polls_most; ++poll) {
      CHECK(turn<PlainWords>(strict.kernel, strict.lanes[0], none) == Step::kWaiting);
    }
    CHECK(turn<PlainWords>(strict.kernel, strict.lanes[0], none) == Step::kEnded);
    CHECK(strict.status(0) == status::kDone);
    CHECK(io_status(strict, 0) == answer);
    CHECK(turn<PlainWords>(safe.kernel, safe.lanes[0], none) == Step::kEnded);
    CHECK(safe.status(0) == (answer == status::kDone ? status::kDone : status::kFault));
    CHECK(io_status(safe, 0) == status::kEmpty);
  }
}

TEST_CASE("lost miss: without a free entry nothing is asked for and the slot is done; in safe mode it waits for one") {
  Launch strict({.mode = Mode::kStrict, .has_io = true}), safe({.mode = Mode::kSafe, .has_io = true});
  NoUserOperations none;
  for (Launch* launch : {&strict, &safe}) {
    for (Word index = 0; index < kIoEntries; ++index) {
      launch->io[index * kIoEntryWords + io_word::kStatus] = status::kClaimed;
    }
    launch->publish(0, opcode::kLoadMiss, {42});
  }
  CHECK(turn<PlainWords>(strict.kernel, strict.lanes[0], none) == Step::kEnded);
  CHECK(strict.status(0) == status::kDone);
  CHECK(turn<PlainWords>(safe.kernel, safe.lanes[0], none) == Step::kWaiting);
  CHECK(safe.status(0) == status::kWaitIo);
  safe.io[5 * kIoEntryWords + io_word::kStatus] = status::kEmpty;
  CHECK(turn<PlainWords>(safe.kernel, safe.lanes[0], none) == Step::kWaiting);
  CHECK(serve_io(safe, status::kIoOk) == 42);
  CHECK(turn<PlainWords>(safe.kernel, safe.lanes[0], none) == Step::kEnded);
}

}  // namespace handlers_test
