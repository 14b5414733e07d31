#pragma once
// Packed slots: several operations in one slot's arguments (vyre, commit ca35047).
//
// clang-format off
// Layout of a payload: bytes from ARG0 on, little-endian, sizes in bytes.
//   offset  size  name            meaning
//        0     1  count           number of operations
//        1     1  argument_words  words of the argument area
//        2     *  table           for each operation its opcode (1) and the first of its argument words (1); then zeros
//                                 to the next whole word, where the argument area begins
// clang-format on
// The host lays out any number of operations that fits. The kernel runs at most four. It looks for the argument area
// where the area would begin for the number that it runs, and skips an operation whose first three argument words would
// not all be in the slot.

#include <vector>

#include "plugin/ring/abi/slot.h"

namespace meshbed::ring {

struct PackedOp {
  std::uint8_t opcode = 0;
  std::vector<Word> args;

  bool operator==(const PackedOp&) const = default;
};

/// The slot's argument words. Errors: no operation, or more than the slot has room for; safe: what the kernel would not
/// run as it stands.
Result<std::vector<Word>> encode_packed(const Layout& layout, Mode mode, const std::vector<PackedOp>& ops);

/// By the host's layout, with what the kernel makes of it.
struct PackedSlot {
  struct Op {
    std::uint8_t opcode = 0;
    std::uint8_t argument_offset = 0;           // words into the argument area
    std::array<Word, kArgsRead> args{};         // by the host's layout; what lies beyond the slot: 0
    bool runs = false;                          // the kernel gets to it, and does not skip it
    bool skipped = false;                       // the kernel gets to it, and its arguments would end beyond the slot
    std::array<Word, kArgsRead> kernel_args{};  // what the kernel reads for them, where it runs
  };
  std::vector<Op> ops;
  Word argument_words = 0;     // by the payload
  bool beyond_kernel = false;  // more operations than the kernel runs
  bool misaligned = false;     // the kernel looks for the arguments in another place than the host put them
  bool skips = false;          // an operation is skipped
};

/// `slot`: its arguments. Errors: a table that does not fit the slot.
Result<PackedSlot> decode_packed(const Slot& slot, const Layout& layout);

}  // namespace meshbed::ring
