#include "testbed/verify/ptx/operands.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "plugin/base/prng.h"

namespace meshbed::testbed::ptx_twin {
namespace {

struct Layout {  // of a floating point number
  unsigned bits, fraction;
};

/// All that a number's format has at its ends, by `which`, and a sign.
std::uint64_t special_number(Layout format, Prng& prng) {
  const unsigned exponent = format.bits - 1 - format.fraction;
  const std::uint64_t hidden = std::uint64_t{1} << format.fraction;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent) - 1) << format.fraction;
  const std::uint64_t one = ((std::uint64_t{1} << (exponent - 1)) - 1) << format.fraction;
  const std::uint64_t all[] = {0,
                               1,           // the smallest
                               hidden - 1,  // the largest subnormal
                               hidden,      // the smallest normal
                               hidden + 1,
                               prng.next() & (hidden - 1),  // some subnormal
                               one,
                               one - 1,
                               one + 1,
                               one - hidden,  // a half
                               one + hidden,  // two
                               infinity - 1,  // the largest
                               infinity,
                               infinity | hidden >> 1U,      // quiet NaN
                               infinity | hidden >> 1U | 1,  // ... with a payload
                               infinity | 1,                 // signalling NaN
                               (std::uint64_t{1} << (format.bits - 1)) - 1,
                               infinity - hidden};
  const std::uint64_t sign = prng.next() >> 63U << (format.bits - 1);
  return all[prng.below(std::size(all))] | sign;
}

std::uint64_t special_integer(unsigned bits, Prng& prng) {
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  const std::uint64_t all[] = {0,           1,          2,          top,        top - 1, top + 1, 2 * top - 1,
                               2 * top - 2, 31,         32,         33,         63,      64,      127,
                               128,         255,        256,        0x7fff,     0x8000,  0xffff,  0x10000,
                               0x7fffffff,  0x80000000, 0xffffffff, 0x100000000};
  return all[prng.below(std::size(all))];
}

std::uint64_t integer(unsigned bits, Prng& prng) {
  switch (prng.below(8)) {
    case 0:
    case 1:
      return special_integer(bits, prng);
    case 2:  // small, of either sign
      return prng.below(64) - 32;
    case 3:  // any length
      return prng.next() >> prng.below(64);
    case 4:  // near a power of two, of either sign
      return ((std::uint64_t{1} << prng.below(bits)) + prng.below(5) - 2) * (prng.next() >> 63U != 0 ? ~0ULL : 1ULL);
    case 5: {  // ends in zeros: a tie, or one beside it, where an integer is rounded to a shorter number
      const std::uint64_t drop = 1 + prng.below(bits - 1);
      return ((prng.next() | 1U) << drop) + prng.below(3) - 1;
    }
    default:
      return prng.next();
  }
}

/// How many bits the next narrower formats have: where they turn, rounding to them is decided.
std::uint64_t near_a_tie(std::uint64_t value, unsigned dropped, Prng& prng) {
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  return (value & ~(2 * half - 1)) | (half + prng.below(3) - 1);
}

std::uint64_t float32(Prng& prng) {
  constexpr Layout kFormat{32, 23};
  std::uint64_t bits = prng.next() & 0xffffffffU;
  const auto with_exponent = [&](std::uint64_t exponent) { return (bits & 0x807fffffU) | exponent << 23U; };
  switch (prng.below(16)) {
    case 0:
    case 1:
    case 2:
      return special_number(kFormat, prng);
    case 3:
    case 4:
    case 5:  // near one
      return with_exponent(115 + prng.below(24));
    case 6:  // where float16 begins and ends
      return near_a_tie(with_exponent(100 + prng.below(45)), 13, prng);
    case 7:  // ... or bfloat16
      return near_a_tie(bits, 16, prng);
    case 8:  // near the smallest
      return with_exponent(prng.below(30));
    case 9: {  // a whole number, a half beside it, or one step from there
      const auto halves = static_cast<float>(static_cast<std::int64_t>(prng.next()) >> prng.below(64));
      return (std::bit_cast<std::uint32_t>(halves * 0.5F) + prng.below(3) - 1) & 0xffffffffU;
    }
    case 10:  // where integers of 8, 16, 32 and 64 bits end
      return (std::bit_cast<std::uint32_t>(
                  std::ldexp(prng.next() >> 63U != 0 ? 1.0F : -1.0F, static_cast<int>(7 + prng.below(58)))) +
              prng.below(5) - 2) &
             0xffffffffU;
    case 11:
      return near_a_tie(with_exponent(100 + prng.below(12)), 13 + static_cast<unsigned>(prng.below(9)), prng);
    case 12:  // ... or numbers of 8 bits
      return near_a_tie(with_exponent(109 + prng.below(36)), 19 + static_cast<unsigned>(prng.below(5)), prng);
    default:
      return bits;
  }
}

std::uint64_t float64(Prng& prng) {
  constexpr Layout kFormat{64, 52};
  const std::uint64_t bits = prng.next();
  const auto with_exponent = [&](std::uint64_t exponent) { return (bits & 0x800fffffffffffffU) | exponent << 52U; };
  switch (prng.below(16)) {
    case 0:
    case 1:
    case 2:
      return special_number(kFormat, prng);
    case 3:
    case 4:  // near one
      return with_exponent(1023 - 16 + prng.below(32));
    case 5:
    case 6:  // where float begins and ends, and its ties
      return near_a_tie(with_exponent(prng.below(2) == 0 ? 1023 - 150 + prng.below(300) : 1023 - 152 + prng.below(30)),
                        29 + static_cast<unsigned>(prng.below(2) * prng.below(23)), prng);
    case 7:  // float16's
      return near_a_tie(with_exponent(1023 - 26 + prng.below(44)), 42 + static_cast<unsigned>(prng.below(10)), prng);
    case 8:  // bfloat16's
      return near_a_tie(with_exponent(1023 - 134 + prng.below(262)), 45, prng);
    case 9: {
      const auto halves = static_cast<double>(static_cast<std::int64_t>(prng.next()) >> prng.below(64));
      return std::bit_cast<std::uint64_t>(halves * 0.5) + prng.below(3) - 1;
    }
    case 10:
      return std::bit_cast<std::uint64_t>(
                 std::ldexp(prng.next() >> 63U != 0 ? 1.0 : -1.0, static_cast<int>(7 + prng.below(58)))) +
             prng.below(5) - 2;
    case 11:  // near the smallest
      return with_exponent(prng.below(60));
    case 12: {  // what a float is, widened
      const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(float32(prng)));
      return std::bit_cast<std::uint64_t>(static_cast<double>(narrow));
    }
    default:
      return bits;
  }
}

std::uint64_t half(Layout format, Prng& prng) {
  const std::uint64_t bits = prng.next() & 0xffffU;
  switch (prng.below(8)) {
    case 0:
    case 1:
      return special_number(format, prng);
    case 2:
    case 3: {  // near one
      const std::uint64_t bias = (std::uint64_t{1} << (14 - format.fraction)) - 1;
      const std::uint64_t fields = (std::uint64_t{1} << format.fraction) - 1 + 0x8000U;
      return (bits & fields) | (bias - 4 + prng.below(8)) << format.fraction;
    }
    default:
      return bits;
  }
}

std::uint64_t drawn(Kind kind, std::size_t index, Prng& prng, Prng& of_warp, std::uint64_t& warp_draw) {
  constexpr Layout kHalf{16, 10}, kBrain{16, 7};
  if (index % 32 == 0) warp_draw = of_warp.next();
  switch (kind) {
    case Kind::kInteger16:
      return integer(16, prng);
    case Kind::kInteger32:
      return integer(32, prng);
    case Kind::kInteger64:
      return integer(64, prng);
    case Kind::kAmount:  // mostly within 64 bits; sometimes with more than its low byte
      return prng.below(8) == 0 ? integer(32, prng) : prng.below(8) == 0 ? prng.below(300) : prng.below(68);
    case Kind::kFew:
    case Kind::kFewWide: {
      const std::uint64_t which = warp_draw % 4 == 0 ? 0 : prng.below(1 + warp_draw % 4);
      // Wide ones that are alike in their lower half.
      return kind == Kind::kFew ? mix64(warp_draw + which) : (which << 32U) + (warp_draw & 0xffffffffU);
    }
    case Kind::kWarpTruth:
      switch (warp_draw % 4) {
        case 0:
          return 0;
        case 1:
          return 1;
        case 2:
          return prng.next() >> 63U;
        default:
          return prng.below(32) == 0 ? warp_draw >> 63U : 1 - (warp_draw >> 63U);
      }
    case Kind::kFloat16:
      return half(kHalf, prng);
    case Kind::kBrain16:
      return half(kBrain, prng);
    case Kind::kFloat16Pair: {
      const std::uint64_t upper = half(kHalf, prng) << 16U;
      return upper | half(kHalf, prng);
    }
    case Kind::kBrain16Pair: {
      const std::uint64_t upper = half(kBrain, prng) << 16U;
      return upper | half(kBrain, prng);
    }
    case Kind::kFloat32:
      return float32(prng);
    case Kind::kFloat64:
      return float64(prng);
    case Kind::kEightBitPair:
      return prng.next();
  }
  return 0;
}

/// Near the value of the first place.
std::uint64_t beside(Kind kind, std::uint64_t first, Prng& prng) {
  std::uint64_t value = first + (prng.below(2) == 0 ? 0 : prng.below(5) - 2);
  if (!is_number(kind)) return prng.below(4) == 0 ? 0 - value : value;
  const bool pair = kind == Kind::kFloat16Pair || kind == Kind::kBrain16Pair;
  const std::size_t bits = bytes_of(kind) * 8;
  if (prng.below(2) == 0) value ^= pair ? 0x80008000U : std::uint64_t{1} << (bits - 1);
  return value;
}

/// The third of a fused multiply-add, where nearly all of the sum cancels.
std::uint64_t cancelling(Kind kind, std::uint64_t a, std::uint64_t b, Prng& prng) {
  if (kind == Kind::kFloat32) {
    const float product =
        -(std::bit_cast<float>(static_cast<std::uint32_t>(a)) * std::bit_cast<float>(static_cast<std::uint32_t>(b)));
    return std::bit_cast<std::uint32_t>(product) + prng.below(3) - 1;
  }
  const double product = -(std::bit_cast<double>(a) * std::bit_cast<double>(b));
  return std::bit_cast<std::uint64_t>(product) + prng.below(3) - 1;
}

}  // namespace

std::uint64_t element(const std::vector<std::byte>& bytes, std::size_t size, std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + size * index, size);
  return value;
}

const std::vector<std::byte>& Operands::of(Kind kind, std::size_t place) {
  const auto [found, fresh] = all_.try_emplace({kind, place});
  if (!fresh) return found->second;
  const std::size_t size = bytes_of(kind);
  std::vector<std::byte> made(size * count_);
  const std::vector<std::byte>* first = place == 0 ? nullptr : &of(kind, 0);
  const bool fuses = place == 2 && (kind == Kind::kFloat32 || kind == Kind::kFloat64);
  const std::vector<std::byte>* second = fuses ? &of(kind, 1) : nullptr;
  const std::uint64_t own_seed = mix64(seed_ ^ (static_cast<std::uint64_t>(kind) * 8 + place));
  Prng prng(own_seed), of_warp(own_seed + 1);
  std::uint64_t warp_draw = 0;
  const bool relates = place > 0 && kind != Kind::kAmount && kind != Kind::kWarpTruth;
  for (std::size_t index = 0; index < count_; ++index) {
    std::uint64_t value = drawn(kind, index, prng, of_warp, warp_draw);
    const std::uint64_t relation = relates ? prng.below(8) : 8;
    if (relation == 0) value = beside(kind, element(*first, size, index), prng);
    if (relation == 1 && fuses) {
      value = cancelling(kind, element(*first, size, index), element(*second, size, index), prng);
    }
    std::memcpy(made.data() + size * index, &value, size);
  }
  // try_emplace's place may have moved no element: a map's stay where they are.
  return found->second = std::move(made);
}

std::uint64_t Operands::value(Kind kind, std::size_t place, std::size_t index) {
  return element(of(kind, place), bytes_of(kind), index);
}

}  // namespace meshbed::testbed::ptx_twin
