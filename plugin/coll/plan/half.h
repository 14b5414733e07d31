#pragma once
// The 16-bit floating point types, as bits, and their conversions: without branches, so that loops over them become
// vectors on every processor. Narrowing rounds to nearest, ties to even, once; it keeps infinities, subnormal
// numbers and signs of zero, and a NaN stays one (quiet). (IEEE 754-2019 binary16; bfloat16 is binary32's upper half.)
// Always inline: they are compiled for several processors (reduce_kernels.h), and a linker keeps one copy of each.

#include <bit>
#include <cstdint>

namespace meshbed::coll {

struct Float16 {
  std::uint16_t bits;
};

struct Bfloat16 {
  std::uint16_t bits;
};

[[gnu::always_inline]] constexpr float widen(Bfloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16U);
}

[[gnu::always_inline]] constexpr Bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffU + (bits >> 16U & 1U);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>((is_nan ? bits | 0x00400000U : rounded) >> 16U)};
}

[[gnu::always_inline]] constexpr float widen(Float16 value) {
  // Exponent and mantissa in binary32's place, where the exponent lacks 112. Subnormal numbers get an exponent of their
  // own, whose leading one is taken away again; no subnormal binary32 is met on the way, which some programs switch
  // off.
  const std::uint32_t magnitude = (value.bits & 0x7fffU) << 13U;
  const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + 0x38800000U) - 0x1p-14F);
  const std::uint32_t finite = magnitude < 0x00800000U ? subnormal : magnitude + 0x38000000U;
  const std::uint32_t bits = magnitude >= 0x0f800000U ? magnitude | 0x7f800000U : finite;
  return std::bit_cast<float>(bits | (value.bits & 0x8000U) << 16U);
}

[[gnu::always_inline]] constexpr Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  // Normal: the exponent's bias goes, and half of the last place is added. What becomes 2^16 or more is infinite.
  const std::uint32_t normal = (magnitude - 0x38000000U + 0x0fffU + (magnitude >> 13U & 1U)) >> 13U;
  // Subnormal: the adder rounds, beside a number whose last place is binary16's smallest, 2^-24.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const std::uint32_t large = magnitude > 0x7f800000U ? 0x7e00U | (magnitude >> 13U & 0x3ffU) : 0x7c00U;
  return {static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000U ? large : finite))};
}

}  // namespace meshbed::coll
