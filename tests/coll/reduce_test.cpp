// Reduction kernels against references that were written for themselves: each element alone, in the widest arithmetic.
#include "plugin/coll/reduce/reduce.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/half.h"

namespace reduce_test {

using namespace meshbed::coll;

namespace {

constexpr std::uint32_t kRanks = 3;

// --- 16-bit floats, by the definition of their bits ---

double value_of(std::uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/// All numbers of the type widen exactly; and a float between two neighbours goes to the nearer one, or to the even
/// one.
template <typename Half, typename Narrow>
void check_conversions(int mantissa_bits, Narrow narrow) {
  const auto infinity = static_cast<std::uint16_t>(0x7fff >> mantissa_bits << mantissa_bits);
  int wrong = 0;
  for (std::uint32_t each = 0; each <= 0xffff; ++each) {
    const auto bits = static_cast<std::uint16_t>(each);
    const float wide = widen(Half{bits});
    const double expected = value_of(bits, mantissa_bits);
    if (std::isnan(expected)) {
      wrong += !std::isnan(wide) || !std::isnan(widen(narrow(wide))) ? 1 : 0;
      continue;
    }
    wrong += static_cast<double>(wide) != expected || std::signbit(wide) != std::signbit(expected) ? 1 : 0;
    wrong += narrow(wide).bits != bits ? 1 : 0;
    if ((bits & 0x7fff) == infinity) continue;
    // The next one away from zero; beyond the largest one, where it would be if there were more exponents.
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const double last = value_of(static_cast<std::uint16_t>(bits - 1), mantissa_bits);
    const double beyond = (next & 0x7fff) == infinity ? expected + (expected - last) : value_of(next, mantissa_bits);
    const auto middle = static_cast<float>((expected + beyond) / 2);
    if (static_cast<double>(middle) != (expected + beyond) / 2) continue;  // only where float32 itself is at its end
    wrong += narrow(middle).bits != ((bits & 1) == 0 ? bits : next) ? 1 : 0;
    wrong += narrow(std::nextafter(middle, 0.0F)).bits != bits ? 1 : 0;
    wrong += narrow(std::nextafter(middle, std::copysign(HUGE_VALF, middle))).bits != next ? 1 : 0;
  }
  CHECK(wrong == 0);
}

// --- kernels ---

template <typename T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<Float16> {
  using Type = float;
};
template <>
struct Wide<Bfloat16> {
  using Type = float;
};

template <typename T>
typename Wide<T>::Type widened(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return widen(value);
  } else {
    return value;
  }
}

template <typename T>
T narrowed(typename Wide<T>::Type value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

template <typename A>
A expected_of(ReduceOp op, A arrived, A own) {
  if constexpr (std::is_integral_v<A>) {
    // As many bits as are never left, and then cut.
    const __int128 left = arrived, right = own;
    if (op == ReduceOp::kProduct) {
      return static_cast<A>(static_cast<unsigned __int128>(left) * static_cast<unsigned __int128>(right));
    }
    if (op == ReduceOp::kMax) return std::max(arrived, own);
    if (op == ReduceOp::kMin) return std::min(arrived, own);
    return static_cast<A>(left + right);
  } else {
    if (op == ReduceOp::kProduct) return arrived * own;
    if (op == ReduceOp::kMax) return std::isnan(own) || arrived > own ? arrived : own;
    if (op == ReduceOp::kMin) return std::isnan(own) || arrived < own ? arrived : own;
    return arrived + own;
  }
}

template <typename T>
T random_element(meshbed::Prng& prng) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(prng.next());
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return T{static_cast<std::uint16_t>(prng.next())};
  } else {
    // Any bits: infinities, NaNs and subnormal numbers among them.
    if constexpr (sizeof(T) == 4) return std::bit_cast<float>(static_cast<std::uint32_t>(prng.next()));
    if constexpr (sizeof(T) == 8) return std::bit_cast<double>(prng.next());
  }
}

/// NaNs carry what the processor likes; all others are the same bits.
template <typename T>
bool same(T one, T other) {
  if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(widened(one)) && std::isnan(widened(other))) return true;
  }
  return std::memcmp(&one, &other, sizeof one) == 0;
}

template <typename Result, typename Arrived, typename Own>
int wrong_elements(ReduceFunction kernel, ReduceOp op, bool divides, std::size_t count, meshbed::Prng& prng) {
  using A = typename Wide<Own>::Type;
  constexpr std::size_t kGuard = 3;
  std::vector<Arrived> arrived;
  std::vector<Own> own;
  for (std::size_t at = 0; at < count; ++at) {
    arrived.push_back(random_element<Arrived>(prng));
    own.push_back(random_element<Own>(prng));
  }
  std::vector<Result> result(count + kGuard, Result{}), before = result;
  kernel(result.data(), arrived.data(), own.data(), count, kRanks);
  int wrong = 0;
  std::vector<Result> expected;
  for (std::size_t at = 0; at < count; ++at) {
    A value = expected_of<A>(op, static_cast<A>(widened(arrived[at])), widened(own[at]));
    if (divides) value = static_cast<A>(value / static_cast<A>(kRanks));
    if constexpr (std::is_same_v<Result, A>) {
      expected.push_back(value);
    } else {
      expected.push_back(narrowed<Result>(value));
    }
    wrong += same(result[at], expected[at]) ? 0 : 1;
  }
  for (std::size_t at = count; at < count + kGuard; ++at) wrong += same(result[at], before[at]) ? 0 : 1;
  // In place of either operand.
  if constexpr (std::is_same_v<Result, Arrived>) {
    std::vector<Arrived> in_place = arrived;
    kernel(in_place.data(), in_place.data(), own.data(), count, kRanks);
    for (std::size_t at = 0; at < count; ++at) wrong += same(in_place[at], expected[at]) ? 0 : 1;
  }
  if constexpr (std::is_same_v<Result, Own>) {
    std::vector<Own> in_place = own;
    kernel(in_place.data(), arrived.data(), in_place.data(), count, kRanks);
    for (std::size_t at = 0; at < count; ++at) wrong += same(in_place[at], expected[at]) ? 0 : 1;
  }
  return wrong;
}

template <typename T, typename A>
int wrong_narrow(ReduceFunction kernel, bool divides, std::size_t count, meshbed::Prng& prng) {
  int wrong = 0;
  std::vector<A> arrived(count);
  std::generate(arrived.begin(), arrived.end(), [&] { return random_element<A>(prng); });
  std::vector<T> result(count);
  kernel(result.data(), arrived.data(), nullptr, count, kRanks);
  for (std::size_t at = 0; at < count; ++at) {
    wrong += same(result[at], narrowed<T>(divides ? static_cast<A>(arrived[at] / static_cast<A>(kRanks)) : arrived[at]))
                 ? 0
                 : 1;
  }
  return wrong;
}

template <typename T>
void check_type(DataType type) {
  using A = typename Wide<T>::Type;
  REQUIRE(size_of(type) == sizeof(T));
  REQUIRE(size_of(accumulator_of(type)) == sizeof(A));
  for (int level = 0; level < kVectorLevels; ++level) {
    if (!has(static_cast<VectorLevel>(level))) continue;
    for (int number = 0; number < kReduceOps; ++number) {
      const auto op = static_cast<ReduceOp>(number);
      const bool divides = op == ReduceOp::kAverage;
      CAPTURE(name_of(type));
      CAPTURE(name_of(op));
      CAPTURE(name_of(static_cast<VectorLevel>(level)));
      const ReduceKernels kernels = reduce_kernels(type, op, static_cast<VectorLevel>(level));
      const PartialKernels partial = partial_kernels(type, op, static_cast<VectorLevel>(level));
      meshbed::Prng prng(11);
      int wrong = 0;
      CHECK((partial.narrow != nullptr) == !std::is_same_v<A, T>);
      for (const std::size_t count : {0, 1, 2, 7, 8, 9, 31, 33, 64, 67, 1000}) {
        wrong += wrong_elements<A, T, T>(kernels.first, op, false, count, prng);
        wrong += wrong_elements<A, A, T>(kernels.between, op, false, count, prng);
        wrong += wrong_elements<T, A, T>(kernels.last, op, divides, count, prng);
        wrong += wrong_elements<T, T, T>(kernels.only, op, divides, count, prng);
        wrong += wrong_elements<A, A, A>(partial.join, op, false, count, prng);
        if (partial.narrow != nullptr) wrong += wrong_narrow<T, A>(partial.narrow, divides, count, prng);
      }
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("float16 and bfloat16: every number widens exactly, every middle between two rounds to the even one") {
  // Callables rather than addresses: a function that is always inlined cannot be called through its address.
  check_conversions<Float16>(10, [](float value) { return to_float16(value); });
  check_conversions<Bfloat16>(7, [](float value) { return to_bfloat16(value); });
  CHECK(to_float16(1e9F).bits == 0x7c00);
  CHECK(to_float16(-1e-9F).bits == 0x8000);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
}

TEST_CASE("every type, reduction and form, on every kind of vectors, in place and not: as element by element") {
  check_type<std::int8_t>(DataType::kInt8);
  check_type<std::uint8_t>(DataType::kUint8);
  check_type<std::int32_t>(DataType::kInt32);
  check_type<std::uint32_t>(DataType::kUint32);
  check_type<std::int64_t>(DataType::kInt64);
  check_type<std::uint64_t>(DataType::kUint64);
  check_type<Float16>(DataType::kFloat16);
  check_type<float>(DataType::kFloat32);
  check_type<double>(DataType::kFloat64);
  check_type<Bfloat16>(DataType::kBfloat16);
}

TEST_CASE("more ranks than an 8-bit number counts to may be averaged") {
  const auto average = [](auto arrived, auto own, DataType type, std::uint32_t ranks) {
    reduce_kernels(type, ReduceOp::kAverage).only(&arrived, &arrived, &own, 1, ranks);
    return static_cast<int>(arrived);
  };
  CHECK(average(std::int8_t{-100}, std::int8_t{-28}, DataType::kInt8, 128) == -1);
  CHECK(average(std::int8_t{100}, std::int8_t{27}, DataType::kInt8, 256) == 0);
  CHECK(average(std::uint8_t{200}, std::uint8_t{50}, DataType::kUint8, 256) == 0);
  CHECK(average(std::uint8_t{200}, std::uint8_t{55}, DataType::kUint8, 255) == 1);
}

TEST_CASE("eight-bit floats are moved, never reduced") {
  for (const DataType type : {DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    CHECK_FALSE(is_reducible(type));
    CHECK_FALSE(static_cast<bool>(reduce_kernels(type, ReduceOp::kSum).only));
  }
}

}  // namespace reduce_test
