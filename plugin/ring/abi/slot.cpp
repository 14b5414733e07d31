#include "plugin/ring/abi/slot.h"

#include <algorithm>
#include <charconv>

namespace meshbed::ring {
namespace {

std::string hexadecimal(Word value) {
  std::array<char, 8> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

}  // namespace

std::string status_name(Word value) {
  static constexpr const char* kNames[] = {"EMPTY",   "PUBLISHED", "CLAIMED", "DONE",
                                           "WAIT_IO", "YIELD",     "REQUEUE", "FAULT"};
  if (status::is_known(value)) return kNames[value];
  return "UNKNOWN(" + std::to_string(value) + ")";
}

std::string opcode_name(Word op) {
  static constexpr const char* kNames[] = {"NOP",          "STORE_U32", "ATOMIC_ADD", "LOAD_U32",
                                           "COMPARE_SWAP", "MEMCPY",    "DFA_STEP",   "BATCH_FENCE"};
  if (op <= opcode::kBatchFence) return kNames[op];
  if (op == opcode::kLoadMiss) return "LOAD_MISS";
  if (op == opcode::kPrintf) return "PRINTF";
  if (op == opcode::kPackedSlot) return "PACKED_SLOT";
  if (op == opcode::kShutdown) return "SHUTDOWN";
  return (opcode::is_user(op) ? "user " : "system ") + hexadecimal(op);
}

Result<std::vector<std::uint8_t>> encode_empty_ring(std::uint64_t slots) {
  if (slots > kSlotsMostEncoded) {
    return refused("a ring of " + std::to_string(slots) + " slots: more than " + std::to_string(kSlotsMostEncoded) +
                   " are not made room for; use several rings");
  }
  return std::vector<std::uint8_t>(slots * kSlotBytes);
}

Result<Word> slot_count(std::uint64_t ring_bytes) {
  if (ring_bytes % kSlotBytes != 0) {
    return refused("a ring of " + std::to_string(ring_bytes) + " bytes: not whole slots of " +
                   std::to_string(kSlotBytes) + " bytes; " + std::to_string(ring_bytes % kSlotBytes) +
                   " are left over");
  }
  if (ring_bytes / kSlotBytes > kSlotsMost) {
    return refused("a ring of " + std::to_string(ring_bytes / kSlotBytes) + " slots: word indices name " +
                   std::to_string(kSlotsMost) + " at most");
  }
  return static_cast<Word>(ring_bytes / kSlotBytes);
}

Result<void> check_publication(Word slots, const Layout& layout, Mode mode, const Publication& what) {
  if (what.slot >= slots) {
    return refused("slot " + std::to_string(what.slot) + ": the ring has " + std::to_string(slots) +
                   " slots, counted from 0");
  }
  if (what.opcode == opcode::kLoadMiss) {
    return refused("opcode LOAD_MISS is not published: it has an encoder of its own (encode_load_miss)");
  }
  if (!opcode::is_publishable(what.opcode)) {
    return refused("opcode " + hexadecimal(what.opcode) + " is the system's and means nothing; users have " +
                   hexadecimal(opcode::kUserFirst) + "-0xffef and 0x10000-0x7fffffff");
  }
  if (what.args.size() > layout.args_per_slot) {
    return refused(std::to_string(what.args.size()) + " arguments: a slot of ABI " + layout.name + " has room for " +
                   std::to_string(layout.args_per_slot));
  }
  // Quirk tenant-mask-unbounded.
  if (mode == Mode::kSafe && what.tenant >= kTenantMasksMost) {
    return refused("tenant " + std::to_string(what.tenant) + ": there are masks for tenants 0 to " +
                   std::to_string(kTenantMasksMost - 1) + "; it would never run");
  }
  return ok();
}

std::array<Word, kSlotWords> words_of(const Layout& layout, const Publication& what) {
  std::array<Word, kSlotWords> words{};
  words[slot_word::kStatus] = status::kPublished;
  words[slot_word::kOpcode] = what.opcode;
  words[slot_word::kTenant] = what.tenant;
  if (layout.priority_word != Layout::kNone) words[layout.priority_word] = priority::kNormal;
  std::copy(what.args.begin(), what.args.end(), words.begin() + layout.arg0_word);
  return words;
}

Result<void> publish(MutableBytes ring, const Layout& layout, Mode mode, const Publication& what) {
  const Result<Word> slots = slot_count(ring.size());
  if (!slots) return slots.error();
  if (const Result<void> fits = check_publication(*slots, layout, mode, what); !fits) return fits;
  std::uint8_t* slot = ring.data() + std::uint64_t{what.slot} * kSlotBytes;
  const Word now = load_word(slot, slot_word::kStatus);
  if (!status::is_free(now)) {
    return refused("slot " + std::to_string(what.slot) + " is " + status_name(now) +
                   ": only EMPTY and DONE slots are published into");
  }
  const auto words = words_of(layout, what);
  for (Word index = kSlotWords; index-- > 0;) store_word(slot, index, words[index]);  // STATUS, word 0, last
  return ok();
}

std::array<std::uint8_t, kSlotBytes> encode_load_miss(const Layout& layout, Word resource, bool prefetch) {
  std::array<std::uint8_t, kSlotBytes> slot{};
  store_word(slot.data(), slot_word::kOpcode, opcode::kLoadMiss);
  store_word(slot.data(), layout.arg0_word, resource);
  store_word(slot.data(), layout.arg0_word + 1, prefetch ? 1 : 0);
  store_word(slot.data(), slot_word::kStatus, status::kPublished);
  return slot;
}

Slot decode_slot(std::span<const std::uint8_t, kSlotBytes> bytes, const Layout& layout) {
  Slot slot;
  slot.status = load_word(bytes.data(), slot_word::kStatus);
  slot.opcode = load_word(bytes.data(), slot_word::kOpcode);
  slot.tenant = load_word(bytes.data(), slot_word::kTenant);
  if (layout.priority_word != Layout::kNone) slot.priority = load_word(bytes.data(), layout.priority_word);
  for (Word index = 0; index < layout.args_per_slot; ++index) {
    slot.args[index] = load_word(bytes.data(), layout.arg0_word + index);
  }
  return slot;
}

Result<Slot> decode_slot(Bytes ring, const Layout& layout, std::uint64_t index) {
  const Result<Word> slots = slot_count(ring.size());
  if (!slots) return slots.error();
  if (index >= *slots) {
    return refused("slot " + std::to_string(index) + ": the ring has " + std::to_string(*slots) +
                   " slots, counted from 0");
  }
  return decode_slot(std::span<const std::uint8_t, kSlotBytes>(ring.subspan(index * kSlotBytes, kSlotBytes)), layout);
}

Result<std::uint64_t> count_done(Bytes ring) {
  const Result<Word> slots = slot_count(ring.size());
  if (!slots) return slots.error();
  std::uint64_t done = 0;
  for (std::uint64_t index = 0; index < *slots; ++index) {
    if (load_word(ring.data(), index * kSlotWords) == status::kDone) ++done;
  }
  return done;
}

}  // namespace meshbed::ring
