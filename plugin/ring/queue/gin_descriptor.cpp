#include "plugin/ring/queue/gin_descriptor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "plugin/ring/abi/words.h"
#include "plugin/ring/include/meshbed/ring.h"

namespace meshbed::ring {
namespace {

constexpr std::uint64_t kWritten = 1;
constexpr std::uint64_t kGinVersion = 2;
constexpr std::uint64_t kFieldMost = (std::uint64_t{1} << 63U) - 1;  // of 63 bits
constexpr std::uint64_t kSizeMost = (std::uint64_t{1} << 57U) - 1;
constexpr std::uint32_t kCounterMost = (1U << 23U) - 1, kSignalMost = (1U << 24U) - 1;

/// `count` bits of `word` from `from` on.
constexpr std::uint64_t bits(std::uint64_t word, unsigned from, unsigned count) {
  return word >> from & ((std::uint64_t{1} << count) - 1);
}
constexpr std::uint64_t field_mask(unsigned from, unsigned count) {
  return ((std::uint64_t{1} << count) - 1) << from | kWritten;
}

bool has(std::uint16_t op, std::uint16_t what) { return (op & what) != 0; }
bool signals(std::uint16_t op) { return has(op, gin_op::kSignalInc | gin_op::kSignalAdd); }

/// What is wrong with them; empty: nothing.
std::string op_problem(std::uint16_t op) {
  using namespace gin_op;
  if (op == 0 || op > 0xff) return "there is no GIN operation " + std::to_string(op);
  if (has(op, kSignalInc) && has(op, kSignalAdd)) return "a signal is either counted up or added to";
  if (has(op, kFlush)) return op == kFlush ? "" : "a flush goes with nothing else";
  if (has(op, kGet)) return (op & ~(kGet | kCounter)) == 0 ? "" : "a get goes with a counter at most";
  if (has(op, kVaSignal)) {
    if (has(op, kPut)) return "a VA signal is a descriptor of its own, after the put's";
    return signals(op) && !has(op, kInline | kCounter) ? "" : "a VA signal is counted up or added to, and nothing else";
  }
  return has(op, kPut) ? "" : "without a put, a get or a flush there is nothing to do";
}

}  // namespace

GinWords gin_mask(std::uint16_t op) {
  GinWords mask;
  mask.fill(kWritten);
  mask[0] = field_mask(1, 4);
  mask[7] = field_mask(8, 16);
  if (op == gin_op::kFlush) return mask;  // it has no size
  mask[0] |= field_mask(7, 57);
  const std::uint64_t whole = ~std::uint64_t{0};
  mask[1] = has(op, gin_op::kInline) ? field_mask(8, 48) : whole;
  mask[2] = has(op, gin_op::kInline) ? field_mask(8, 16) : whole;
  mask[3] = mask[4] = whole;
  if (has(op, gin_op::kVaSignal)) mask[3] = mask[4] = kWritten;
  if (has(op, gin_op::kCounter)) mask[5] |= field_mask(1, 23);
  if (signals(op)) {
    mask[5] |= field_mask(48, 16);
    if (!has(op, gin_op::kVaSignal)) mask[5] |= field_mask(24, 24);
    mask[6] = field_mask(1, 1) | field_mask(8, 16) | field_mask(24, 32);
  }
  return mask;
}

Result<GinWords> encode_gin(const GinDescriptor& what) {
  if (const std::string problem = op_problem(what.op); !problem.empty()) return refused(problem);
  const auto fits = [](std::uint64_t value) { return value <= kFieldMost; };
  if (!fits(what.source_offset) || !fits(what.source_handle) || !fits(what.destination_offset) ||
      !fits(what.destination_handle)) {
    return refused("offsets and handles have 63 bits");
  }
  if (what.size_bytes > kSizeMost) return refused("a size has 57 bits");
  if (has(what.op, gin_op::kInline) && what.size_bytes > sizeof what.inline_value) {
    return refused("an inline value has at most 8 bytes, not " + std::to_string(what.size_bytes));
  }
  if (what.counter > kCounterMost) return refused("a counter's number has 23 bits: " + std::to_string(what.counter));
  if (what.signal > kSignalMost) return refused("a signal's number has 24 bits: " + std::to_string(what.signal));
  const meshbed_gin_operation operation{.op = what.op,
                                        .size_bytes = what.size_bytes,
                                        .source_offset = what.source_offset,
                                        .source_handle = what.source_handle,
                                        .destination_offset = what.destination_offset,
                                        .destination_handle = what.destination_handle,
                                        .counter = what.counter,
                                        .signal = what.signal,
                                        .signal_value = what.signal_value,
                                        .inline_value = what.inline_value,
                                        .strong = what.strong ? 1U : 0U};
  return std::to_array(meshbed_gin_encode(&operation).words);
}

Result<GinDescriptor> decode_gin(const GinWords& words) {
  for (std::size_t word = 0; word < kGinWords; ++word) {
    if ((words[word] & kWritten) == 0) return refused("word " + std::to_string(word) + " is not written yet");
  }
  if (const std::uint64_t version = bits(words[0], 1, 4); version != kGinVersion) {
    return refused("a descriptor of version " + std::to_string(version) + "; known: 2");
  }
  meshbed_gin_descriptor descriptor;
  std::copy(words.begin(), words.end(), descriptor.words);
  const meshbed_gin_operation from = meshbed_gin_decode(&descriptor);
  GinDescriptor what{.op = static_cast<std::uint16_t>(from.op)};
  if (const std::string problem = op_problem(what.op); !problem.empty()) return refused(problem);
  if (what.op == gin_op::kFlush) return what;
  what.size_bytes = from.size_bytes;
  if (has(what.op, gin_op::kInline)) {
    what.inline_value = from.inline_value;
    if (what.size_bytes > sizeof what.inline_value) {
      return refused("an inline value has at most 8 bytes, not " + std::to_string(what.size_bytes));
    }
  } else {
    what.source_offset = from.source_offset;
    what.source_handle = from.source_handle;
  }
  if (!has(what.op, gin_op::kVaSignal)) {
    what.destination_offset = from.destination_offset;
    what.destination_handle = from.destination_handle;
  }
  if (has(what.op, gin_op::kCounter)) what.counter = from.counter;
  if (signals(what.op)) {
    if (!has(what.op, gin_op::kVaSignal)) what.signal = from.signal;
    what.signal_value = from.signal_value;
    what.strong = from.strong != 0;
  }
  return what;
}

std::vector<GinDescriptor> split_gin(const GinDescriptor& what) {
  if (!has(what.op, gin_op::kPut) || what.size_bytes <= kGinPutMost) return {what};
  std::vector<GinDescriptor> pieces;
  for (std::uint64_t at = 0; at < what.size_bytes; at += kGinPutMost) {
    GinDescriptor piece = what;
    piece.size_bytes = std::min(kGinPutMost, what.size_bytes - at);
    piece.source_offset += at;
    piece.destination_offset += at;
    if (at + piece.size_bytes < what.size_bytes) {
      piece.op = gin_op::kPut;
      piece.counter = piece.signal = 0;
      piece.signal_value = 0;
      piece.strong = false;
    }
    pieces.push_back(piece);
  }
  return pieces;
}

std::uint32_t gin_queue_depth(std::optional<std::int64_t> setting, std::uint32_t receives_most, bool strict) {
  const std::uint32_t most = 32 * receives_most;
  if (setting && *setting >= 1 && *setting <= std::int64_t{most} &&
      std::has_single_bit(static_cast<std::uint64_t>(*setting))) {
    return static_cast<std::uint32_t>(*setting);
  }
  return strict ? most : std::bit_floor(most);
}

}  // namespace meshbed::ring
