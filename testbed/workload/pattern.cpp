#include "testbed/workload/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/half.h"

namespace meshbed::testbed {
namespace {

using coll::DataType;
using coll::ReduceOp;

// A constant trip count lets gcc -O2 vectorise the inner loops without a remainder loop of its own.
constexpr std::size_t kBlock = 256;
constexpr int kRotationMax = 64;  // h + 63 is exact in every type

/// Folds all 32 bits to 5, so that a shift by any power of two changes it.
inline std::uint32_t fold(std::uint32_t x) {
  return (x ^ (x >> 5U) ^ (x >> 10U) ^ (x >> 15U) ^ (x >> 20U) ^ (x >> 25U) ^ (x >> 30U)) & 31U;
}

inline std::int32_t folded(std::uint32_t x) { return static_cast<std::int32_t>(fold(x)); }

template <typename T>
inline T element_of(std::int32_t number) {
  if constexpr (std::is_same_v<T, coll::Float16>) return coll::to_float16(static_cast<float>(number));
  if constexpr (std::is_same_v<T, coll::Bfloat16>) return coll::to_bfloat16(static_cast<float>(number));
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(number);
}

template <typename T>
T quotient(std::int32_t number, std::int32_t divisor) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(static_cast<T>(number)) / static_cast<Wide>(divisor));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number) / static_cast<T>(divisor);
  } else {
    const float value = static_cast<float>(number) / static_cast<float>(divisor);
    if constexpr (std::is_same_v<T, coll::Float16>) return coll::to_float16(value);
    if constexpr (std::is_same_v<T, coll::Bfloat16>) return coll::to_bfloat16(value);
  }
}

template <typename T>
T power_of_two(std::int32_t exponent) {
  if constexpr (std::is_integral_v<T>) {
    return exponent < 64 ? static_cast<T>(std::uint64_t{1} << static_cast<unsigned>(exponent)) : T{0};
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::ldexp(T{1}, exponent);
  } else {
    const float value = std::ldexp(1.0F, exponent);
    if constexpr (std::is_same_v<T, coll::Float16>) return coll::to_float16(value);
    if constexpr (std::is_same_v<T, coll::Bfloat16>) return coll::to_bfloat16(value);
  }
}

/// Of the `count` numbers from `first` on.
inline std::int32_t multiples_of_4(std::int32_t first, std::int32_t count) {
  return (first + count + 3) / 4 - (first + 3) / 4;
}

template <PatternKind kind, typename T>
inline T element(const Pattern& pattern, std::uint32_t index) {
  const std::uint32_t at = index + pattern.first + pattern.salt;
  if constexpr (kind == PatternKind::kPower) {
    return power_of_two<T>(multiples_of_4(folded(at) + pattern.offset, pattern.scale));
  } else if constexpr (kind == PatternKind::kRotated) {
    const auto turn = (at + static_cast<std::uint32_t>(pattern.offset)) % static_cast<std::uint32_t>(pattern.scale);
    return element_of<T>(folded(at) + static_cast<std::int32_t>(turn));
  } else {
    return element_of<T>(pattern.scale * folded(at) + pattern.offset);
  }
}

// By bits: the pattern has no NaN and no zero of two signs.
template <typename T>
inline bool differ(T one, T other) {
  if constexpr (std::is_arithmetic_v<T>) return one != other;
  if constexpr (!std::is_arithmetic_v<T>) return one.bits != other.bits;
}

template <typename T, typename Element>
void fill_blocks(T* values, std::size_t count, Element element_at) {
  std::size_t start = 0;
  for (; start + kBlock <= count; start += kBlock) {
    T* block = values + start;
    const auto base = static_cast<std::uint32_t>(start);
    for (std::uint32_t i = 0; i < kBlock; ++i) block[i] = element_at(base + i);
  }
  for (; start < count; ++start) values[start] = element_at(static_cast<std::uint32_t>(start));
}

template <typename T, typename Element>
std::uint64_t count_blocks(const T* values, std::size_t count, Element element_at) {
  std::uint64_t wrong = 0;
  std::size_t start = 0;
  for (; start + kBlock <= count; start += kBlock) {
    const T* block = values + start;
    const auto base = static_cast<std::uint32_t>(start);
    std::int32_t wrong_here = 0;
    for (std::uint32_t i = 0; i < kBlock; ++i) wrong_here += differ(block[i], element_at(base + i)) ? 1 : 0;
    wrong += static_cast<std::uint64_t>(wrong_here);
  }
  for (; start < count; ++start) {
    wrong += differ(values[start], element_at(static_cast<std::uint32_t>(start))) ? 1U : 0U;
  }
  return wrong;
}

/// Calls `body` with a zero of the type's.
template <typename Body>
auto with_type(DataType type, Body body) {
  switch (type) {
    case DataType::kInt8:
      return body(std::int8_t{});
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      break;
    case DataType::kInt32:
      return body(std::int32_t{});
    case DataType::kUint32:
      return body(std::uint32_t{});
    case DataType::kInt64:
      return body(std::int64_t{});
    case DataType::kUint64:
      return body(std::uint64_t{});
    case DataType::kFloat16:
      return body(coll::Float16{});
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat64:
      return body(double{});
    case DataType::kBfloat16:
      return body(coll::Bfloat16{});
  }
  return body(std::uint8_t{});
}

/// Calls `body` with what computes the pattern's elements; the pattern is a copy, so that the compiler need not fear
/// that the values are the pattern.
template <typename T, typename Body>
auto with_elements(const Pattern& given, Body body) {
  const Pattern pattern = given;
  if (pattern.kind == PatternKind::kPower) {
    return body([pattern](std::uint32_t index) { return element<PatternKind::kPower, T>(pattern, index); });
  }
  if (pattern.kind == PatternKind::kRotated) {
    return body([pattern](std::uint32_t index) { return element<PatternKind::kRotated, T>(pattern, index); });
  }
  if (pattern.divisor != 1) {
    return body([pattern](std::uint32_t index) {
      const std::uint32_t at = index + pattern.first + pattern.salt;
      return quotient<T>(pattern.scale * folded(at) + pattern.offset, pattern.divisor);
    });
  }
  return body([pattern](std::uint32_t index) { return element<PatternKind::kLinear, T>(pattern, index); });
}

template <typename T>
std::string text_of(T value) {
  if constexpr (std::is_arithmetic_v<T>) return fmt::format("{}", value);
  if constexpr (!std::is_arithmetic_v<T>) return fmt::format("{}", coll::widen(value));
}

}  // namespace

Pattern rank_pattern(int rank, std::uint32_t first, std::uint32_t salt, ReduceOp op, int ranks) {
  Pattern pattern{.first = first, .salt = salt, .offset = rank};
  if (op == ReduceOp::kProduct) pattern.kind = PatternKind::kPower;
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
    pattern.kind = PatternKind::kRotated;
    pattern.scale = std::min(ranks, kRotationMax);
  }
  return pattern;
}

Pattern reduced_pattern(int ranks, std::uint32_t first, std::uint32_t salt, ReduceOp op) {
  Pattern pattern{.first = first, .salt = salt};
  switch (op) {
    case ReduceOp::kAverage:
      pattern.divisor = ranks;
      [[fallthrough]];
    case ReduceOp::kSum:
      pattern.scale = ranks;
      pattern.offset = ranks * (ranks - 1) / 2;
      break;
    case ReduceOp::kProduct:
      pattern.kind = PatternKind::kPower;
      pattern.scale = ranks;
      break;
    case ReduceOp::kMax:
      pattern.offset = std::min(ranks, kRotationMax) - 1;
      break;
    case ReduceOp::kMin:
      break;
  }
  return pattern;
}

void fill(const Pattern& pattern, DataType type, void* values, std::size_t count) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    with_elements<T>(pattern, [&](auto element_at) { fill_blocks(static_cast<T*>(values), count, element_at); });
  });
}

void fill_rough(int rank, std::uint32_t salt, DataType type, void* values, std::size_t count) {
  const std::uint64_t stream = mix64((std::uint64_t{salt} << 32U) | static_cast<std::uint32_t>(rank));
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    auto* const elements = static_cast<T*>(values);
    for (std::size_t index = 0; index < count; ++index) {
      const std::uint64_t bits = mix64(stream + index);
      const double real = static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-62;
      if constexpr (std::is_integral_v<T>) elements[index] = static_cast<T>(bits);
      if constexpr (std::is_floating_point_v<T>) elements[index] = static_cast<T>(real);
      if constexpr (std::is_same_v<T, coll::Float16>) elements[index] = coll::to_float16(static_cast<float>(real));
      if constexpr (std::is_same_v<T, coll::Bfloat16>) elements[index] = coll::to_bfloat16(static_cast<float>(real));
    }
  });
}

std::uint64_t count_wrong(const Pattern& pattern, DataType type, const void* values, std::size_t count) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return with_elements<T>(
        pattern, [&](auto element_at) { return count_blocks(static_cast<const T*>(values), count, element_at); });
  });
}

std::size_t first_wrong(const Pattern& pattern, DataType type, const void* values, std::size_t count) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return with_elements<T>(pattern, [&](auto element_at) {
      std::size_t index = 0;
      const T* elements = static_cast<const T*>(values);
      while (index < count && !differ(elements[index], element_at(static_cast<std::uint32_t>(index)))) ++index;
      return index;
    });
  });
}

std::string say_wrong(const Pattern& pattern, DataType type, const void* values, std::size_t index) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return with_elements<T>(pattern, [&](auto element_at) {
      return text_of(static_cast<const T*>(values)[index]) + " instead of " +
             text_of(element_at(static_cast<std::uint32_t>(index)));
    });
  });
}

}  // namespace meshbed::testbed
