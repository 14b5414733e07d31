#include "plugin/ring/queue/ibgda_wqe.h"

#include <endian.h>

#include <cstring>
#include <string>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {
namespace {

constexpr std::size_t kSegmentBytes = 16, kWqeBytes = kWqeWords * sizeof(std::uint64_t);
constexpr std::uint32_t kOpcodeMask = 0xff, kSegmentsMask = 0x3f;
constexpr unsigned kIndexAt = 8, kQueuePairAt = 8;
constexpr std::uint32_t kCompletionFlag = 0x08;  // MLX5_WQE_CTRL_CQ_UPDATE

using WqeBytes = std::array<std::byte, kWqeBytes>;

void put_be32(WqeBytes& bytes, std::size_t at, std::uint32_t value) {
  value = htobe32(value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}
void put_be64(WqeBytes& bytes, std::size_t at, std::uint64_t value) {
  value = htobe64(value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}
std::uint32_t get_be32(const WqeBytes& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return be32toh(value);
}
std::uint64_t get_be64(const WqeBytes& bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return be64toh(value);
}

/// Of an operation: control, remote address, data, and of an atomic its operands.
std::uint32_t segments_of(WqeOpcode opcode) { return opcode == WqeOpcode::kFetchAdd ? 4 : 3; }

bool is_opcode(std::uint32_t value) {
  for (const WqeOpcode one : {WqeOpcode::kWrite, WqeOpcode::kWriteImmediate, WqeOpcode::kRead, WqeOpcode::kFetchAdd}) {
    if (value == static_cast<std::uint32_t>(one)) return true;
  }
  return false;
}

}  // namespace

Result<WqeWords> encode_wqe(const IbgdaWqe& what) {
  if (what.queue_pair > kWqeNumberMost) {
    return refused("a WQE's queue pair has 24 bits, and " + std::to_string(what.queue_pair) + " has more");
  }
  if (what.immediate != 0 && what.opcode != WqeOpcode::kWriteImmediate) {
    return refused("a WQE has immediate data, and its opcode does not carry any");
  }
  if (what.add != 0 && what.opcode != WqeOpcode::kFetchAdd) {
    return refused("a WQE adds, and its opcode is not a fetch-and-add");
  }
  WqeBytes bytes{};
  put_be32(bytes, 0, std::uint32_t{what.index} << kIndexAt | static_cast<std::uint32_t>(what.opcode));
  put_be32(bytes, 4, what.queue_pair << kQueuePairAt | segments_of(what.opcode));
  put_be32(bytes, 8, what.completion ? kCompletionFlag : 0);
  put_be32(bytes, 12, what.immediate);
  put_be64(bytes, kSegmentBytes, what.remote_address);
  put_be32(bytes, kSegmentBytes + 8, what.remote_key);
  const bool adds = what.opcode == WqeOpcode::kFetchAdd;
  if (adds) put_be64(bytes, 2 * kSegmentBytes, what.add);
  const std::size_t data = (adds ? 3 : 2) * kSegmentBytes;
  put_be32(bytes, data, what.size_bytes);
  put_be32(bytes, data + 4, what.local_key);
  put_be64(bytes, data + 8, what.local_address);
  WqeWords words{};
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

Result<IbgdaWqe> decode_wqe(const WqeWords& words) {
  WqeBytes bytes{};
  std::memcpy(bytes.data(), words.data(), bytes.size());
  const std::uint32_t first = get_be32(bytes, 0), second = get_be32(bytes, 4);
  if (!is_opcode(first & kOpcodeMask)) {
    return refused("a WQE with opcode " + std::to_string(first & kOpcodeMask) +
                   "; known are WRITE, WRITE with immediate, READ and FETCH_ADD");
  }
  IbgdaWqe what{.opcode = static_cast<WqeOpcode>(first & kOpcodeMask),
                .index = static_cast<std::uint16_t>(first >> kIndexAt),
                .queue_pair = second >> kQueuePairAt,
                .completion = (get_be32(bytes, 8) & kCompletionFlag) != 0};
  if ((second & kSegmentsMask) != segments_of(what.opcode)) {
    return refused("a WQE of " + std::to_string(second & kSegmentsMask) + " segments; its opcode has " +
                   std::to_string(segments_of(what.opcode)));
  }
  if (what.opcode == WqeOpcode::kWriteImmediate) what.immediate = get_be32(bytes, 12);
  what.remote_address = get_be64(bytes, kSegmentBytes);
  what.remote_key = get_be32(bytes, kSegmentBytes + 8);
  const bool adds = what.opcode == WqeOpcode::kFetchAdd;
  if (adds) what.add = get_be64(bytes, 2 * kSegmentBytes);
  const std::size_t data = (adds ? 3 : 2) * kSegmentBytes;
  what.size_bytes = get_be32(bytes, data);
  what.local_key = get_be32(bytes, data + 4);
  what.local_address = get_be64(bytes, data + 8);
  return what;
}

WqeWords with_index(WqeWords words, std::uint16_t index) {
  WqeBytes bytes{};
  std::memcpy(bytes.data(), words.data(), bytes.size());
  put_be32(bytes, 0, std::uint32_t{index} << kIndexAt | (get_be32(bytes, 0) & kOpcodeMask));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

bool is_wqe_at(std::uint64_t first_word, std::uint16_t index) {
  std::uint32_t control = 0;
  std::memcpy(&control, &first_word, sizeof control);
  control = be32toh(control);
  return (control & kOpcodeMask) != 0 && static_cast<std::uint16_t>(control >> kIndexAt) == index;
}

std::uint32_t doorbell_record(std::uint64_t producer) {
  constexpr std::uint64_t kMask = 0xffff;
  return htobe32(static_cast<std::uint32_t>(producer & kMask));
}

std::uint16_t producer_of(std::uint32_t record) { return static_cast<std::uint16_t>(be32toh(record)); }

}  // namespace meshbed::ring
