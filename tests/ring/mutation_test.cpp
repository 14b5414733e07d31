// Mutated and truncated rings, and recordings of them: refused with a reason, or decoded, and no crash. Run under ASan
// and UBSan too; tests/fuzz/ring_fuzz.cpp goes on from here.
#include <doctest/doctest.h>

#include "plugin/base/prng.h"
#include "tests/ring/decoders.h"
#include "tests/ring/rings.h"

namespace mutation_test {

using namespace meshbed;
using namespace meshbed::test;

TEST_CASE("a hundred thousand mutated rings and recordings: refused with a reason, or decoded") {
  constexpr int kMutations = 100'000;
  Buffer plain = control_of(3);
  const Buffer slots = ring_of({1, 2, 3, 5});
  plain.insert(plain.end(), slots.begin(), slots.end());
  const ring::RecordingShape shape{.slots = 4, .control_words = 160};
  Buffer recording = *ring::begin_recording(shape);
  for (std::uint64_t time = 0; time < 2; ++time) {
    REQUIRE(ring::add_snapshot(recording, shape, time, control_of(1), slots));
  }
  Prng prng(23);
  int accepted = 0, refused = 0, silent = 0;
  for (int round = 0; round < kMutations; ++round) {
    Buffer bytes = round % 2 == 0 ? plain : recording;
    for (std::uint64_t change = 0, changes = 1 + prng.below(6); change < changes; ++change) {
      bytes[prng.below(bytes.size())] ^= static_cast<std::uint8_t>(1U << prng.below(8));
    }
    if (prng.below(4) == 0) bytes.resize(prng.below(bytes.size() + 1));
    const Decoded decoded = decode_everything(bytes);
    accepted += decoded.accepted;
    refused += decoded.refused;
    silent += decoded.silent;
  }
  CHECK(accepted > kMutations);
  CHECK(refused > kMutations);
  CHECK(silent == 0);
}

}  // namespace mutation_test
