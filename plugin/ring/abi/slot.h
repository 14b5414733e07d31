#pragma once
// Slots: how they are written into a ring and read from it (vyre, commit ca35047). For rings that no other thread uses
// at the same time, and that are passed on as a whole; for live ones see live_ring.h.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {

/// One slot, whole.
struct Slot {
  Word status = status::kEmpty;
  Word opcode = opcode::kNop;
  Word tenant = 0;
  Word priority = priority::kCritical;  // a layout without the word: 0
  std::array<Word, kArgsMost> args{};   // the layout's args_per_slot of them

  bool operator==(const Slot&) const = default;
};

/// "PUBLISHED"; "UNKNOWN(9)".
std::string status_name(Word status);
/// "ATOMIC_ADD"; "user 0x100"; "system 0xfff1".
std::string opcode_name(Word op);

/// Errors: more than kSlotsMostEncoded slots.
Result<std::vector<std::uint8_t>> encode_empty_ring(std::uint64_t slots);

/// Slots in a ring of so many bytes; 0 are legal. Errors: bytes that are no whole slots, more than kSlotsMost.
Result<Word> slot_count(std::uint64_t ring_bytes);

struct Publication {
  Word slot = 0;  // index
  Word tenant = 0;
  Word opcode = opcode::kNop;
  std::vector<Word> args{};  // up to the layout's args_per_slot; the others become 0
};

/// Writes a slot of priority NORMAL, STATUS last. Errors, which leave the ring unchanged: a slot that does not exist or
/// is neither EMPTY nor DONE, an opcode that must not be published, too many arguments; safe: a tenant that can have no
/// mask.
Result<void> publish(MutableBytes ring, const Layout& layout, Mode mode, const Publication& what);
/// What publish() asks of it before it looks at the ring.
Result<void> check_publication(Word slots, const Layout& layout, Mode mode, const Publication& what);
/// A slot's words as publish() writes them.
std::array<Word, kSlotWords> words_of(const Layout& layout, const Publication& what);

/// The slot that asks the IO-enabled kernel for a resource: LOAD_MISS, tenant 0, priority 0. It replaces the slot's
/// content.
std::array<std::uint8_t, kSlotBytes> encode_load_miss(const Layout& layout, Word resource, bool prefetch);

/// `bytes`: of the slot.
Slot decode_slot(std::span<const std::uint8_t, kSlotBytes> bytes, const Layout& layout);
/// Errors: as slot_count(), or no such slot.
Result<Slot> decode_slot(Bytes ring, const Layout& layout, std::uint64_t index);

/// DONE slots. Errors: as slot_count().
Result<std::uint64_t> count_done(Bytes ring);

}  // namespace meshbed::ring
