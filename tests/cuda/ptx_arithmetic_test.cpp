// Arithmetic against the host, bit for bit: random operands, and among them those where mistakes sit (0, -1, the ends,
// subnormals, infinities, NaNs). A sample ordinarily; a million an opcode with MESHBED_TEST_WALKS=full.
#include <doctest/doctest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "plugin/base/prng.h"
#include "tests/cuda/ptx_bench.h"
#include "tests/support/walk.h"

namespace ptx_arithmetic_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

std::size_t samples() { return walks_whole() ? 1000000 : 4000; }

template <typename T>
T random_value(Prng& prng) {
  using U = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                               std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  static constexpr std::uint64_t kEdges32[] = {0,          0x80000000, 1,          0xffffffff, 0x7fffffff, 0x3f800000,
                                               0x7f800000, 0xff800000, 0x7fc00001, 0x00000001, 0x00800000, 0x807fffff,
                                               0x7f7fffff, 31,         32,         33};
  static constexpr std::uint64_t kEdges64[] = {0,
                                               0x8000000000000000,
                                               1,
                                               ~0ULL,
                                               0x7fffffffffffffff,
                                               0x3ff0000000000000,
                                               0x7ff0000000000000,
                                               0xfff0000000000000,
                                               0x7ff8000000000001,
                                               0x0010000000000000,
                                               63,
                                               64,
                                               65,
                                               0x000fffffffffffff,
                                               0x7fefffffffffffff,
                                               0xffffffff};
  const std::uint64_t draw = prng.below(8);
  std::uint64_t bits = draw == 0 ? (sizeof(T) == 8 ? kEdges64 : kEdges32)[prng.below(16)] : prng.next();
  if (draw == 1) bits >>= prng.below(64);
  if (draw == 2 && sizeof(T) == 4) bits = (bits & 0x807fffff) | (120 + prng.below(16)) << 23U;  // near one
  if (draw == 3 && sizeof(T) == 4) bits = (bits & 0x807fffff) | prng.below(30) << 23U;          // near the smallest
  return std::bit_cast<T>(static_cast<U>(bits));
}

const char* register_of(std::size_t bytes) { return bytes == 2 ? ".b16" : bytes == 4 ? ".b32" : ".b64"; }

/// Runs `opcode d, a, b, c` on all samples.
template <typename D, typename A, typename B, typename C>
std::vector<D> outcome(const std::string& opcode, int sources, const std::vector<A>& a, const std::vector<B>& b,
                       const std::vector<C>& c) {
  std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 d, .param .u64 a, .param .u64 b, "
      ".param .u64 c, .param .u32 n)\n{\n.reg .pred %p;\n.reg .b32 %i, %t, %n;\n.reg .b64 %q<9>;\n";
  text += std::string(".reg ") + register_of(sizeof(D)) + " %d;\n.reg " + register_of(sizeof(A)) + " %a;\n.reg " +
          register_of(sizeof(B)) + " %b;\n.reg " + register_of(sizeof(C)) + " %c;\n";
  text +=
      "mov.u32 %i, %ctaid.x;\nmov.u32 %t, %ntid.x;\nmov.u32 %n, %tid.x;\nmad.lo.u32 %i, %i, %t, %n;\nld.param.u32 %n, "
      "[n];\n"
      "setp.ge.u32 %p, %i, %n;\n@%p exit;\n";
  const auto element = [&](const char* name, std::size_t bytes, int reg) {
    const std::string q = "%q" + std::to_string(reg);
    text += "ld.param.u64 " + q + ", [" + name + "];\nmad.wide.u32 " + q + ", %i, " + std::to_string(bytes) + ", " + q +
            ";\n";
    if (reg > 0) text += std::string("ld.global") + register_of(bytes) + " %" + name + ", [" + q + "];\n";
  };
  element("d", sizeof(D), 0);
  element("a", sizeof(A), 1);
  element("b", sizeof(B), 2);
  element("c", sizeof(C), 3);
  text += opcode + " %d, %a" + (sources > 1 ? ", %b" : "") + (sources > 2 ? ", %c" : "") + ";\n";
  text += std::string("st.global") + register_of(sizeof(D)) + " [%q0], %d;\nret;\n}\n";
  Device device(module_of(text, opcode));
  const auto count = static_cast<std::uint32_t>(a.size());
  const auto d = device.memory.allocate(count * sizeof(D));
  const std::string fault = device.run("k", {.grid = (count + 255) / 256, .block = 256}, d, device.memory.put(a),
                                       device.memory.put(b), device.memory.put(c), count);
  REQUIRE_MESSAGE(fault == "", opcode, ": ", fault);
  return device.memory.get<D>(d, count);
}

template <typename T>
std::uint64_t bits_of(T value) {
  if constexpr (sizeof(T) == 2) return std::bit_cast<std::uint16_t>(value);
  if constexpr (sizeof(T) == 4) return std::bit_cast<std::uint32_t>(value);
  if constexpr (sizeof(T) == 8) return std::bit_cast<std::uint64_t>(value);
}

template <typename D, typename A, typename B = A, typename C = A, typename Host>
void compare(const std::string& opcode, int sources, Host host) {
  Prng prng(std::hash<std::string>{}(opcode));
  std::vector<A> a(samples());
  std::vector<B> b(samples());
  std::vector<C> c(samples());
  for (std::size_t index = 0; index < a.size(); ++index) {
    a[index] = random_value<A>(prng);
    b[index] = random_value<B>(prng);
    c[index] = random_value<C>(prng);
  }
  const std::vector<D> found = outcome<D>(opcode, sources, a, b, c);
  int wrong = 0;
  for (std::size_t index = 0; index < a.size() && wrong < 3; ++index) {
    const D expected = host(a[index], b[index], c[index]);
    if (bits_of(found[index]) == bits_of(expected)) continue;
    // A NaN of double keeps what payload it has: any will do. One of float has fixed bits, compared above.
    if constexpr (std::is_same_v<D, double>) {
      if (found[index] != found[index] && expected != expected) continue;
    }
    ++wrong;
    FAIL_CHECK(opcode << " of " << std::hex << bits_of(a[index]) << ", " << bits_of(b[index]) << ", "
                      << bits_of(c[index]) << ": " << bits_of(found[index]) << ", not " << bits_of(expected));
  }
}

template <typename T>
void compare_integers(const std::string& type) {
  using U = std::make_unsigned_t<T>;
  using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  constexpr int kBits = sizeof(T) * 8;
  compare<T, T>("add." + type, 2, [](T a, T b, T) { return static_cast<T>(W{a} + W{b}); });
  compare<T, T>("sub." + type, 2, [](T a, T b, T) { return static_cast<T>(W{a} - W{b}); });
  compare<T, T>("mul.lo." + type, 2, [](T a, T b, T) { return static_cast<T>(W{a} * W{b}); });
  compare<T, T>("mul.hi." + type, 2, [](T a, T b, T) { return static_cast<T>((W{a} * W{b}) >> kBits); });
  compare<T, T>("mad.lo." + type, 3, [](T a, T b, T c) { return static_cast<T>(W{a} * W{b} + W{c}); });
  compare<T, T>("min." + type, 2, [](T a, T b, T) { return std::min(a, b); });
  compare<T, T>("max." + type, 2, [](T a, T b, T) { return std::max(a, b); });
  compare<T, T>("div." + type, 2,
                [](T a, T b, T) { return b == 0 ? static_cast<T>(-1) : static_cast<T>(W{a} / W{b}); });
  // The ISA leaves a remainder by zero open; an H200 has all ones, as for the quotient (ptx/h200.txt).
  compare<T, T>("rem." + type, 2,
                [](T a, T b, T) { return b == 0 ? static_cast<T>(-1) : static_cast<T>(W{a} % W{b}); });
  compare<T, T, std::uint32_t>("shr." + type, 2, [](T a, std::uint32_t b, T) {
    return static_cast<T>(W{a} >> std::min<std::uint32_t>(b, 100));
  });
  compare<T, T, std::uint32_t>("shl.b" + std::to_string(kBits), 2, [](T a, std::uint32_t b, T) {
    return b >= kBits ? T{0} : static_cast<T>(static_cast<unsigned __int128>(static_cast<U>(a)) << b);
  });
}

float canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7fffffffU); }
double canonical(double value) { return value; }
float flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }

/// The host's own operation in that rounding mode, kept from being moved.
template <typename T, typename Operation>
T in_mode(int mode, Operation operation, T a, T b, T c) {
  volatile T x = a, y = b, z = c;
  std::fesetround(mode);
  volatile T made = operation(x, y, z);
  std::fesetround(FE_TONEAREST);
  return canonical(T{made});
}

template <typename T>
void compare_floats(const std::string& type) {
  for (const auto& [name, mode] :
       {std::pair{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}}) {
    const std::string form = std::string(".") + name + "." + type;
    compare<T, T>("add" + form, 2, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T y, T) { return x + y; }, a, b, c);
    });
    compare<T, T>("sub" + form, 2, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T y, T) { return x - y; }, a, b, c);
    });
    compare<T, T>("mul" + form, 2, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T y, T) { return x * y; }, a, b, c);
    });
    compare<T, T>("div" + form, 2, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T y, T) { return x / y; }, a, b, c);
    });
    compare<T, T>("fma" + form, 3, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c);
    });
    compare<T, T>("sqrt" + form, 1, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T, T) { return std::sqrt(x); }, a, b, c);
    });
    compare<T, T>("rcp" + form, 1, [=](T a, T b, T c) {
      return in_mode(
          mode, [](T x, T, T) { return T{1} / x; }, a, b, c);
    });
  }
  const auto least = [](T a, T b, T) {
    return canonical(a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b));
  };
  const auto most = [](T a, T b, T) {
    return canonical(a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : std::max(a, b));
  };
  compare<T, T>("min." + type, 2, least);
  compare<T, T>("max." + type, 2, most);
}

/// To an integer in one rounding, ends clamped, by long double: exact for every source.
template <typename I, typename F>
I clamped(F value, int mode) {
  if (value != value) return 0;
  std::fesetround(mode);
  volatile long double whole = std::nearbyintl(static_cast<long double>(value));
  std::fesetround(FE_TONEAREST);
  if (whole < static_cast<long double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (whole > static_cast<long double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(whole);
}

}  // namespace

TEST_CASE("integers of 16 bits in pairs, and .relu") {
  const auto halves = [](const std::string& opcode, auto half) {
    compare<std::uint32_t, std::uint32_t>(opcode, 2, [half](std::uint32_t a, std::uint32_t b, std::uint32_t) {
      using Half = decltype(half);
      const auto at = [&](unsigned shift) {
        return std::uint32_t{static_cast<std::uint16_t>(
                   half.of(static_cast<typename Half::Type>(a >> shift), static_cast<typename Half::Type>(b >> shift)))}
               << shift;
      };
      return at(0) | at(16);
    });
  };
  struct Sum {
    using Type = std::uint16_t;
    static int of(Type a, Type b) { return a + b; }
  };
  struct Least {
    using Type = std::uint16_t;
    static int of(Type a, Type b) { return std::min(a, b); }
  };
  struct Most {
    using Type = std::int16_t;
    static int of(Type a, Type b) { return std::max(a, b); }
  };
  struct LeastRelu {
    using Type = std::int16_t;
    static int of(Type a, Type b) { return std::max(std::min(int{a}, int{b}), 0); }
  };
  halves("add.u16x2", Sum{});
  halves("add.s16x2", Sum{});
  halves("min.u16x2", Least{});
  halves("max.s16x2", Most{});
  halves("min.relu.s16x2", LeastRelu{});
  compare<std::int32_t, std::int32_t>(
      "max.relu.s32", 2, [](std::int32_t a, std::int32_t b, std::int32_t) { return std::max(std::max(a, b), 0); });
}

TEST_CASE("integer arithmetic is the host's") {
  compare_integers<std::uint16_t>("u16");
  compare_integers<std::int16_t>("s16");
  compare_integers<std::uint32_t>("u32");
  compare_integers<std::int32_t>("s32");
  compare_integers<std::uint64_t>("u64");
  compare_integers<std::int64_t>("s64");
  using U = std::uint32_t;
  compare<std::int64_t, std::int32_t>("mul.wide.s32", 2,
                                      [](std::int32_t a, std::int32_t b, std::int32_t) { return std::int64_t{a} * b; });
  compare<std::uint64_t, U>("mul.wide.u32", 2, [](U a, U b, U) { return std::uint64_t{a} * b; });
}

TEST_CASE("bits: counts, fields, permutations") {
  using U = std::uint32_t;
  using L = std::uint64_t;
  compare<U, U>("popc.b32", 1, [](U a, U, U) { return static_cast<U>(std::popcount(a)); });
  compare<U, L>("popc.b64", 1, [](L a, L, L) { return static_cast<U>(std::popcount(a)); });
  compare<U, U>("clz.b32", 1, [](U a, U, U) { return static_cast<U>(std::countl_zero(a)); });
  compare<U, L>("clz.b64", 1, [](L a, L, L) { return static_cast<U>(std::countl_zero(a)); });
  compare<U, U>("bfind.u32", 1, [](U a, U, U) { return static_cast<U>(31 - std::countl_zero(a)); });
  compare<U, U>("shf.l.wrap.b32", 3,
                [](U a, U b, U c) { return static_cast<U>(((L{b} << 32U | a) << (c & 31U)) >> 32U); });
  compare<U, U>("shf.r.clamp.b32", 3,
                [](U a, U b, U c) { return static_cast<U>((L{b} << 32U | a) >> std::min(c, 32U)); });
  compare<U, U>("prmt.b32", 3, [](U a, U b, U c) {
    U made = 0;
    for (unsigned at = 0; at < 4; ++at) {
      const U one = c >> (at * 4) & 15U;
      const U byte = static_cast<U>((L{b} << 32U | a) >> ((one & 7U) * 8)) & 255U;
      made |= (one > 7 ? (byte > 127 ? 255U : 0U) : byte) << (at * 8);
    }
    return made;
  });
  compare<std::int32_t, std::int32_t, U, U>("bfe.s32", 3, [](std::int32_t a, U b, U c) -> std::int32_t {
    const U position = b & 255U, length = c & 255U;
    if (length == 0) return 0;
    const std::int64_t from = std::int64_t{a} >> std::min(position, 63U);
    return length >= 32 ? static_cast<std::int32_t>(from)
                        : static_cast<std::int32_t>(from << (64 - length) >> (64 - length));
  });
}

TEST_CASE("float arithmetic is IEEE 754's in every rounding") {
  compare_floats<float>("f32");
  compare_floats<double>("f64");
  compare<float, float>("add.ftz.f32", 2,
                        [](float a, float b, float) { return canonical(flush(flush(a) + flush(b))); });
  compare<float, float>("mul.sat.f32", 2, [](float a, float b, float) {
    const float product = a * b;
    return product > 0 ? std::min(product, 1.0F) : 0.0F;
  });
}

TEST_CASE("comparisons: ordered, unordered, by sign, and with subnormals flushed") {
  using U = std::uint32_t;
  const auto all = [](const std::string& type, const std::string& flag, auto given, auto host) {
    using T = decltype(given);
    const auto set = [&](const char* relation, auto holds) {
      compare<U, T>(std::string("set.") + relation + flag + ".u32." + type, 2,
                    [=](T a, T b, T) -> U { return holds(host(a), host(b)) ? ~U{0} : 0; });
    };
    set("eq", [](T a, T b) { return a == b; });
    set("ne", [](T a, T b) { return a < b || a > b; });
    set("lt", [](T a, T b) { return a < b; });
    set("le", [](T a, T b) { return a <= b; });
    set("gt", [](T a, T b) { return a > b; });
    set("ge", [](T a, T b) { return a >= b; });
    if constexpr (std::is_floating_point_v<T>) {
      set("equ", [](T a, T b) { return !(a < b || a > b); });
      set("neu", [](T a, T b) { return !(a == b); });
      set("ltu", [](T a, T b) { return !(a >= b); });
      set("leu", [](T a, T b) { return !(a > b); });
      set("gtu", [](T a, T b) { return !(a <= b); });
      set("geu", [](T a, T b) { return !(a < b); });
      set("num", [](T a, T b) { return !std::isnan(a) && !std::isnan(b); });
      set("nan", [](T a, T b) { return std::isnan(a) || std::isnan(b); });
    }
  };
  const auto same = [](auto value) { return value; };
  all("u16", "", std::uint16_t{}, same);
  all("s16", "", std::int16_t{}, same);
  all("u32", "", U{}, same);
  all("s32", "", std::int32_t{}, same);
  all("u64", "", std::uint64_t{}, same);
  all("s64", "", std::int64_t{}, same);
  all("f32", "", float{}, same);
  all("f32", ".ftz", float{}, [](float value) { return flush(value); });
  all("f64", "", double{}, same);
}

TEST_CASE("conversions round and saturate as they say") {
  using I = std::int32_t;
  using L = std::int64_t;
  for (const auto& [name, mode] :
       {std::pair{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}}) {
    const std::string to_integer = std::string("cvt.") + name + "i.";
    const std::string to_float = std::string("cvt.") + name + ".";
    compare<I, float>(to_integer + "s32.f32", 1, [=](float a, float, float) { return clamped<I>(a, mode); });
    compare<std::uint32_t, float>(to_integer + "u32.f32", 1,
                                  [=](float a, float, float) { return clamped<std::uint32_t>(a, mode); });
    compare<float, L>(to_float + "f32.s64", 1, [=](L a, L, L) {
      volatile L given = a;
      std::fesetround(mode);
      volatile float made = static_cast<float>(L{given});
      std::fesetround(FE_TONEAREST);
      return float{made};
    });
    compare<float, double>(to_float + "f32.f64", 1, [=](double a, double, double) {
      volatile double given = a;
      std::fesetround(mode);
      volatile float made = static_cast<float>(double{given});
      std::fesetround(FE_TONEAREST);
      return float{made};  // of a NaN the sign and the upper payload, as the host has it and an H200 (ptx/h200.txt)
    });
  }
  compare<double, float>("cvt.f64.f32", 1, [](float a, float, float) { return double{a}; });
  compare<std::uint64_t, I>("cvt.s64.s32", 1, [](I a, I, I) { return static_cast<std::uint64_t>(L{a}); });
}

}  // namespace ptx_arithmetic_test
