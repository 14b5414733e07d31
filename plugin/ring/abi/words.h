#pragma once
// Words in a buffer of bytes: u32, little-endian, at any alignment; and the one way in which this room refuses.

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "plugin/base/result.h"
#include "plugin/ring/abi/abi.h"

namespace meshbed::ring {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

static_assert(std::endian::native == std::endian::little, "buffers are read as this processor's own words");

/// `index` counts words.
inline Word load_word(const std::uint8_t* bytes, std::uint64_t index) {
  Word word = 0;
  std::memcpy(&word, bytes + index * kWordBytes, kWordBytes);
  return word;
}

inline void store_word(std::uint8_t* bytes, std::uint64_t index, Word word) {
  std::memcpy(bytes + index * kWordBytes, &word, kWordBytes);
}

/// The whole, in basis points.
inline constexpr std::uint64_t kBps = 10'000;

inline Error refused(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = std::move(text)};
}

}  // namespace meshbed::ring
