// What a recording shows of the work that was published while it was made.
#include "plugin/ring/telemetry/recorded_work.h"

#include "plugin/ring/abi/slot.h"
#include "plugin/ring/queue/recording.h"
#include "tests/ring/rings.h"
#include "tests/support/layout.h"

namespace recorded_work_test {

using namespace meshbed;
using namespace meshbed::test;
using ring::Mode;
using ring::Word;

namespace {

namespace status = ring::status;

/// A ring of four slots with its control buffer, and a recording of how it was.
struct Life {
  Buffer control = control_of();
  Buffer slots = *ring::encode_empty_ring(4);
  ring::RecordingShape shape{.slots = 4, .control_words = static_cast<Word>(control.size() / ring::kWordBytes)};
  Buffer file = *ring::begin_recording(shape);

  void publish(Word slot, Word opcode, Word argument = 0) {
    REQUIRE(
        ring::publish(slots, ring::kLayout2026_05, Mode::kSafe, {.slot = slot, .opcode = opcode, .args = {argument}}));
  }
  void set_status(Word slot, Word value) { set_word(slots, slot * ring::kSlotWords, value); }
  void finish(Word slot) {
    set_word(control, ring::control_word::kDoneCount,
             ring::load_word(control.data(), ring::control_word::kDoneCount) + 1);
    set_status(slot, status::kDone);
  }
  void snapshot(std::uint64_t time_ns) { REQUIRE(ring::add_snapshot(file, shape, time_ns, control, slots)); }
  Result<ring::RecordedWork> work(Mode mode = Mode::kSafe) const {
    return ring::recorded_work(*ring::read_recording(file), mode);
  }
};

}  // namespace

TEST_CASE("a recording has the layout that its header documents") {
  Life life;
  life.publish(1, ring::opcode::kAtomicAdd, 5);
  life.snapshot(0x0102030405060708);
  FieldBytes snapshots = little_endian("snapshots", 0x0102030405060708, 8);
  snapshots.bytes.insert(snapshots.bytes.end(), life.control.begin(), life.control.end());
  snapshots.bytes.insert(snapshots.bytes.end(), life.slots.begin(), life.slots.end());
  CHECK(layout_problem("plugin/ring/queue/recording.h", "a recording", life.file,
                       {text_field("magic", "MBRINGS1"), little_endian("abi", 202605, 4), little_endian("slots", 4, 4),
                        little_endian("control_words", life.shape.control_words, 4), snapshots}) == "");
}

TEST_CASE("an item comes with the first snapshot that shows it; one that is still there is no other") {
  Life life;
  life.publish(0, ring::opcode::kAtomicAdd, 1);
  life.snapshot(1000);
  life.publish(2, 0x100, 7);
  life.set_status(0, status::kClaimed);
  life.snapshot(1500);
  life.finish(0);
  life.snapshot(1800);
  life.publish(0, ring::opcode::kAtomicAdd, 1);  // the same once more, into the same slot
  life.snapshot(2500);
  const auto work = life.work();
  REQUIRE(work);
  CHECK(work->slots == 4);
  CHECK(work->span_ns == 1500);
  CHECK(work->unseen == 0);
  CHECK(work->tenant_masks[0] == ring::kTenantMaskAll);
  CHECK(work->tenant_masks[1] == 0);
  REQUIRE(work->items.size() == 3);
  CHECK(work->items[0].at_ns == 0);
  CHECK(work->items[0].slot == 0);
  CHECK(work->items[1].at_ns == 500);
  CHECK(work->items[1].words.opcode == 0x100);
  CHECK(work->items[1].words.args[0] == 7);
  CHECK(work->items[2].at_ns == 1500);
}

TEST_CASE("what ended between two snapshots is seen by its words, or counted") {
  Life life;
  life.snapshot(0);
  life.publish(1, ring::opcode::kNop);
  life.finish(1);
  life.publish(1, 0x100, 3);
  life.finish(1);
  life.snapshot(10);
  const auto work = life.work();
  REQUIRE(work);
  REQUIRE(work->items.size() == 1);
  CHECK(work->items[0].words.opcode == 0x100);
  CHECK(work->unseen == 1);
}

TEST_CASE("a yield, a requeue and a fault that a snapshot shows are the item's end") {
  Life life;
  for (Word slot = 0; slot < 4; ++slot) life.publish(slot, 0x100, slot);
  life.snapshot(0);
  life.set_status(0, status::kYield);
  life.set_status(1, status::kRequeue);
  life.set_status(2, status::kFault);
  life.finish(3);
  life.snapshot(5);
  const auto work = life.work();
  REQUIRE(work);
  REQUIRE(work->items.size() == 4);
  CHECK(work->items[0].end == status::kYield);
  CHECK(work->items[1].end == status::kRequeue);
  CHECK(work->items[2].end == status::kFault);
  CHECK(work->items[3].end == status::kDone);
}

TEST_CASE("a slot's level is that of its partition") {
  Life life;
  const auto levels = ring::levels_of(4);
  for (Word level = 0; level < levels.size(); ++level) {
    set_word(life.control, ring::kLayout2026_05.priority_offsets + level, levels[level]);
  }
  for (Word slot = 0; slot < 4; ++slot) life.publish(slot, ring::opcode::kNop);
  life.snapshot(0);
  const auto work = life.work();
  REQUIRE(work);
  REQUIRE(work->items.size() == 4);
  for (const ring::RecordedItem& item : work->items) {
    CHECK(item.slot >= levels[item.level]);
    CHECK(item.slot < levels[item.level + 1]);
  }
}

TEST_CASE("an empty recording and an illegal step are refused") {
  Life empty;
  refuses(empty.work(), "without a snapshot");
  Life life;
  life.publish(0, ring::opcode::kNop);
  life.snapshot(0);
  life.set_status(0, status::kEmpty);
  life.snapshot(1);
  refuses(life.work(), "step 1: slot 0: PUBLISHED -> EMPTY: no legal way leads there");
}

}  // namespace recorded_work_test
