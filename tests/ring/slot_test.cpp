// Slots and packed slots: vyre, commit ca35047.
#include "plugin/ring/abi/slot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "plugin/ring/abi/packed.h"
#include "tests/ring/rings.h"
#include "tests/support/layout.h"

namespace slot_test {

using namespace meshbed::ring;
using namespace meshbed::test;

TEST_CASE("a published slot has the golden words, and both layouts give back what was published") {
  Buffer ring = *encode_empty_ring(2);
  const Publication add{.slot = 1, .tenant = 0, .opcode = opcode::kAtomicAdd, .args = {1, 5}};
  REQUIRE(publish(ring, kLayout2026_05, Mode::kStrict, add));
  CHECK(words_at(ring, 1) == std::vector<Word>{1, 2, 0, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(words_at(ring, 0) == std::vector<Word>(16));

  for (const Abi abi : {Abi::k2026_04, Abi::k2026_05}) {
    const Layout& layout = layout_of(abi);
    Buffer one = *encode_empty_ring(1);
    Publication full{.slot = 0, .tenant = 3, .opcode = 0x100, .args = {}};
    for (Word arg = 0; arg < layout.args_per_slot; ++arg) full.args.push_back(100 + arg);
    REQUIRE(publish(one, layout, Mode::kSafe, full));
    const auto slot = decode_slot(one, layout, 0);
    REQUIRE(slot);
    CHECK(slot->status == status::kPublished);
    CHECK(slot->opcode == 0x100);
    CHECK(slot->tenant == 3);
    CHECK(slot->priority == (abi == Abi::k2026_05 ? priority::kNormal : 0));
    CHECK(std::equal(full.args.begin(), full.args.end(), slot->args.begin()));
    full.args.push_back(1);
    Buffer other = *encode_empty_ring(1);
    CHECK_FALSE(publish(other, layout, Mode::kSafe, full));
  }
}

TEST_CASE("LOAD_MISS has the golden words, and no other encoder makes it") {
  const auto slot = encode_load_miss(kLayout2026_05, 42, true);
  CHECK(words_at({slot.begin(), slot.end()}) ==
        std::vector<Word>{1, 0xfffd, 0, 0, 42, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  Buffer ring = *encode_empty_ring(1);
  refuses(publish(ring, kLayout2026_05, Mode::kStrict, {.opcode = opcode::kLoadMiss}), "encoder of its own");
  CHECK(ring == *encode_empty_ring(1));
}

TEST_CASE("a publish into any status: EMPTY and DONE take it, all others refuse and stay as they were") {
  for (Word now = 0; now < 20; ++now) {
    Buffer ring = ring_of({now});
    set_word(ring, 9, 77);
    const Buffer before = ring;
    const bool taken = publish(ring, kLayout2026_05, Mode::kStrict, {.opcode = opcode::kNop}).has_value();
    CHECK(taken == (now == status::kEmpty || now == status::kDone));
    if (!taken) CHECK(ring == before);
    if (taken) CHECK(words_at(ring)[9] == 0);  // unused arguments are zeroed
  }
}

TEST_CASE("what cannot be published is refused with its reason") {
  Buffer ring = *encode_empty_ring(4);
  const auto tried = [&](const Publication& what, Mode mode = Mode::kStrict) {
    return publish(ring, kLayout2026_05, mode, what);
  };
  refuses(tried({.slot = 4}), "slot 4: the ring has 4 slots");
  refuses(tried({.opcode = 0xfff1}), "opcode 0xfff1 is the system's");
  refuses(tried({.opcode = 0x8000'0002}), "opcode 0x80000002 is the system's");
  refuses(tried({.args = std::vector<Word>(13)}), "13 arguments: a slot of ABI 2026-05 has room for 12");
  refuses(tried({.tenant = 29}, Mode::kSafe), "tenant 29: there are masks for tenants 0 to 28");
  CHECK(tried({.tenant = 29}, Mode::kStrict));
  Buffer odd(100);
  refuses(publish(odd, kLayout2026_05, Mode::kStrict, {}), "100 bytes: not whole slots of 64 bytes; 36 are left over");
  refuses(encode_empty_ring(kSlotsMostEncoded + 1), "1048577 slots: more than 1048576");
  CHECK(encode_empty_ring(kSlotsMostEncoded));
  refuses(slot_count(std::uint64_t{kSlotsMost} * kSlotBytes + kSlotBytes), "word indices name 268435455 at most");
  CHECK(*slot_count(std::uint64_t{kSlotsMost} * kSlotBytes) == kSlotsMost);
  CHECK(*slot_count(0) == 0);
  refuses(decode_slot(ring, kLayout2026_05, 4), "slot 4: the ring has 4 slots");
}

TEST_CASE("count_done counts DONE alone") {
  CHECK(*count_done(ring_of({status::kDone, status::kClaimed, status::kDone, status::kEmpty})) == 2);
  refuses(count_done(Buffer(63)), "63 bytes");
}

TEST_CASE("two packed operations have the golden payload, and come back") {
  const std::vector<PackedOp> ops{{1, {10, 11}}, {2, {12, 13}}};
  const auto payload = encode_packed(kLayout2026_05, Mode::kStrict, ops);
  REQUIRE(payload);
  CHECK(*payload == std::vector<Word>{0x00010402, 0x00000202, 10, 11, 12, 13});
  Slot slot;
  std::copy(payload->begin(), payload->end(), slot.args.begin());
  const auto packed = decode_packed(slot, kLayout2026_05);
  REQUIRE(packed);
  REQUIRE(packed->ops.size() == 2);
  CHECK(packed->argument_words == 4);
  CHECK(packed->ops[0].opcode == 1);
  CHECK(packed->ops[1].args == std::array<Word, 3>{12, 13, 0});
  CHECK(packed->ops[1].kernel_args == packed->ops[1].args);
  CHECK_FALSE((packed->beyond_kernel || packed->misaligned || packed->skips));
}

TEST_CASE("the table of packed operations has the layout that its header documents") {
  const auto payload = encode_packed(kLayout2026_05, Mode::kStrict, {{1, {10, 11}}, {2, {12, 13}}});
  REQUIRE(payload);
  std::vector<std::uint8_t> bytes(2 * kWordBytes);  // two words of table, then the arguments
  std::memcpy(bytes.data(), payload->data(), bytes.size());
  CHECK(layout_problem(
            "plugin/ring/abi/packed.h", "a payload", bytes,
            {little_endian("count", 2, 1), little_endian("argument_words", 4, 1), {"table", {1, 0, 2, 2}}}) == "");
}

TEST_CASE(
    "packed slots of 1 to 12 operations: the kernel runs four, misplaces the arguments from six on, skips what ends "
    "beyond the slot") {
  for (Word count = 1; count <= 12; ++count) {
    CAPTURE(count);
    std::vector<PackedOp> ops(count, {opcode::kNop, {}});
    ops[0].args = {7};
    const auto payload = encode_packed(kLayout2026_05, Mode::kStrict, ops);
    if (packed_metadata_words(count) + 1 > 12) {
      refuses(payload, "takes more than the 12 words");
      continue;
    }
    REQUIRE(payload);
    Slot slot;
    std::copy(payload->begin(), payload->end(), slot.args.begin());
    const auto packed = decode_packed(slot, kLayout2026_05);
    REQUIRE(packed);
    REQUIRE(packed->ops.size() == count);
    CHECK(packed->ops[0].args[0] == 7);  // by the host's layout, always
    CHECK(packed->beyond_kernel == (count > 4));
    CHECK(packed->misaligned == (count >= 6));
    CHECK((packed->ops[0].kernel_args[0] == 7) == (count < 6));
    for (Word op = 0; op < count; ++op) CHECK(packed->ops[op].runs == (op < 4));
    CHECK(encode_packed(kLayout2026_05, Mode::kSafe, ops).has_value() == (count <= 4));
  }
}

TEST_CASE("an operation whose three words would end beyond the slot is skipped, or refused in safe mode") {
  // 2 operations: 2 words of table; arguments of the second at word 2 + 8.
  const std::vector<PackedOp> ops{{1, std::vector<Word>(8, 5)}, {2, {6}}};
  const auto payload = encode_packed(kLayout2026_05, Mode::kStrict, ops);
  REQUIRE(payload);
  Slot slot;
  std::copy(payload->begin(), payload->end(), slot.args.begin());
  const auto packed = decode_packed(slot, kLayout2026_05);
  REQUIRE(packed);
  CHECK(packed->ops[0].runs);
  CHECK(packed->ops[1].skipped);
  CHECK(packed->skips);
  refuses(encode_packed(kLayout2026_05, Mode::kSafe, ops), "operation 1 of a packed slot has its arguments at word 10");
  refuses(encode_packed(kLayout2026_05, Mode::kSafe, {}), "of no operation");
  slot.args[0] = 200;
  refuses(decode_packed(slot, kLayout2026_05), "claims to have 200 operations");
}

TEST_CASE("statuses and opcodes have names") {
  CHECK(status_name(status::kWaitIo) == "WAIT_IO");
  CHECK(status_name(9) == "UNKNOWN(9)");
  CHECK(opcode_name(opcode::kBatchFence) == "BATCH_FENCE");
  CHECK(opcode_name(0xfffd) == "LOAD_MISS");
  CHECK(opcode_name(0xf101) == "user 0xf101");
  CHECK(opcode_name(0xfff1) == "system 0xfff1");
}

}  // namespace slot_test
