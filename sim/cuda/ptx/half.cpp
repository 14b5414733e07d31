// Arithmetic of float16 and bfloat16, single and in pairs. PTX ISA 9.7.4.
//
// Each operation is done in double and rounded once: sums and products of two such numbers are exact there, and where a
// sum is not, its last bit is made odd, so that the rounding to the narrow format sees that something was cut.
#include "sim/cuda/ptx/half.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Half : std::uint8_t { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kEx2, kTanh };
constexpr std::uint8_t kHalfBrain = 0x10, kHalfNan = 0x20, kHalfRelu = 0x40, kHalfFlush = 0x80;
constexpr std::uint16_t kCanonicalHalf = 0x7fff;
constexpr std::uint8_t kKindMagnitudes = 1;  // .xorsign.abs: Instruction::kind

double widened(std::uint16_t bits, bool brain) { return brain ? float_of_brain(bits) : float_of_half(bits); }

/// The sum with a last bit that shows whether anything was lost. Knuth's two-sum.
double odd_sum(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a;
  const double lost = (a - (sum - part)) + (b - part);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (lost == 0.0 || (bits & 1U) != 0) return sum;
  // Toward the lost part: away from zero where the signs agree.
  bits += std::signbit(lost) == std::signbit(sum) ? 1 : ~std::uint64_t{0};
  return std::bit_cast<double>(bits);
}

bool is_nan(std::uint16_t bits, bool brain) { return (bits & 0x7fffU) > (brain ? 0x7f80U : 0x7c00U); }

std::uint16_t flushed_half(std::uint16_t bits, bool brain) {
  return (bits & (brain ? 0x7f80U : 0x7c00U)) == 0 ? static_cast<std::uint16_t>(bits & 0x8000U) : bits;
}

/// Whether it is below the smallest normal number once it is rounded to as many bits, where exponents have no end: that
/// is what .ftz flushes (measured on an H200: tests/cuda/ptx/h200.txt). Asked of the same bits 2^16 times as large.
bool is_below_least_half(double value) {
  constexpr std::uint16_t kLeastLarger = 0x4400;
  return std::fabs(value) < 0x1p-14 && half_of(std::fabs(value) * 0x1p16) < kLeastLarger;
}

std::uint16_t picked(std::uint16_t a, std::uint16_t b, bool brain, bool least, bool nan) {
  const bool left = is_nan(a, brain);
  const bool right = is_nan(b, brain);
  if ((nan && (left || right)) || (left && right)) return kCanonicalHalf;
  if (left || right) return left ? b : a;
  const double x = widened(a, brain);
  const double y = widened(b, brain);
  const bool first = x == y ? ((a & 0x8000U) != 0) == least : (x < y) == least;
  return first ? a : b;
}

std::uint16_t extreme(const Instruction& in, std::uint16_t a, std::uint16_t b, bool brain, bool least) {
  const bool nan = (in.flags & kHalfNan) != 0;
  if (in.kind != kKindMagnitudes) return picked(a, b, brain, least, nan);
  const std::uint16_t value = picked(a & 0x7fffU, b & 0x7fffU, brain, least, nan);
  return is_nan(value, brain) ? value : static_cast<std::uint16_t>(value | ((a ^ b) & 0x8000U));
}

std::uint16_t half_result(const Instruction& in, std::uint16_t a, std::uint16_t b, std::uint16_t c) {
  const bool brain = (in.flags & kHalfBrain) != 0;
  const bool flush = (in.flags & kHalfFlush) != 0;
  if (flush) {
    a = flushed_half(a, brain);
    b = flushed_half(b, brain);
    c = flushed_half(c, brain);
  }
  const double x = widened(a, brain);
  const double y = widened(b, brain);
  double value = 0;
  switch (static_cast<Half>(in.extra)) {
    case Half::kNeg:
      return is_nan(a, brain) ? kCanonicalHalf : static_cast<std::uint16_t>(a ^ 0x8000U);
    case Half::kAbs:
      return is_nan(a, brain) ? kCanonicalHalf : static_cast<std::uint16_t>(a & 0x7fffU);
    case Half::kMin:
      return extreme(in, a, b, brain, true);
    case Half::kMax:
      return extreme(in, a, b, brain, false);
    case Half::kAdd:
      value = odd_sum(x, y);
      break;
    case Half::kSub:
      value = odd_sum(x, -y);
      break;
    case Half::kMul:
      value = x * y;
      break;
    case Half::kFma:
      value = odd_sum(x * y, widened(c, brain));
      break;
    case Half::kEx2:
      value = std::exp2(x);
      break;
    case Half::kTanh:
      value = std::tanh(x);
      break;
  }
  if ((in.modes & kModeSaturate) != 0) value = value > 0.0 ? std::min(value, 1.0) : 0.0;
  if ((in.flags & kHalfRelu) != 0 && !(value > 0.0) && value == value) value = 0.0;
  if (flush && !brain && is_below_least_half(value)) return std::signbit(value) ? 0x8000U : 0;
  const std::uint16_t made = brain ? brain_of(value) : half_of(value);
  return flush ? flushed_half(made, brain) : made;
}

/// count: 1 or 2 halves a register.
template <typename T>
void half_arithmetic(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = in.b == kNowhere ? a : lanes_at<T>(warp, in.b);
  const auto* c = in.c == kNowhere ? a : lanes_at<T>(warp, in.c);
  each_active(lanes, [&](std::uint32_t lane) {
    std::uint32_t made = 0;
    for (std::uint32_t shift = 0; shift < sizeof(T) * 8; shift += 16) {
      made |= std::uint32_t{half_result(in, static_cast<std::uint16_t>(a[lane] >> shift),
                                        static_cast<std::uint16_t>(b[lane] >> shift),
                                        static_cast<std::uint16_t>(c[lane] >> shift))}
              << shift;
    }
    d[lane] = static_cast<T>(made);
  });
}

}  // namespace

bool decode_half(Decoder& decoder) {
  static constexpr std::tuple<std::string_view, Half, std::uint8_t> kAll[] = {
      {"add", Half::kAdd, 2}, {"sub", Half::kSub, 2},  {"mul", Half::kMul, 2}, {"fma", Half::kFma, 3},
      {"min", Half::kMin, 2}, {"max", Half::kMax, 2},  {"neg", Half::kNeg, 1}, {"abs", Half::kAbs, 1},
      {"ex2", Half::kEx2, 1}, {"tanh", Half::kTanh, 1}};
  for (const auto& [name, operation, sources] : kAll) {
    if (decoder.statement->opcode != name) continue;
    Instruction& in = decoder.in;
    const Type type = decoder.type();
    const bool brain = type == Type::kBf16 || type == Type::kBf16x2;
    if (!brain && type != Type::kF16 && type != Type::kF16x2) decoder.unsupported("this type");
    if (decoder.type_or_none() != Type::kNone) decoder.unsupported("a mix of types");
    decoder.take("approx");
    decoder.take("rn");
    in.flags = brain ? kHalfBrain : 0;
    if (decoder.take("ftz")) in.flags |= kHalfFlush;
    if (decoder.take("NaN")) in.flags |= kHalfNan;
    if (decoder.take("relu")) in.flags |= kHalfRelu;
    if (decoder.take("sat")) in.modes = kModeSaturate;
    if ((operation == Half::kMin || operation == Half::kMax) && decoder.take("xorsign")) {
      if (!decoder.take("abs")) decoder.refuse("takes .xorsign.abs");
      in.kind = kKindMagnitudes;
    }
    in.extra = static_cast<std::uint32_t>(operation);
    const std::size_t pair = bytes_of(type) == 4 ? 2 : 1;
    in.flops = static_cast<std::uint8_t>(pair * (operation == Half::kFma ? 2 : 1));
    decoder.operands(type, std::size_t{sources});
    in.run = pair == 2 ? half_arithmetic<std::uint32_t> : half_arithmetic<std::uint16_t>;
    return true;
  }
  return false;
}

}  // namespace meshbed::sim::ptx
