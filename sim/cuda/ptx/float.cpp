// Arithmetic of float and double: exact by IEEE 754 in every rounding, and the approximate functions by the host's
// libm, which is nearer than the ISA asks. PTX ISA 9.7.3.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/half.h"
#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/rounding.h"

namespace meshbed::sim::ptx {

namespace {

constexpr auto kFloatAdd = [](auto a, auto b) { return a + b; };
constexpr auto kFloatSub = [](auto a, auto b) { return a - b; };
constexpr auto kFloatMul = [](auto a, auto b) { return a * b; };
constexpr auto kFloatDiv = [](auto a, auto b) { return a / b; };

template <typename T>
inline T lesser(T a, T b) {  // -0 is less than +0
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename T>
inline T greater(T a, T b) {
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <typename T>
inline T quiet(T) {
  return std::numeric_limits<T>::quiet_NaN();
}
/// Without .NaN a number beats a NaN; with it a NaN wins.
constexpr auto kFloatMin = [](auto a, auto b) { return a != a ? b : b != b ? a : lesser(a, b); };
constexpr auto kFloatMax = [](auto a, auto b) { return a != a ? b : b != b ? a : greater(a, b); };
constexpr auto kFloatMinNan = [](auto a, auto b) { return a != a || b != b ? quiet(a) : lesser(a, b); };
constexpr auto kFloatMaxNan = [](auto a, auto b) { return a != a || b != b ? quiet(a) : greater(a, b); };

/// .xorsign.abs: of the magnitudes; the sign is the product's. A NaN stays as it is.
template <auto kOp>
constexpr auto kOfMagnitudes = [](auto a, auto b) {
  const auto value = kOp(std::fabs(a), std::fabs(b));
  if (value != value) return value;
  return std::copysign(value, static_cast<decltype(value)>(std::signbit(a) != std::signbit(b) ? -1 : 1));
};

/// div.approx: a * (1 / b), whose second factor is flushed where b is beyond 2^126. PTX ISA 9.7.3.8.
constexpr auto kFloatQuotient = [](auto a, auto b) {
  if (std::fabs(b) > 0x1p126F && !std::isinf(b)) return a * std::copysign(decltype(b){0}, b);
  return a / b;
};

/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the upper half of a double, and an upper half; subnormals are
/// zeros. What is a NaN by its lower half alone is an infinity there. PTX ISA 9.7.3.14 and 9.7.3.17.
inline double upper_half(double value) {
  const auto upper = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & 0xffffffff00000000U);
  if (upper != upper) return std::bit_cast<double>(0x7fffffff00000000U);
  return std::fabs(upper) < 0x1p-1022 ? std::copysign(0.0, upper) : upper;
}
constexpr auto kDoubleRcpCut = [](auto a) { return upper_half(1 / upper_half(a)); };
constexpr auto kDoubleRsqrtCut = [](auto a) { return upper_half(1 / std::sqrt(upper_half(a))); };

constexpr auto kFloatFma = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
constexpr auto kFloatSqrt = [](auto a) { return std::sqrt(a); };
constexpr auto kFloatRcp = [](auto a) { return decltype(a){1} / a; };
constexpr auto kFloatRsqrt = [](auto a) { return static_cast<decltype(a)>(1.0 / std::sqrt(static_cast<double>(a))); };
constexpr auto kFloatSin = [](auto a) { return std::sin(a); };
constexpr auto kFloatCos = [](auto a) { return std::cos(a); };
constexpr auto kFloatEx2 = [](auto a) { return std::exp2(a); };
constexpr auto kFloatLg2 = [](auto a) { return std::log2(a); };
constexpr auto kFloatTanh = [](auto a) { return std::tanh(a); };

// What a few results need beside the host's operation. Measured on an H200 (tests/cuda/ptx/h200.txt).

template <auto kOp, auto kOther>
constexpr bool kSame = std::is_same_v<std::remove_cv_t<decltype(kOp)>, std::remove_cv_t<decltype(kOther)>>;
/// Rounding may make the smallest normal number of a smaller one.
template <auto kOp>
constexpr bool kRoundsUpToLeast =
    kSame<kOp, kFloatMul> || kSame<kOp, kFloatDiv> || kSame<kOp, kFloatFma> || kSame<kOp, kFloatRcp>;

/// Under .ftz: whether a result that was rounded to the smallest normal number is below it with unbounded exponents,
/// and so is flushed. Computed again with operands 2^64 times as large, in the same rounding; exact results do not
/// change. rcp is computed as div, because its operand alone does not show it.
inline constexpr float kLarger = 0x1p64F, kLeastLarger = 0x1p-62F;
template <auto kOp>
bool is_below_least(float x) {
  static_assert(kSame<kOp, kFloatRcp>);
  return std::fabs(kLarger / x) < kLeastLarger;
}
template <auto kOp>
bool is_below_least(float x, float y) {
  if constexpr (kSame<kOp, kFloatDiv>) {
    return std::fabs(x * kLarger / y) < kLeastLarger;
  } else {
    const bool left = std::fabs(x) < std::fabs(y);
    return std::fabs((left ? x * kLarger : x) * (left ? y : y * kLarger)) < kLeastLarger;
  }
}
template <auto kOp>
bool is_below_least(float x, float y, float z) {
  const bool left = std::fabs(x) < std::fabs(y);
  return std::fabs(std::fma(left ? x * kLarger : x, left ? y : y * kLarger, z * kLarger)) < kLeastLarger;
}

/// Which of a double's NaNs wins: the second operand's before the first one's, div's the first; of a fused one the
/// second factor's, then the sum's. It is made quiet. Without any it is the one that the machine makes.
inline double quiet_nan_of(double first, double next) {
  const double nan = first != first ? first : next;
  constexpr std::uint64_t kQuiet = 0x0008000000000000U, kMade = 0xfff8000000000000U;
  return std::bit_cast<double>(nan != nan ? std::bit_cast<std::uint64_t>(nan) | kQuiet : kMade);
}
template <auto kOp>
double nan_of(double x, double y) {
  return kSame<kOp, kFloatDiv> ? quiet_nan_of(x, y) : quiet_nan_of(y, x);
}
template <auto kOp>
double nan_of(double x, double y, double z) {
  return quiet_nan_of(y, z != z ? z : x);
}

/// Whether a result is looked at again, and what it is then: a NaN of doubles, under .ftz the smallest normal number.
template <auto kOp, typename T, bool kFlush, std::size_t kSources>
constexpr bool kLooksAgain = sizeof(T) == 8 ? kSources > 1 : (kRoundsUpToLeast<kOp>&& kFlush);
inline bool is_odd(double value) { return value != value; }
inline bool is_odd(float value) { return std::fabs(value) == 0x1p-126F; }
/// The same as a word whose top bit counts, in sums of whole words, which every processor has for vectors.
inline std::uint64_t oddness(double value) {
  constexpr std::uint64_t kMagnitude = 0x7fffffffffffffffU, kFromAboveInfinityToTop = 0x000fffffffffffffU;
  return (std::bit_cast<std::uint64_t>(value) & kMagnitude) + kFromAboveInfinityToTop;
}
inline std::uint32_t oddness(float value) { return is_odd(value) ? 0x80000000U : 0; }
template <auto kOp, typename... Sources>
inline double seen_again(double, Sources... sources) {
  return nan_of<kOp>(sources...);
}
template <auto kOp, typename... Sources>
inline float seen_again(float value, Sources... sources) {
  return is_below_least<kOp>(sources...) ? std::copysign(0.0F, value) : value;
}

/// d = kOp(a ...) in each lane. Results that need a second check are rare: one test for all lanes finds whether any
/// does.
template <auto kOp, typename T, bool kFlush, typename... Places>
inline void number_lanes(Warp& warp, const Instruction& in, std::uint32_t lanes, Places... sources) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto given = [](T value) { return kFlush ? flushed(value) : value; };
  const auto made_of = [=](std::uint32_t lane) { return given(made_canonical(kOp(given(T{sources[lane]})...))); };
  if constexpr (!kLooksAgain<kOp, T, kFlush, sizeof...(Places)>) {
    each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = made_of(lane); });
  } else {
    const auto again = [=](T value, std::uint32_t lane) {
      return is_odd(value) ? seen_again<kOp>(value, given(T{sources[lane]})...) : value;
    };
    if ((lanes | warp.idle) != kAllLanes) {
      each_active(lanes, [=](std::uint32_t lane) { d[lane] = again(made_of(lane), lane); });
      return;
    }
    T made[kLanes];
    decltype(oddness(T{})) odd = 0;
    // Of floats in two loops: flushing and the test in one are no vectors.
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      made[lane] = made_of(lane);
      if constexpr (sizeof(T) == 8) odd |= oddness(made[lane]);
    }
    if constexpr (sizeof(T) == 4) {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) odd |= oddness(made[lane]);
    }
    if (odd >> (sizeof(T) * 8 - 1) != 0) [[unlikely]] {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) made[lane] = again(made[lane], lane);
    }
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) d[lane] = made[lane];
  }
}

template <auto kOp, typename T, bool kFlush>
void unary_float(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  number_lanes<kOp, T, kFlush>(warp, in, lanes, lanes_at<T>(warp, in.a));
}
template <auto kOp, typename T, bool kFlush>
void binary_float(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  number_lanes<kOp, T, kFlush>(warp, in, lanes, lanes_at<T>(warp, in.a), lanes_at<T>(warp, in.b));
}
template <auto kOp, typename T, bool kFlush>
void ternary_float(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  number_lanes<kOp, T, kFlush>(warp, in, lanes, lanes_at<T>(warp, in.a), lanes_at<T>(warp, in.b),
                               lanes_at<T>(warp, in.c));
}

#if defined(__x86_64__)
// The host's own fused multiply-add, 8 floats at a time, where it has one.
template <typename T>
__attribute__((target("avx2,fma"))) void fused_lanes(T* __restrict d, const T* a, const T* b, const T* c) {
  T made[kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    made[lane] = sizeof(T) == 4
                     ? static_cast<T>(__builtin_fmaf(static_cast<float>(a[lane]), static_cast<float>(b[lane]),
                                                     static_cast<float>(c[lane])))
                     : static_cast<T>(__builtin_fma(a[lane], b[lane], c[lane]));
  }
  if constexpr (sizeof(T) == 8) {
    std::uint64_t odd = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) odd |= oddness(made[lane]);
    if (odd >> 63U != 0) [[unlikely]] {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        if (made[lane] != made[lane]) made[lane] = nan_of<kFloatFma>(a[lane], b[lane], c[lane]);
      }
    }
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) d[lane] = made[lane];
  } else {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      d[lane] = made[lane] == made[lane] ? made[lane] : made_canonical(made[lane]);
  }
}

template <typename T>
void fused_float(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if ((lanes | warp.idle) != kAllLanes) return ternary_float<kFloatFma, T, false>(warp, in, lanes);
  fused_lanes<T>(reinterpret_cast<T*>(place_at(warp, in.d)), reinterpret_cast<const T*>(place_at(warp, in.a)),
                 reinterpret_cast<const T*>(place_at(warp, in.b)), reinterpret_cast<const T*>(place_at(warp, in.c)));
}
#endif

Handler fused_handler(Type type, bool flush) {
#if defined(__x86_64__)
  if (!flush && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    return type == Type::kF64 ? fused_float<double> : fused_float<float>;
  }
#endif
  if (type == Type::kF64) return ternary_float<kFloatFma, double, false>;
  return flush ? ternary_float<kFloatFma, float, true> : ternary_float<kFloatFma, float, false>;
}

/// neg, abs: of the sign bit alone; kind 1: .ftz. A float's NaN becomes the canonical one, a double's keeps its sign.
template <typename U, bool kAbs>
void change_sign(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<U>(warp, in.d);
  const auto* a = lanes_at<U>(warp, in.a);
  constexpr bool kWide = sizeof(U) == 8;
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  constexpr U kInfinity = static_cast<U>(kWide ? 0x7ff0000000000000U : 0x7f800000U);
  constexpr U kQuiet = static_cast<U>(kWide ? 0x0008000000000000U : 0U);
  const bool flush = in.kind != 0;
  each_lane(warp, lanes, [=](std::uint32_t lane) {
    U value = a[lane];
    if (flush && (value & 0x7f800000U) == 0) value &= kSign;
    const U nan = kWide ? value | kQuiet : static_cast<U>(0x7fffffffU);
    d[lane] = (value & ~kSign) > kInfinity ? nan : kAbs ? value & ~kSign : value ^ kSign;
  });
}

template <typename T>
void copy_sign(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = std::copysign(T{b[lane]}, T{a[lane]}); });
}

/// testp; kind: which. To the machine a zero is normal.
template <typename T>
void test_property(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto* a = lanes_at<T>(warp, in.a);
  std::uint32_t found = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    const int of = std::fpclassify(a[lane]);
    const bool yes = in.kind == 0   ? of != FP_NAN && of != FP_INFINITE
                     : in.kind == 1 ? of == FP_INFINITE
                     : in.kind == 2 ? of != FP_NAN
                     : in.kind == 3 ? of == FP_NAN
                     : in.kind == 4 ? of == FP_NORMAL || of == FP_ZERO
                                    : of == FP_SUBNORMAL;
    found |= yes ? 1U << lane : 0U;
  });
  set_mask(warp, in.d, lanes, found);
}

template <auto kOp>
Handler unary_of(Type type, bool flush) {
  if (type == Type::kF64) return unary_float<kOp, double, false>;
  return flush ? unary_float<kOp, float, true> : unary_float<kOp, float, false>;
}
template <auto kOp>
Handler binary_of(Type type, bool flush) {
  if (type == Type::kF64) return binary_float<kOp, double, false>;
  return flush ? binary_float<kOp, float, true> : binary_float<kOp, float, false>;
}

Handler extreme_handler(Decoder& decoder, Type type, bool flush, bool least) {
  const bool of_magnitudes = decoder.take("xorsign");
  if (of_magnitudes && (!decoder.take("abs") || type == Type::kF64)) decoder.refuse("takes .xorsign.abs of .f32");
  if (decoder.has("abs") && !of_magnitudes) decoder.unsupported(".abs");
  if (decoder.operand_count() == 4) decoder.unsupported("the form with three sources");
  if (decoder.take("NaN")) {
    if (of_magnitudes) {
      return least ? binary_of<kOfMagnitudes<kFloatMinNan>>(type, flush)
                   : binary_of<kOfMagnitudes<kFloatMaxNan>>(type, flush);
    }
    return least ? binary_of<kFloatMinNan>(type, flush) : binary_of<kFloatMaxNan>(type, flush);
  }
  if (of_magnitudes) {
    return least ? binary_of<kOfMagnitudes<kFloatMin>>(type, flush) : binary_of<kOfMagnitudes<kFloatMax>>(type, flush);
  }
  return least ? binary_of<kFloatMin>(type, flush) : binary_of<kFloatMax>(type, flush);
}

Type float_type_of(const Decoder& decoder) {
  for (const std::string_view modifier : decoder.statement->modifiers) {
    const Type type = type_named(modifier);
    if (type != Type::kNone) return type == Type::kF32 || type == Type::kF64 ? type : Type::kNone;
  }
  return Type::kNone;
}

/// Signs, and operations with a predicate as result: none of them rounds.
bool decode_sign(Decoder& decoder, std::string_view opcode, Type type, bool flush) {
  Instruction& in = decoder.in;
  const bool wide = type == Type::kF64;
  if (opcode == "neg" || opcode == "abs") {
    decoder.operands(type, {type});
    in.kind = flush ? 1 : 0;
    if (opcode == "neg")
      in.run = wide ? change_sign<std::uint64_t, false> : change_sign<std::uint32_t, false>;
    else
      in.run = wide ? change_sign<std::uint64_t, true> : change_sign<std::uint32_t, true>;
    return true;
  }
  if (opcode == "copysign") {
    decoder.operands(type, {type, type});
    in.run = wide ? copy_sign<double> : copy_sign<float>;
    return true;
  }
  if (opcode != "testp") return false;
  std::uint8_t kind = 0;
  for (const char* name : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    if (decoder.take(name)) in.kind = kind;
    ++kind;
  }
  decoder.expect_operands(2, 2);
  in.a = decoder.source(decoder.operand(1), type);
  in.d = decoder.predicate_destination(decoder.operand(0));
  in.run = wide ? test_property<double> : test_property<float>;
  return true;
}

}  // namespace

bool decode_float(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  const Type expected = float_type_of(decoder);
  static constexpr std::string_view kOpcodes[] = {"add", "sub", "mul", "fma",  "mad",      "div",   "min",
                                                  "max", "neg", "abs", "sqrt", "rcp",      "rsqrt", "sin",
                                                  "cos", "ex2", "lg2", "tanh", "copysign", "testp"};
  if (expected == Type::kNone || std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) == std::end(kOpcodes))
    return false;
  Instruction& in = decoder.in;
  const Type type = decoder.type();
  const bool flush = decoder.take("ftz");
  if (decode_sign(decoder, opcode, type, flush)) return true;
  const bool approximate = decoder.take("approx");
  const bool cut = approximate && flush && type == Type::kF64;
  decoder.take("full");
  std::uint8_t mode = 0;
  decoder.rounding(mode);
  in.modes = static_cast<std::uint8_t>(mode | (decoder.take("sat") ? kModeSaturate : 0));
  std::size_t sources = 2;
  in.flops = 1;
  if (opcode == "add") {
    in.run = binary_of<kFloatAdd>(type, flush);
  } else if (opcode == "sub") {
    in.run = binary_of<kFloatSub>(type, flush);
  } else if (opcode == "mul") {
    in.run = binary_of<kFloatMul>(type, flush);
  } else if (opcode == "div") {
    in.run = approximate ? binary_of<kFloatQuotient>(type, flush) : binary_of<kFloatDiv>(type, flush);
  } else if (opcode == "fma" || opcode == "mad") {
    in.run = fused_handler(type, flush);
    in.flops = 2;
    sources = 3;
  } else if (opcode == "min" || opcode == "max") {
    in.run = extreme_handler(decoder, type, flush, opcode == "min");
  } else {
    sources = 1;
    in.run = opcode == "sqrt"  ? unary_of<kFloatSqrt>(type, flush)
             : opcode == "rcp" ? (cut ? unary_float<kDoubleRcpCut, double, false> : unary_of<kFloatRcp>(type, flush))
             : opcode == "rsqrt"
                 ? (cut ? unary_float<kDoubleRsqrtCut, double, false> : unary_of<kFloatRsqrt>(type, flush))
             : opcode == "sin" ? unary_of<kFloatSin>(type, flush)
             : opcode == "cos" ? unary_of<kFloatCos>(type, flush)
             : opcode == "ex2" ? unary_of<kFloatEx2>(type, flush)
             : opcode == "lg2" ? unary_of<kFloatLg2>(type, flush)
                               : unary_of<kFloatTanh>(type, flush);
  }
  decoder.operands(type, sources);
  wrap_modes(in, bytes_of(type));
  return true;
}

}  // namespace meshbed::sim::ptx
