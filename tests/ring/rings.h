#pragma once
// Rings and control buffers for the tests, from a few words.

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "plugin/ring/telemetry/telemetry.h"

namespace meshbed::test {

using Buffer = std::vector<std::uint8_t>;

/// `result` is an error whose text has these words in it.
inline void refuses(const auto& result, const std::string& words) {
  REQUIRE_FALSE(result);
  CHECK_MESSAGE(result.error().text.find(words) != std::string::npos, result.error().text);
}

inline void set_word(Buffer& buffer, std::uint64_t index, ring::Word word) {
  ring::store_word(buffer.data(), index, word);
}

/// A ring of slots with these statuses, and NOP of tenant 0.
inline Buffer ring_of(std::initializer_list<ring::Word> statuses) {
  Buffer ring(statuses.size() * ring::kSlotBytes);
  std::uint64_t slot = 0;
  for (const ring::Word status : statuses) set_word(ring, slot++ * ring::kSlotWords, status);
  return ring;
}

/// A control buffer of the newer layout: one tenant, and so many done.
inline Buffer control_of(ring::Word done_count = 0) {
  Buffer control = *ring::encode_control(ring::kLayout2026_05, ring::Mode::kSafe, {.tenants = 1});
  set_word(control, ring::control_word::kDoneCount, done_count);
  return control;
}

inline ring::RingTelemetry telemetry_of(const Buffer& control, const Buffer& ring,
                                        ring::Mode mode = ring::Mode::kStrict) {
  return *ring::decode_telemetry(control, ring, ring::kLayout2026_05, mode);
}

/// The words of a slot.
inline std::vector<ring::Word> words_at(const Buffer& ring, std::uint64_t slot = 0) {
  std::vector<ring::Word> words;
  for (ring::Word word = 0; word < ring::kSlotWords; ++word) {
    words.push_back(ring::load_word(ring.data(), slot * ring::kSlotWords + word));
  }
  return words;
}

}  // namespace meshbed::test
