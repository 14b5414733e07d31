// Control buffer, debug log, IO queue, windows, batches and tasks: vyre, commit ca35047.
#include <doctest/doctest.h>

#include <algorithm>

#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/abi/quirks.h"
#include "plugin/ring/abi/task.h"
#include "plugin/ring/telemetry/window.h"
#include "tests/ring/rings.h"

namespace buffers_test {

using namespace meshbed::ring;
using namespace meshbed::test;

namespace {

/// The kernel's question, of a buffer.
bool may_run(const Buffer& control, Word tenant, Mode mode) {
  return tenant_may_run(tenant, control.size() / kWordBytes, mode,
                        [&](std::uint64_t index) { return load_word(control.data(), index); });
}

}  // namespace

TEST_CASE("a ring's levels have a fifth of its slots each, NORMAL what is left too") {
  CHECK(levels_of(10) == std::array<Word, kPriorityOffsets>{0, 2, 4, 6, 8, 10});
  CHECK(levels_of(13) == std::array<Word, kPriorityOffsets>{0, 2, 4, 9, 11, 13});
  CHECK(levels_of(3) == std::array<Word, kPriorityOffsets>{0, 0, 0, 3, 3, 3});
}

TEST_CASE("the control buffer as the host makes it, word by word") {
  const Buffer control = *encode_control(kLayout2026_05, Mode::kStrict, {.tenants = 2, .observables = 3});
  REQUIRE(control.size() == 4 * 163);
  for (Word word = 0; word < 163; ++word) {
    const Word wanted = word == 2 ? 3 : word == 3 || word == 4 ? 0xffff'ffff : word == 32 || word == 33 ? 1'000'000 : 0;
    CHECK_MESSAGE(load_word(control.data(), word) == wanted, word);
  }
  CHECK(control_bytes(kLayout2026_05, 0) == 640);
  const Buffer many = *encode_control(kLayout2026_05, Mode::kStrict, {.tenants = 40});
  CHECK(load_word(many.data(), 31) == 0xffff'ffff);
  CHECK(load_word(many.data(), 32) == 1'000'000);
  CHECK(load_word(many.data(), 63) == 1'000'000);
  CHECK(load_word(many.data(), 64) == 0);
  refuses(encode_control(kLayout2026_05, Mode::kSafe, {.tenants = 30}),
          "30 tenants: a control buffer has masks for 29");
  refuses(encode_control(kLayout2026_05, Mode::kStrict, {.observables = 1'048'577}), "1048577 observables");
  refuses(encode_control(kLayout2026_04, Mode::kStrict, {.observables = 33}), "32 at most");
}

TEST_CASE("a tenant without a mask runs where a quota or another word stands in its place, but not in safe mode") {
  const Buffer control = *encode_control(kLayout2026_05, Mode::kStrict, {.tenants = 2});
  const auto strict = [&](Word tenant) { return may_run(control, tenant, Mode::kStrict); };
  CHECK(strict(0));
  CHECK_FALSE(strict(2));
  CHECK(strict(29));  // quota of tenant 0
  CHECK(strict(30));
  CHECK_FALSE(strict(31));
  CHECK_FALSE(strict(0xffff'ffff));  // beyond the buffer
  for (const Word tenant : {29U, 30U, 31U, 0xffff'ffffU}) CHECK_FALSE(may_run(control, tenant, Mode::kSafe));
  CHECK(may_run(control, 1, Mode::kSafe));
}

TEST_CASE("a control buffer that is short or no words is refused, and its size says which ABI it may be") {
  refuses(decode_control(Buffer(636), kLayout2026_05), "636 bytes: ABI 2026-05 has 640 at least; one of ABI 2026-04");
  refuses(decode_control(Buffer(641), kLayout2026_05), "641 bytes: not whole words");
  refuses(decode_control(Buffer(384), kLayout2026_04), "384 bytes: ABI 2026-04 has 388 at least");
  CHECK(decode_control(Buffer(388), kLayout2026_04));
  REQUIRE(doubt_of_layout(Buffer(512), kLayout2026_05));
  CHECK(*doubt_of_layout(Buffer(512), kLayout2026_05) ==
        "a control buffer of 512 bytes speaks for --abi 2026-04: 2026-05 has 640 at least");
  CHECK_FALSE(doubt_of_layout(control_of(), kLayout2026_05));
  CHECK(doubt_of_layout(control_of(), kLayout2026_04));
  CHECK_FALSE(doubt_of_layout(Buffer(388), kLayout2026_04));
  CHECK_FALSE(doubt_of_layout(Buffer(100), kLayout2026_05));
}

TEST_CASE("the older layout has its metrics, epoch and results where it has them") {
  Buffer control = *encode_control(kLayout2026_04, Mode::kSafe, {.tenants = 1, .observables = 2});
  set_word(control, 64 + 2, 9);
  set_word(control, 96, 5);
  set_word(control, 33, 7);
  const auto snapshot = decode_control(control, kLayout2026_04);
  REQUIRE(snapshot);
  CHECK(snapshot->metrics == std::vector<std::pair<Word, Word>>{{2, 9}});
  CHECK(snapshot->epoch == 5);
  CHECK(*observable(control, kLayout2026_04, 1) == 7);
  refuses(observable(control, kLayout2026_04, 32), "observable 32");
}

TEST_CASE("the debug log: strict refuses a cursor beyond the end or within a record, safe reads what is there") {
  Buffer log = *encode_debug_log(2);
  REQUIRE(log.size() == 36);
  for (Word record = 1; record <= 2; ++record) {
    REQUIRE(append(log, {.format = record, .arg1 = 10, .arg2 = 20, .slot_base = 16}));
  }
  for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
    const auto read = decode_debug_log(log, mode);
    REQUIRE(read);
    CHECK(read->records == std::vector<DebugRecord>{{1, 10, 20, 16}, {2, 10, 20, 16}});
    CHECK(read->dropped == 0);
  }
  REQUIRE(append(log, {.format = 3}));
  REQUIRE(append(log, {.format = 4}));
  refuses(decode_debug_log(log, Mode::kStrict), "cursor of the debug log is 16: beyond the 8 words");
  const auto full = decode_debug_log(log, Mode::kSafe);
  REQUIRE(full);
  CHECK(full->dropped == 2);
  CHECK(full->records.size() == 2);
  set_word(log, 0, 5);
  refuses(decode_debug_log(log, Mode::kStrict), "not a multiple of 4");
  CHECK(decode_debug_log(log, Mode::kSafe)->torn);
  CHECK(decode_debug_log(log, Mode::kSafe)->records.size() == 1);
  refuses(decode_debug_log(Buffer(35), Mode::kSafe), "35 bytes");
  refuses(decode_debug_log(Buffer(0), Mode::kSafe), "0 bytes");
}

TEST_CASE("the IO queue served by the host: taken, completed, collected, free again") {
  for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
    Buffer bytes = encode_io_queue();
    IoQueue queue = *IoQueue::over(bytes, mode);
    const auto entry = queue.submit_load_miss(42);
    REQUIRE(entry);
    REQUIRE(*entry == Word{0});
    CHECK(queue.entry(0) == IoRequest{.op = io_op::kRead, .source = 42, .destination = 42, .status = 1, .tag = 42});
    CHECK(*queue.collect(0) == IoQueue::Outcome::kWaits);
    refuses(queue.complete(0, true), "IO entry 0 is PUBLISHED");
    CHECK(queue.poll() == Word{0});
    CHECK_FALSE(queue.poll());
    REQUIRE(queue.complete(0, true));
    CHECK(*queue.collect(0) == IoQueue::Outcome::kOk);
    CHECK(queue.entry(0).status == status::kEmpty);
    refuses(queue.collect(0), "nothing was asked");
    refuses(queue.collect(64), "IO entry 64");
  }
}

TEST_CASE("an ERROR and the kernel's DONE: strict waits for ever, safe ends the request") {
  for (const bool by_kernel : {false, true}) {
    for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
      Buffer bytes = encode_io_queue();
      IoQueue queue = *IoQueue::over(bytes, mode);
      REQUIRE(queue.submit({.offset_bytes = 0x5'0000'0007}));
      if (by_kernel) {
        const auto served = queue.serve();
        REQUIRE(served);
        CHECK(served->offset_bytes == (mode == Mode::kStrict ? 7U : 0x5'0000'0007U));
      } else {
        REQUIRE(queue.poll());
        REQUIRE(queue.complete(0, false));
      }
      const auto outcome = queue.collect(0);
      REQUIRE(outcome);
      CHECK(*outcome == (mode == Mode::kStrict ? IoQueue::Outcome::kWaits
                         : by_kernel           ? IoQueue::Outcome::kOk
                                               : IoQueue::Outcome::kError));
      CHECK((queue.entry(0).status == status::kEmpty) == (mode == Mode::kSafe));
    }
  }
}

TEST_CASE("a full IO queue: strict completes without a request, safe says so") {
  for (const Mode mode : {Mode::kStrict, Mode::kSafe}) {
    Buffer bytes = encode_io_queue();
    IoQueue queue = *IoQueue::over(bytes, mode);
    for (Word entry = 0; entry < kIoEntries; ++entry) CHECK(**queue.submit_load_miss(entry) == entry);
    const auto more = queue.submit_load_miss(64);
    CHECK(more.has_value() == (mode == Mode::kStrict));
    if (more) CHECK_FALSE(more->has_value());
  }
  refuses(decode_io_queue(Buffer(2047)), "2047 bytes: it has 64 entries");
  CHECK(decode_io_queue(encode_io_queue())->size() == 64);
}

TEST_CASE("a batch is its items and one fence; one item that is refused leaves the ring as it was") {
  Buffer ring = *encode_empty_ring(4);
  REQUIRE(publish_batch(ring, kLayout2026_05, Mode::kSafe, 1, {{.opcode = opcode::kNop}, {.opcode = 0x100}}, 77));
  CHECK(words_at(ring, 0)[0] == status::kEmpty);
  CHECK(words_at(ring, 2)[1] == 0x100);
  CHECK(words_at(ring, 3) == std::vector<Word>{1, 7, 0, 2, 2, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Buffer before = ring;
  refuses(publish_batch(ring, kLayout2026_05, Mode::kSafe, 0, {{.opcode = opcode::kNop}}, 1), "slot 1 is PUBLISHED");
  CHECK(ring == before);
  refuses(publish_batch(ring, kLayout2026_05, Mode::kSafe, 0, {}, 1), "no items");
}

TEST_CASE("a route window: required slots first, then lookahead, from its start on") {
  const RouteWindow window{.ticket = 7, .opcode = 0xf101, .tenant = 3, .required = {{1}, {2}}, .lookahead = {{3, 4}}};
  const auto slots = window_slots(window, 5, kLayout2026_05);
  REQUIRE(slots);
  REQUIRE(slots->size() == 3);
  CHECK((*slots)[0].args == std::vector<Word>{7, 0, 1});
  CHECK((*slots)[2].args == std::vector<Word>{7, 1, 3, 4});
  CHECK((*slots)[2].slot == 7);
  refuses(window_slots({.ticket = 1, .required = {std::vector<Word>(11)}}, 0, kLayout2026_05), "payload of 11 words");
  refuses(window_slots({.ticket = 1}, 0, kLayout2026_05), "has no slot");
}

TEST_CASE("tasks and work items come back as they were") {
  std::array<Word, kTaskWords> words{};
  for (Word index = 0; index < kTaskWords; ++index) words[index] = 100 + index;
  const TaskWorkItem task = task_of(words);
  CHECK(task.state == 100);
  CHECK(task.continuation_pc == 107);
  CHECK(task.resume_epoch == 109);
  CHECK(task.flags == 115);
  CHECK(words_of(task) == words);
  CHECK(*decode_tasks(encode_tasks({task, {}})) == std::vector<TaskWorkItem>{task, {}});
  refuses(decode_tasks(Buffer(65)), "65 bytes");
  for (Word state = 0; state < 9; ++state) {
    CHECK(task_state::is_schedulable(state) == (state == 1 || state == 5 || state == 6));
  }
  Buffer ring = *encode_empty_ring(1);
  const MegakernelWorkItem item{.op_handle = 0x200, .input = 1, .output = 2, .param = 3};
  REQUIRE(publish(ring, kLayout2026_05, Mode::kSafe, publication_of(item, 0, 4)));
  CHECK(work_item_of(*decode_slot(ring, kLayout2026_05, 0)) == item);
}

TEST_CASE("each quirk has a name of its own, both behaviours and its section") {
  std::vector<std::string> names;
  for (const Quirk& quirk : quirks()) {
    CHECK(std::find(names.begin(), names.end(), quirk.name) == names.end());
    names.emplace_back(quirk.name);
    CHECK(std::string(quirk.strict).size() > 7);
    CHECK(std::string(quirk.safe).size() > 7);
    CHECK(std::string(quirk.section).rfind("2.", 0) == 0);
  }
  CHECK(names.size() == 15);
}

}  // namespace buffers_test
