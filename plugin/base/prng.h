#pragma once
// The one door to randomness. Every random number descends from a seed that the run prints first.
// xoshiro256** seeded through splitmix64 (Blackman and Vigna, https://prng.di.unimi.it, public domain algorithms).

#include <array>
#include <cstdint>

namespace meshbed {

/// One splitmix64 step; also a good 64-bit mixer for derived seeds: mix64(seed ^ rank).
constexpr std::uint64_t mix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

class Prng {
 public:
  explicit constexpr Prng(std::uint64_t seed) {
    for (auto& word : state_) word = seed = mix64(seed);
  }

  constexpr std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5U, 7U) * 9U;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45U);
    return result;
  }

  /// Uniform in [0, bound) up to a bias below 2^-32 for bounds that fit 32 bits; bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<__uint128_t>(next()) * bound) >> 64U);
  }

  /// True with this probability, in steps of 2^-53.
  constexpr bool chance(double probability) {
    return static_cast<double>(next() >> 11U) < probability * static_cast<double>(std::uint64_t{1} << 53U);
  }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t value, unsigned bits) {
    return (value << bits) | (value >> (64U - bits));
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace meshbed
