#pragma once
// The 128 bytes by which a GPU passes one operation to the host's proxy: NCCL's GIN descriptor ("GFD"), version 2.
// Source: NCCL 2.30.7, src/include/nccl_device/gin/proxy/gin_proxy_device_host_common.h.
//
// Sixteen little-endian words of 64 bits. Bit 0 of each is set when the word has been written, so that a reader needs
// no fence between them. Bits that an operation does not use are undefined: gin_mask() returns the defined ones.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/ring/include/meshbed/ring.h"

namespace meshbed::ring {

inline constexpr std::size_t kGinWords = MESHBED_GIN_WORDS;
using GinWords = std::array<std::uint64_t, kGinWords>;

namespace gin_op {
inline constexpr std::uint16_t kPut = MESHBED_GIN_PUT, kInline = MESHBED_GIN_INLINE, kCounter = MESHBED_GIN_COUNTER,
                               kSignalInc = MESHBED_GIN_SIGNAL_INC, kSignalAdd = MESHBED_GIN_SIGNAL_ADD,
                               kVaSignal = MESHBED_GIN_VA_SIGNAL, kGet = MESHBED_GIN_GET, kFlush = MESHBED_GIN_FLUSH;
}  // namespace gin_op

/// A put moves at most so much; a longer one is cut into pieces, of which the last has signal and counter.
inline constexpr std::uint64_t kGinPutMost = std::uint64_t{1} << 30U;

struct GinDescriptor {
  std::uint16_t op = gin_op::kPut;  // gin_op, or-ed; a signal alone is a put of nothing
  std::uint64_t size_bytes = 0;
  std::uint64_t source_offset = 0, source_handle = 0;  // of a VA signal: the signal's
  std::uint64_t destination_offset = 0, destination_handle = 0;
  std::uint64_t inline_value = 0;  // kInline: in place of a source; at most 8 bytes
  std::uint32_t counter = 0;       // 23 bits
  std::uint32_t signal = 0;        // 24 bits
  std::uint64_t signal_value = 0;
  bool strong = false;

  bool operator==(const GinDescriptor&) const = default;
};

/// Errors (kInvalidArgument) name the field that does not fit, or the operations that cannot be combined.
Result<GinWords> encode_gin(const GinDescriptor& what);
/// Errors: words that are not written yet, another version, operations that do not go together.
Result<GinDescriptor> decode_gin(const GinWords& words);
/// The bits of each word that this operation defines, including bit 0.
GinWords gin_mask(std::uint16_t op);
/// The pieces that NCCL posts for a put of any size, in order.
std::vector<GinDescriptor> split_gin(const GinDescriptor& what);

/// NCCL_GIN_PROXY_QUEUE_SIZE: a power of two up to 32 * `receives_most`, which is also what it is where it is not set,
/// too small, too large or no power of two. `strict`: as NCCL 2.30.7, whose default need not be a power of two itself
/// (96 of 3 receives, with mask 95: slots are written twice); otherwise the next smaller power of two.
std::uint32_t gin_queue_depth(std::optional<std::int64_t> setting, std::uint32_t receives_most, bool strict);

/// Rolling comparison of counters of `bits` bits that wrap: a is not after b.
constexpr bool rolling_not_after(std::uint64_t a, std::uint64_t b, unsigned bits) {
  const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  return ((b - a) & mask) <= mask >> 1U;
}

}  // namespace meshbed::ring
