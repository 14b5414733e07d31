#pragma once
// float16 and bfloat16 as bits, to and from float and double, with every rounding; and what all floats share:
// flushing and NaNs. Source: IEEE 754-2019; PTX ISA 5.2.3.

#include <bit>
#include <cmath>
#include <cstdint>

namespace meshbed::sim::ptx {

/// Under .ftz a subnormal float is a zero; doubles are what they are.
inline float flushed(float value) { return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value; }
inline double flushed(double value) { return value; }

/// A NaN that an instruction makes: of float always the same bits; of double what the host makes.
inline float made_canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7fffffffU); }
inline double made_canonical(double value) { return value; }

enum class Rounding : std::uint8_t { kNearest, kDown, kUp, kZero };  // as Decoder::rounding numbers them

inline float float_of_brain(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

inline float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits >> 10U & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
  const float value = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

/// A double to a format of `kFraction` stored bits and exponents down to 2^kLeast; beyond 2^(kMost + 1): infinity or,
/// depending on the rounding, the largest number. Exact: the double's own bits are cut.
template <int kFraction, int kLeast, int kMost, typename Bits>
Bits narrowed(double value, Rounding rounding) {
  constexpr std::uint64_t kFractionMask = (std::uint64_t{1} << 52U) - 1;
  const auto raw = std::bit_cast<std::uint64_t>(value);
  const bool negative = raw >> 63U != 0;
  const Bits sign = static_cast<Bits>(negative ? Bits{1} << (sizeof(Bits) * 8 - 1) : 0);
  constexpr Bits kInfinity = static_cast<Bits>(static_cast<Bits>(kMost + 1 - kLeast + 1) << kFraction);
  const auto field = static_cast<int>(raw >> 52U & 0x7ffU);
  if (field == 0x7ff) {
    if ((raw & kFractionMask) != 0) return static_cast<Bits>((Bits{1} << (sizeof(Bits) * 8 - 1)) - 1);  // canonical NaN
    return static_cast<Bits>(sign | kInfinity);
  }
  if (field == 0 && (raw & kFractionMask) == 0) return sign;
  const int exponent = field == 0 ? -1022 : field - 1023;
  std::uint64_t significand = (raw & kFractionMask) | (field == 0 ? 0 : std::uint64_t{1} << 52U);
  int drop = 52 - kFraction;
  if (exponent < kLeast) drop += kLeast - exponent;
  std::uint64_t kept = drop > 63 ? 0 : significand >> drop;
  const std::uint64_t rest = drop > 63 ? significand : significand & ((std::uint64_t{1} << drop) - 1);
  const bool beyond_half = drop <= 63 && rest > std::uint64_t{1} << (drop - 1);
  const bool half = drop <= 63 && rest == std::uint64_t{1} << (drop - 1);
  bool up = false;
  switch (rounding) {
    case Rounding::kNearest:
      up = beyond_half || (half && (kept & 1U) != 0);
      break;
    case Rounding::kDown:
      up = negative && rest != 0;
      break;
    case Rounding::kUp:
      up = !negative && rest != 0;
      break;
    case Rounding::kZero:
      break;
  }
  if (up) ++kept;
  // A carry runs into the exponent by itself: subnormal to normal, and one exponent to the next.
  const std::uint64_t base = exponent < kLeast ? 0 : static_cast<std::uint64_t>(exponent - kLeast);
  const std::uint64_t made = (base << kFraction) + kept;
  if (made >= kInfinity) {
    const bool to_largest = rounding == Rounding::kZero || (rounding == Rounding::kDown && !negative) ||
                            (rounding == Rounding::kUp && negative);
    return static_cast<Bits>(sign | (to_largest ? kInfinity - 1 : kInfinity));
  }
  return static_cast<Bits>(sign | made);
}

inline std::uint16_t half_of(double value, Rounding rounding = Rounding::kNearest) {
  return narrowed<10, -14, 15, std::uint16_t>(value, rounding);
}
inline std::uint16_t brain_of(double value, Rounding rounding = Rounding::kNearest) {
  return narrowed<7, -126, 127, std::uint16_t>(value, rounding);
}
inline float float_of(double value, Rounding rounding) {
  return std::bit_cast<float>(narrowed<23, -126, 127, std::uint32_t>(value, rounding));
}

}  // namespace meshbed::sim::ptx
