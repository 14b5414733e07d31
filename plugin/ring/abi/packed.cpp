#include "plugin/ring/abi/packed.h"

#include <algorithm>
#include <cstddef>

namespace meshbed::ring {
namespace {

constexpr Word kTableFirstByte = 2;

/// Byte `index` of the payload.
std::uint8_t byte_of(const std::array<Word, kArgsMost>& args, Word index) {
  return static_cast<std::uint8_t>(args[index / kWordBytes] >> (8 * (index % kWordBytes)));
}

std::array<Word, kArgsRead> args_at(const Slot& slot, const Layout& layout, Word word) {
  std::array<Word, kArgsRead> args{};
  for (Word index = 0; index < kArgsRead && word + index < layout.args_per_slot; ++index) {
    args[index] = slot.args[word + index];
  }
  return args;
}

}  // namespace

Result<std::vector<Word>> encode_packed(const Layout& layout, Mode mode, const std::vector<PackedOp>& ops) {
  if (ops.empty()) return refused("a packed slot of no operation");
  const auto count = static_cast<Word>(std::min<std::size_t>(ops.size(), 256));
  std::size_t argument_words = 0;
  for (const PackedOp& op : ops) argument_words += op.args.size();
  const Word metadata = packed_metadata_words(count);
  if (metadata + argument_words > layout.args_per_slot) {
    return refused("a packed slot of " + std::to_string(ops.size()) + " operations with " +
                   std::to_string(argument_words) + " argument words takes more than the " +
                   std::to_string(layout.args_per_slot) + " words that a slot has");
  }
  // Quirk packed-beyond-kernel.
  if (mode == Mode::kSafe && count > kPackedOpsKernel) {
    return refused("a packed slot of " + std::to_string(count) + " operations: the kernel runs the first " +
                   std::to_string(kPackedOpsKernel));
  }
  std::vector<Word> payload(metadata + argument_words);
  const auto put_byte = [&payload](Word index, std::size_t value) {
    payload[index / kWordBytes] |= static_cast<Word>(value) << (8 * (index % kWordBytes));
  };
  put_byte(0, count);
  put_byte(1, argument_words);
  std::size_t offset = 0;
  for (Word index = 0; index < count; ++index) {
    const PackedOp& op = ops[index];
    if (mode == Mode::kSafe && metadata + offset + kPackedArgsKernel > layout.args_per_slot) {
      return refused("operation " + std::to_string(index) + " of a packed slot has its arguments at word " +
                     std::to_string(metadata + offset) + ": the kernel reads " + std::to_string(kPackedArgsKernel) +
                     " from there, which are not all in the slot, and would skip it");
    }
    put_byte(kTableFirstByte + 2 * index, op.opcode);
    put_byte(kTableFirstByte + 2 * index + 1, offset);
    std::copy(op.args.begin(), op.args.end(), payload.begin() + static_cast<std::ptrdiff_t>(metadata + offset));
    offset += op.args.size();
  }
  return payload;
}

Result<PackedSlot> decode_packed(const Slot& slot, const Layout& layout) {
  const Word count = byte_of(slot.args, 0);
  const Word metadata = packed_metadata_words(count);
  if (metadata > layout.args_per_slot) {
    return refused("a packed slot claims to have " + std::to_string(count) + " operations: their table alone takes " +
                   std::to_string(metadata) + " of " + std::to_string(layout.args_per_slot) + " argument words");
  }
  const Word run = std::min(count, kPackedOpsKernel);
  const Word kernel_metadata = packed_metadata_words(run);
  PackedSlot packed;
  packed.argument_words = byte_of(slot.args, 1);
  packed.beyond_kernel = count > kPackedOpsKernel;
  packed.misaligned = kernel_metadata != metadata;
  for (Word index = 0; index < count; ++index) {
    PackedSlot::Op op;
    op.opcode = byte_of(slot.args, kTableFirstByte + 2 * index);
    op.argument_offset = byte_of(slot.args, kTableFirstByte + 2 * index + 1);
    op.args = args_at(slot, layout, metadata + op.argument_offset);
    if (index < run) {
      op.skipped = kernel_metadata + op.argument_offset + kPackedArgsKernel > layout.args_per_slot;
      op.runs = !op.skipped;
      if (op.runs) op.kernel_args = args_at(slot, layout, kernel_metadata + op.argument_offset);
      packed.skips = packed.skips || op.skipped;
    }
    packed.ops.push_back(op);
  }
  return packed;
}

}  // namespace meshbed::ring
