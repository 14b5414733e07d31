// Conversions: cvt between integers, floats and halves, with every rounding, saturation and flush. PTX ISA 9.7.9.21.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/half.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

// What the source is and what the result is: Instruction::b and ::c.
Type source_type(const Instruction& in) { return static_cast<Type>(in.b); }
Type result_type(const Instruction& in) { return static_cast<Type>(in.c); }
constexpr std::uint32_t kCanonicalFloat = 0x7fffffffU;
constexpr std::uint8_t kFlagFlush = 0x10, kFlagRounds = 0x20, kFlagRelu = 0x40, kFlagTiesAway = 0x80;

std::int64_t extended(std::uint64_t raw, Type type) {
  switch (type) {
    case Type::kS8:
      return static_cast<std::int8_t>(raw);
    case Type::kS16:
      return static_cast<std::int16_t>(raw);
    case Type::kS32:
      return static_cast<std::int32_t>(raw);
    case Type::kU8:
    case Type::kB8:
      return static_cast<std::uint8_t>(raw);
    case Type::kU16:
    case Type::kB16:
      return static_cast<std::uint16_t>(raw);
    case Type::kU32:
    case Type::kB32:
      return static_cast<std::uint32_t>(raw);
    default:
      return static_cast<std::int64_t>(raw);
  }
}

double least_of(Type type) {
  return is_signed(type) ? -std::ldexp(1.0, static_cast<int>(bytes_of(type)) * 8 - 1) : 0.0;
}
double beyond_of(Type type) {
  return std::ldexp(1.0, static_cast<int>(bytes_of(type)) * 8 - (is_signed(type) ? 1 : 0));
}

/// Integers narrow by cutting, or by .sat to the nearest value there is.
std::uint64_t integer_of_integer(std::int64_t value, Type from, Type to, bool saturates) {
  if (!saturates) return static_cast<std::uint64_t>(value);
  const auto wide = from == Type::kU64 || from == Type::kB64 ? static_cast<__int128>(static_cast<std::uint64_t>(value))
                                                             : static_cast<__int128>(value);
  const int bits = static_cast<int>(bytes_of(to)) * 8;
  const __int128 least = is_signed(to) ? -(static_cast<__int128>(1) << (bits - 1)) : 0;
  const __int128 most = (static_cast<__int128>(1) << (is_signed(to) ? bits - 1 : bits)) - 1;
  return static_cast<std::uint64_t>(std::clamp(wide, least, most));
}

double rounded_to_integer(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    case Rounding::kZero:
      return std::trunc(value);
    default:
      return std::nearbyint(value);
  }
}

/// To the nearest integer that the type has.
std::uint64_t integer_of_float(double value, Type from, Type to, Rounding rounding) {
  if (value != value) {
    // A NaN: the top bit alone in 64 bits, and of a double always; of others 0 in fewer bits. The ISA leaves it open;
    // measured on an H200 (tests/cuda/ptx/h200.txt).
    return bytes_of(to) == 8 || from == Type::kF64 ? std::uint64_t{1} << (bytes_of(to) * 8 - 1) : 0;
  }
  const double whole = rounded_to_integer(value, rounding);
  if (whole < least_of(to)) return is_signed(to) ? std::uint64_t{1} << (bytes_of(to) * 8 - 1) : 0;
  if (whole >= beyond_of(to)) {
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bytes_of(to) * 8);
    return is_signed(to) ? ones >> 1U : ones;
  }
  return is_signed(to) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(whole))
                       : static_cast<std::uint64_t>(whole);
}

/// 64-bit integers do not fit a double: rounded here explicitly to `bits` bits, by the mode.
double double_of_integer(std::int64_t value, Type from, Rounding rounding, int bits) {
  const bool unsigned_source = from == Type::kU64 || from == Type::kB64;
  const bool negative = !unsigned_source && value < 0;
  std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const int length = 64 - std::countl_zero(magnitude);
  if (length <= bits) {
    const double whole = static_cast<double>(magnitude);
    return negative ? -whole : whole;
  }
  const int drop = length - bits;
  const std::uint64_t rest = magnitude & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  std::uint64_t kept = magnitude >> drop;
  bool up = false;
  if (rounding == Rounding::kNearest) up = rest > half || (rest == half && (kept & 1U) != 0);
  if (rounding == Rounding::kDown) up = negative && rest != 0;
  if (rounding == Rounding::kUp) up = !negative && rest != 0;
  if (up) ++kept;
  const double whole = std::ldexp(static_cast<double>(kept), drop);
  return negative ? -whole : whole;
}

double float_value(std::uint64_t raw, Type type) {
  switch (type) {
    case Type::kF16:
      return float_of_half(static_cast<std::uint16_t>(raw));
    case Type::kBf16:
      return float_of_brain(static_cast<std::uint16_t>(raw));
    case Type::kF64:
      return std::bit_cast<double>(raw);
    default:
      return std::bit_cast<float>(static_cast<std::uint32_t>(raw));
  }
}

std::uint64_t float_bits(double value, Type type, Rounding rounding) {
  switch (type) {
    case Type::kF16:
      return half_of(value, rounding);
    case Type::kBf16:
      return brain_of(value, rounding);
    case Type::kF64:
      return std::bit_cast<std::uint64_t>(value);
    case Type::kTf32: {
      // 10 bits of fraction in a float's place.
      const std::uint32_t bits = narrowed<10, -126, 127, std::uint32_t>(value, rounding);
      const std::uint32_t sign = bits & 0x80000000U;
      return sign | ((bits & 0x7fffffffU) << 13U);
    }
    default:
      return std::bit_cast<std::uint32_t>(float_of(value, rounding));
  }
}

int significand_bits(Type type) {
  switch (type) {
    case Type::kF16:
      return 11;
    case Type::kBf16:
      return 8;
    case Type::kF64:
      return 53;
    default:
      return 24;
  }
}

/// A NaN's bits in another format, as an H200 has them (tests/cuda/ptx/h200.txt): a double's keeps its sign and the
/// upper bits of its payload and becomes quiet, one of bfloat16 is widened as it is, and all else is the canonical one
/// or, to a double without .ftz, what the host makes.
std::uint64_t nan_bits(std::uint64_t raw, const Instruction& in) {
  const Type from = source_type(in);
  const Type to = result_type(in);
  constexpr std::uint32_t kTf32Mask = 0xffffe000U;
  if (to == Type::kTf32)
    return ((in.flags & kFlagTiesAway) != 0 ? static_cast<std::uint32_t>(raw) : kCanonicalFloat) & kTf32Mask;
  if (from == Type::kF64) {
    constexpr std::uint64_t kQuiet = 0x0008000000000000U;
    const int bits = static_cast<int>(bytes_of(to)) * 8;
    const int fraction = significand_bits(to) - 1;
    const std::uint64_t sign = raw >> 63U << (bits - 1);
    const std::uint64_t infinity = ((std::uint64_t{1} << (bits - 1 - fraction)) - 1) << fraction;
    return sign | infinity | ((raw | kQuiet) & (2 * kQuiet - 1)) >> (52 - fraction);
  }
  if (from == Type::kBf16 && to == Type::kF32) return raw << 16U & 0xffffffffU;
  const double value =
      (in.flags & kFlagFlush) != 0 ? double{std::bit_cast<float>(kCanonicalFloat)} : float_value(raw, from);
  return float_bits(value, to, Rounding::kNearest);
}

std::uint64_t float_of_float(double value, const Instruction& in, Rounding rounding) {
  const Type from = source_type(in);
  const Type to = result_type(in);
  const bool flush = (in.flags & kFlagFlush) != 0;
  // To float16 a subnormal float is what it is, .ftz or not (measured, likewise).
  if (flush && from == Type::kF32 && to != Type::kF16 && std::fabs(value) < 0x1p-126) value = std::copysign(0.0, value);
  if (from == to && (in.flags & kFlagRounds) != 0) {
    const double whole = rounded_to_integer(value, rounding);
    value = whole == 0 ? std::copysign(0.0, value) : whole;
  }
  if ((in.modes & kModeSaturate) != 0) value = value > 0.0 ? std::min(value, 1.0) : 0.0;
  if ((in.flags & kFlagRelu) != 0 && (value < 0.0 || value == 0.0)) value = 0.0;
  // .rna: ties go away from zero; of a float's bits that is the next step, which runs into the exponent by itself.
  if ((in.flags & kFlagTiesAway) != 0 && std::isfinite(value)) {
    return (std::bit_cast<std::uint32_t>(static_cast<float>(value)) + 0x1000U) & 0xffffe000U;
  }
  std::uint64_t made = float_bits(value, to, rounding);
  if (flush && to == Type::kF32 && (made & 0x7f800000U) == 0) made &= 0x80000000U;
  return made;
}

std::uint64_t converted(const Instruction& in, std::uint64_t raw) {
  const Type from = source_type(in);
  const Type to = result_type(in);
  const auto rounding = static_cast<Rounding>(in.modes & kModeRounding);
  if (is_integer(from) && is_integer(to))
    return integer_of_integer(extended(raw, from), from, to, (in.modes & kModeSaturate) != 0);
  if (is_integer(from)) {
    const double value = double_of_integer(extended(raw, from), from, rounding, significand_bits(to));
    return float_bits((in.modes & kModeSaturate) != 0 ? std::clamp(value, 0.0, 1.0) : value, to, rounding);
  }
  double value = float_value(raw, from);
  if (is_integer(to)) {
    if ((in.flags & kFlagFlush) != 0 && std::fabs(value) < 0x1p-126) value = 0.0;
    return integer_of_float(value, from, to, rounding);
  }
  if (value != value && (in.modes & kModeSaturate) == 0) return nan_bits(raw, in);
  return float_of_float(value, in, rounding);
}

void convert(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const std::byte* a = place_at(warp, in.a);
  std::byte* d = place_at(warp, in.d);
  const Type to = result_type(in);
  each_active(lanes, [&](std::uint32_t lane) {
    std::uint64_t made = converted(in, read_lane(a, in.a_bytes, lane));
    if (is_integer(to)) made = static_cast<std::uint64_t>(extended(made, to));  // fills a wider register
    write_lane(d, in.d_bytes, lane, made);
  });
}

/// The common ones as loops without questions.
template <typename From, typename To>
void convert_plain(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<To>(warp, in.d);
  const auto* a = lanes_at<From>(warp, in.a);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = static_cast<To>(a[lane]); });
}

Handler plain_handler(Type from, Type to) {
  const auto pair = [](Type left, Type right) { return static_cast<int>(left) * 64 + static_cast<int>(right); };
  const int wanted = pair(from, to);
  if (wanted == pair(Type::kS32, Type::kS64) || wanted == pair(Type::kS32, Type::kU64))
    return convert_plain<std::int32_t, std::int64_t>;
  if (wanted == pair(Type::kU32, Type::kU64) || wanted == pair(Type::kU32, Type::kS64))
    return convert_plain<std::uint32_t, std::uint64_t>;
  if ((from == Type::kU64 || from == Type::kS64) && (to == Type::kU32 || to == Type::kS32))
    return convert_plain<std::uint64_t, std::uint32_t>;
  if (wanted == pair(Type::kS32, Type::kF32)) return convert_plain<std::int32_t, float>;
  if (wanted == pair(Type::kU32, Type::kF32)) return convert_plain<std::uint32_t, float>;
  if (wanted == pair(Type::kF32, Type::kF64)) return convert_plain<float, double>;
  if (wanted == pair(Type::kS32, Type::kF64)) return convert_plain<std::int32_t, double>;
  if (wanted == pair(Type::kU32, Type::kF64)) return convert_plain<std::uint32_t, double>;
  return nullptr;
}

/// cvt.rn.f16x2.f32 d, a, b: a in the upper half.
void convert_pair(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* upper = lanes_at<float>(warp, in.a);
  const auto* lower = lanes_at<float>(warp, in.e);
  Instruction one = in;
  one.b = static_cast<std::uint32_t>(Type::kF32);
  one.c = static_cast<std::uint32_t>(result_type(in) == Type::kBf16x2 ? Type::kBf16 : Type::kF16);
  each_active(lanes, [&](std::uint32_t lane) {
    const auto high = static_cast<std::uint32_t>(converted(one, std::bit_cast<std::uint32_t>(float{upper[lane]})));
    const auto low = static_cast<std::uint32_t>(converted(one, std::bit_cast<std::uint32_t>(float{lower[lane]})));
    d[lane] = high << 16U | low;
  });
}

// Numbers of 8 bits, two in a register: e4m3 (4 bits of exponent; no infinity) and e5m2 (float16 cut short).
enum class Eight : std::uint8_t { kE4m3, kE5m2 };

/// .satfinite: what is too large becomes the largest number.
std::uint8_t eight_of(double value, Eight format, bool relu) {
  constexpr std::uint8_t kNan = 0x7f, kSign = 0x80;
  if (value != value) return kNan;
  if (relu && (std::signbit(value) || value == 0)) return 0;
  if (format == Eight::kE4m3) {
    constexpr double kMost = 448;
    return narrowed<3, -6, 8, std::uint8_t>(std::clamp(value, -kMost, kMost), Rounding::kNearest);
  }
  constexpr std::uint8_t kInfinity = 0x7c;
  const auto made = narrowed<2, -14, 15, std::uint8_t>(value, Rounding::kNearest);
  const auto magnitude = static_cast<std::uint8_t>(made & ~kSign);
  return magnitude >= kInfinity ? static_cast<std::uint8_t>((made & kSign) | (kInfinity - 1)) : made;
}

std::uint16_t half_of_eight(std::uint8_t bits, Eight format, bool relu) {
  constexpr std::uint16_t kNan = 0x7fff;
  const auto sign = static_cast<std::uint16_t>((bits & 0x80U) << 8U);
  const std::uint32_t magnitude = bits & 0x7fU;
  if (format == Eight::kE4m3 ? magnitude == 0x7f : magnitude > 0x7c) return kNan;
  if (relu && sign != 0) return 0;
  if (format == Eight::kE5m2) return static_cast<std::uint16_t>(bits << 8U);
  const std::uint32_t exponent = magnitude >> 3U;
  const double value =
      exponent == 0 ? std::ldexp(magnitude, -9) : std::ldexp(8 + (magnitude & 7U), static_cast<int>(exponent) - 10);
  return sign | half_of(value);
}

/// kind: Eight; extra: 0 from two floats (e: the lower one), 1 from a pair of float16, 2 to such a pair.
void convert_eights(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto format = static_cast<Eight>(in.kind);
  const bool relu = (in.flags & kFlagRelu) != 0;
  each_active(lanes, [&](std::uint32_t lane) {
    if (in.extra == 2) {
      const std::uint32_t pair = lanes_at<std::uint16_t>(warp, in.a)[lane];
      const std::uint32_t high = half_of_eight(static_cast<std::uint8_t>(pair >> 8U), format, relu);
      lanes_at<std::uint32_t>(warp, in.d)[lane] =
          high << 16U | half_of_eight(static_cast<std::uint8_t>(pair), format, relu);
      return;
    }
    double high = 0, low = 0;
    if (in.extra == 0) {
      high = lanes_at<float>(warp, in.a)[lane];
      low = lanes_at<float>(warp, in.e)[lane];
    } else {
      const std::uint32_t pair = lanes_at<std::uint32_t>(warp, in.a)[lane];
      high = float_of_half(static_cast<std::uint16_t>(pair >> 16U));
      low = float_of_half(static_cast<std::uint16_t>(pair));
    }
    lanes_at<std::uint16_t>(warp, in.d)[lane] =
        static_cast<std::uint16_t>(eight_of(high, format, relu) << 8U | eight_of(low, format, relu));
  });
}

bool decode_eights(Decoder& decoder) {
  Instruction& in = decoder.in;
  if (!decoder.take("rn")) decoder.refuse("takes .rn");
  const bool narrows = decoder.take("satfinite");
  if (decoder.take("relu")) in.flags |= kFlagRelu;
  in.kind = static_cast<std::uint8_t>(decoder.take("e4m3x2") ? Eight::kE4m3 : Eight::kE5m2);
  decoder.take("e5m2x2");
  const Type other = decoder.type();
  const bool pairs = other == Type::kF16x2;
  if (!pairs && (other != Type::kF32 || !narrows)) decoder.unsupported("this conversion");
  decoder.expect_operands(pairs ? 2 : 3, pairs ? 2 : 3);
  in.extra = !narrows ? 2 : pairs ? 1 : 0;
  in.a = decoder.source(decoder.operand(1), narrows ? other : Type::kB16);
  if (!pairs) in.e = decoder.source(decoder.operand(2), other);
  in.d = decoder.destination(decoder.operand(0), narrows ? Type::kB16 : other);
  in.run = convert_eights;
  return true;
}

}  // namespace

bool decode_convert(Decoder& decoder) {
  if (decoder.statement->opcode != "cvt") return false;
  if (decoder.has("e4m3x2") || decoder.has("e5m2x2")) return decode_eights(decoder);
  Instruction& in = decoder.in;
  const bool rounds = decoder.rounding(in.modes);
  const bool ties_away = decoder.take("rna");
  if (ties_away) in.flags |= kFlagTiesAway;
  if (rounds) in.flags |= kFlagRounds;
  if (decoder.take("ftz")) in.flags |= kFlagFlush;
  if (decoder.take("sat")) in.modes |= kModeSaturate;
  if (decoder.take("relu")) in.flags |= kFlagRelu;
  const Type to = decoder.type();
  const Type from = decoder.type();
  in.b = static_cast<std::uint32_t>(from);
  in.c = static_cast<std::uint32_t>(to);
  if (to == Type::kF16x2 || to == Type::kBf16x2) {
    decoder.expect_operands(3, 3);
    if (from != Type::kF32) decoder.unsupported("this source");
    in.a = decoder.source(decoder.operand(1), from);
    in.e = decoder.source(decoder.operand(2), from);
    in.d = decoder.destination(decoder.operand(0), to);
    in.run = convert_pair;
    return true;
  }
  if (ties_away && (to != Type::kTf32 || from != Type::kF32)) decoder.unsupported(".rna of this type");
  const auto known = [](Type type) {
    return is_integer(type) ? type != Type::kB128
                            : type != Type::kPred && type != Type::kF16x2 && type != Type::kBf16x2;
  };
  if (!known(to) || !known(from) || from == Type::kTf32) decoder.unsupported("this conversion");
  decoder.expect_operands(2, 2);
  const Operand& source = decoder.operand(1);
  if (!decoder.is_register(source) && bytes_of(from) == 1) {
    in.a = decoder.source(source, Type::kB16);
    in.a_bytes = 2;
  } else {
    in.a = decoder.source(source, from, &in.a_bytes);
  }
  in.d = decoder.destination(decoder.operand(0), to, &in.d_bytes);
  in.run = convert;
  const bool exact_width = in.a_bytes == bytes_of(from) && in.d_bytes == bytes_of(to);
  if (exact_width && in.modes == 0 && in.flags == (rounds ? kFlagRounds : 0)) {
    const Handler plain = plain_handler(from, to);
    if (plain != nullptr) in.run = plain;
  }
  return true;
}

}  // namespace meshbed::sim::ptx
