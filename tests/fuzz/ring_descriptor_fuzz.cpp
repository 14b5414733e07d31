// Arbitrary descriptors from a GPU to the host's proxy: GIN descriptors of 128 bytes and FIFO triggers of 16. A decoded
// descriptor is encoded to the same bits, except those that its operation does not use.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "plugin/ring/queue/fifo_trigger.h"
#include "plugin/ring/queue/gin_descriptor.h"

using namespace meshbed::ring;

namespace {

void try_descriptor(const GinWords& words) {
  const auto what = decode_gin(words);
  if (!what) {
    if (what.error().text.empty()) std::abort();
    return;
  }
  const auto again = encode_gin(*what);
  if (!again) std::abort();
  const GinWords mask = gin_mask(what->op);
  for (std::size_t word = 0; word < kGinWords; ++word) {
    if ((words[word] & mask[word]) != ((*again)[word] & mask[word])) std::abort();
    if (((*again)[word] & ~mask[word]) != 0) std::abort();
  }
  if (*decode_gin(*again) != *what) std::abort();
  constexpr std::uint64_t kPiecesMost = 64;  // each takes memory: a longer put would only slow the search down
  if (what->size_bytes > kPiecesMost * kGinPutMost) return;
  std::uint64_t bytes = 0;
  for (const GinDescriptor& piece : split_gin(*what)) bytes += piece.size_bytes;
  if (bytes != what->size_bytes) std::abort();
}

void try_trigger(const FifoWords& words) {
  const FifoTrigger trigger = decode_trigger(words);
  const auto again = encode_trigger(trigger);
  if (!again) std::abort();
  constexpr std::uint64_t kCommit = std::uint64_t{1} << 63U;
  if ((*again)[0] != words[0] || (*again)[1] != (words[1] & ~kCommit) || decode_trigger(*again) != trigger)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  GinWords words{};
  std::memcpy(words.data(), data, std::min(size, sizeof words));
  try_trigger({words[0], words[1]});
  try_descriptor(words);
  // Once more as if all had been written, so that the search gets behind the valid bits.
  for (std::uint64_t& word : words) word |= 1U;
  try_descriptor(words);
  return 0;
}
