// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, and the carry chains. PTX ISA 9.7.1 and 9.7.2.
#include <algorithm>
#include <type_traits>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// The usual promotions would make a multiplication of 16-bit values signed, and overflow of it undefined.
template <typename T>
using Wide = std::conditional_t<sizeof(T) <= 4, std::uint64_t, __uint128_t>;
template <typename T>
using SignedWide = std::conditional_t<sizeof(T) <= 4, std::int64_t, __int128>;
template <typename T>
using Product = std::conditional_t<std::is_signed_v<T>, SignedWide<T>, Wide<T>>;
template <typename T>
using Calculated = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

struct Add {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Calculated<T>>(a) + static_cast<Calculated<T>>(b));
  }
};
struct Sub {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Calculated<T>>(a) - static_cast<Calculated<T>>(b));
  }
};
struct MulLow {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Calculated<T>>(a) * static_cast<Calculated<T>>(b));
  }
};
struct MulHigh {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Product<T>>(static_cast<Product<T>>(a) * static_cast<Product<T>>(b)) >>
                          (sizeof(T) * 8));
  }
};
struct Div {  // by zero: an unspecified value, which here is all ones
  template <typename T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub::of<T>(0, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {  // by zero: likewise, as an H200 has it (tests/cuda/ptx/h200.txt)
  template <typename T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <typename T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
/// .relu: what is below 0 is 0.
template <typename Op>
struct AtLeastZero {
  template <typename T>
  static T of(T a, T b) {
    return std::max(Op::template of<T>(a, b), T{0});
  }
};
/// Of each half of a word by itself.
template <typename Op, typename Half>
struct OfHalves {
  template <typename T>
  static T of(T a, T b) {
    const auto low = Op::template of<Half>(static_cast<Half>(a), static_cast<Half>(b));
    const auto high = Op::template of<Half>(static_cast<Half>(a >> 16U), static_cast<Half>(b >> 16U));
    return static_cast<T>(static_cast<std::uint16_t>(low)) | static_cast<T>(static_cast<std::uint16_t>(high)) << 16U;
  }
};
struct Sad {
  template <typename T>
  static T of(T a, T b, T c) {
    return Add::of<T>(c, a < b ? Sub::of<T>(b, a) : Sub::of<T>(a, b));
  }
};
struct MadLow {
  template <typename T>
  static T of(T a, T b, T c) {
    return Add::of<T>(MulLow::of<T>(a, b), c);
  }
};
struct MadHigh {
  template <typename T>
  static T of(T a, T b, T c) {
    return Add::of<T>(MulHigh::of<T>(a, b), c);
  }
};
struct Neg {
  template <typename T>
  static T of(T a) {
    return Sub::of<T>(0, a);
  }
};
struct Abs {
  template <typename T>
  static T of(T a) {
    return a < 0 ? Sub::of<T>(0, a) : a;
  }
};

template <typename Op, typename T>
void unary_integer(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = Op::template of<T>(a[lane]); });
}
template <typename Op, typename T>
void binary_integer(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = Op::template of<T>(a[lane], b[lane]); });
}
template <typename Op, typename T>
void ternary_integer(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  const auto* c = lanes_at<T>(warp, in.c);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = Op::template of<T>(a[lane], b[lane], c[lane]); });
}

template <typename T>
using Doubled = std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 2, std::int32_t, std::int64_t>,
                                   std::conditional_t<sizeof(T) == 2, std::uint32_t, std::uint64_t>>;

struct MulWide {
  template <typename T>
  static Doubled<T> of(T a, T b, Doubled<T> c) {
    return Add::of<Doubled<T>>(static_cast<Doubled<T>>(static_cast<Doubled<T>>(a) * static_cast<Doubled<T>>(b)), c);
  }
};

template <typename T, bool kAdds>
void wide_product(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<Doubled<T>>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  if constexpr (kAdds) {
    const auto* c = lanes_at<Doubled<T>>(warp, in.c);
    each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = MulWide::of<T>(a[lane], b[lane], c[lane]); });
  } else {
    each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = MulWide::of<T>(a[lane], b[lane], 0); });
  }
}

/// add.sat.s32 and sub.sat.s32.
template <bool kAdds>
void saturating(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::int32_t>(warp, in.d);
  const auto* a = lanes_at<std::int32_t>(warp, in.a);
  const auto* b = lanes_at<std::int32_t>(warp, in.b);
  each_lane(warp, lanes, [=](std::uint32_t lane) {
    const std::int64_t exact = kAdds ? std::int64_t{a[lane]} + b[lane] : std::int64_t{a[lane]} - b[lane];
    d[lane] = static_cast<std::int32_t>(exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact);
  });
}

/// mad.hi.sat.s32
void saturating_high(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::int32_t>(warp, in.d);
  const auto* a = lanes_at<std::int32_t>(warp, in.a);
  const auto* b = lanes_at<std::int32_t>(warp, in.b);
  const auto* c = lanes_at<std::int32_t>(warp, in.c);
  each_lane(warp, lanes, [=](std::uint32_t lane) {
    const std::int64_t exact = (std::int64_t{a[lane]} * b[lane] >> 32) + c[lane];
    d[lane] = static_cast<std::int32_t>(exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact);
  });
}

/// mul24 and mad24: extra: 0 low, 1 high.
template <typename T>
void product24(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  const auto* c = in.c == kNowhere ? nullptr : lanes_at<T>(warp, in.c);
  each_active(lanes, [&](std::uint32_t lane) {
    const auto cut = [](T value) {
      return static_cast<T>(static_cast<T>(static_cast<std::uint32_t>(value) << 8U) >> 8);
    };
    const auto product = static_cast<std::uint64_t>(std::int64_t{cut(a[lane])} * std::int64_t{cut(b[lane])});
    const auto part = static_cast<std::uint32_t>(in.extra == 0 ? product : product >> 16U);
    d[lane] = static_cast<T>(part + (c == nullptr ? 0U : static_cast<std::uint32_t>(c[lane])));
  });
}

// Carry chains: the condition code is a mask of lanes in the frame (Instruction::e).
// kind: 1 the carry comes in, 2 it goes out; extra: 0 add, 1 sub, 2 mad.lo, 3 mad.hi.
template <typename T>
void with_carry(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  const auto* c = in.c == kNowhere ? nullptr : lanes_at<T>(warp, in.c);
  const std::uint32_t before = mask_at(warp, in.e);
  std::uint32_t after = before;
  each_active(lanes, [&](std::uint32_t lane) {
    const bool comes = (in.kind & 1U) != 0 && (before >> lane & 1U) != 0;
    bool goes = false;
    if (in.extra == 1) {
      const auto exact = static_cast<__uint128_t>(a[lane]) - b[lane] - (comes ? 1 : 0);
      d[lane] = static_cast<T>(exact);
      goes = exact >> 64U != 0;
    } else {
      const T first = in.extra == 0   ? T{a[lane]}
                      : in.extra == 2 ? MulLow::of<T>(a[lane], b[lane])
                                      : MulHigh::of<T>(a[lane], b[lane]);
      const T second = in.extra == 0 ? b[lane] : c[lane];
      const auto exact = static_cast<__uint128_t>(first) + second + (comes ? 1 : 0);
      d[lane] = static_cast<T>(exact);
      goes = (exact >> (sizeof(T) * 8)) != 0;
    }
    if ((in.kind & 2U) != 0) after = (after & ~(1U << lane)) | (goes ? 1U << lane : 0U);
  });
  *lanes_at<std::uint32_t>(warp, in.e) = after;
}

template <template <typename, typename> class Form, typename Op>
Handler integer_handler(Type type) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return Form<Op, std::uint16_t>::run;
    case Type::kS16:
      return Form<Op, std::int16_t>::run;
    case Type::kB32:
    case Type::kU32:
      return Form<Op, std::uint32_t>::run;
    case Type::kS32:
      return Form<Op, std::int32_t>::run;
    case Type::kB64:
    case Type::kU64:
      return Form<Op, std::uint64_t>::run;
    case Type::kS64:
      return Form<Op, std::int64_t>::run;
    default:
      return nullptr;
  }
}
template <typename Op, typename T>
struct UnaryInteger {
  static constexpr Handler run = unary_integer<Op, T>;
};
template <typename Op, typename T>
struct BinaryInteger {
  static constexpr Handler run = binary_integer<Op, T>;
};
template <typename Op, typename T>
struct TernaryInteger {
  static constexpr Handler run = ternary_integer<Op, T>;
};

bool integer_type_follows(const Decoder& decoder) {
  for (const std::string_view modifier : decoder.statement->modifiers) {
    const Type type = type_named(modifier);
    if (type != Type::kNone) return is_integer(type);
  }
  return false;
}

/// The carry of the function: one mask in its frame.
std::uint32_t carry_place(Decoder& decoder) {
  if (decoder.function.carry == kNowhere) decoder.function.carry = decoder.temporary(4);
  return decoder.function.carry;
}

void decode_product(Decoder& decoder, bool adds) {
  const bool wide = decoder.take("wide");
  const bool high = !wide && decoder.take("hi");
  if (!wide && !high) decoder.take("lo");
  const bool saturates = decoder.take("sat");
  const bool carries = decoder.take("cc");
  const Type type = decoder.type();
  if (!wide) {
    decoder.operands(type, adds ? 3 : 2);
    if (carries) {
      if (bytes_of(type) < 4) decoder.unsupported("a carry of this type");
      decoder.in.run = bytes_of(type) == 8 ? with_carry<std::uint64_t> : with_carry<std::uint32_t>;
      if (is_signed(type) && high) decoder.unsupported("a signed carry chain");
      decoder.in.kind = 2;
      decoder.in.extra = high ? 3 : 2;
      decoder.in.e = carry_place(decoder);
      return;
    }
    if (saturates) {
      if (!adds || !high || type != Type::kS32) decoder.unsupported(".sat");
      decoder.in.run = saturating_high;
    } else if (adds) {
      decoder.in.run =
          high ? integer_handler<TernaryInteger, MadHigh>(type) : integer_handler<TernaryInteger, MadLow>(type);
    } else {
      decoder.in.run =
          high ? integer_handler<BinaryInteger, MulHigh>(type) : integer_handler<BinaryInteger, MulLow>(type);
    }
    return;
  }
  const bool sign = is_signed(type);
  const bool narrow = bytes_of(type) == 2;
  if (!narrow && bytes_of(type) != 4) decoder.refuse(".wide takes 16 or 32 bits");
  const Type result = narrow ? (sign ? Type::kS32 : Type::kU32) : (sign ? Type::kS64 : Type::kU64);
  if (adds) {
    decoder.operands(result, {type, type, result});
    decoder.in.run = narrow ? (sign ? wide_product<std::int16_t, true> : wide_product<std::uint16_t, true>)
                            : (sign ? wide_product<std::int32_t, true> : wide_product<std::uint32_t, true>);
  } else {
    decoder.operands(result, {type, type});
    decoder.in.run = narrow ? (sign ? wide_product<std::int16_t, false> : wide_product<std::uint16_t, false>)
                            : (sign ? wide_product<std::int32_t, false> : wide_product<std::uint32_t, false>);
  }
}

void decode_sum(Decoder& decoder, bool adds, bool comes) {
  const bool goes = decoder.take("cc");
  const bool saturates = decoder.take("sat");
  const Type type = decoder.type();
  decoder.operands(type, {type, type});
  if (comes || goes) {
    if (bytes_of(type) < 4) decoder.unsupported("a carry of this type");
    decoder.in.run = bytes_of(type) == 8 ? with_carry<std::uint64_t> : with_carry<std::uint32_t>;
    decoder.in.kind = static_cast<std::uint8_t>((comes ? 1 : 0) | (goes ? 2 : 0));
    decoder.in.extra = adds ? 0 : 1;
    decoder.in.e = carry_place(decoder);
  } else if (saturates) {
    if (type != Type::kS32) decoder.unsupported(".sat");
    decoder.in.run = adds ? saturating<true> : saturating<false>;
  } else {
    decoder.in.run = adds ? integer_handler<BinaryInteger, Add>(type) : integer_handler<BinaryInteger, Sub>(type);
  }
}

/// vabsdiff4: how far the four bytes of two words are apart. PTX ISA 9.7.16. kind: 1 a's bytes are signed, 2 b's are;
/// 4: their sum, and c, else a byte each.
void byte_distances(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* a = lanes_at<std::uint32_t>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  const auto* c = lanes_at<std::uint32_t>(warp, in.c);
  const auto byte_of = [](std::uint32_t word, std::uint32_t at, bool is_signed) {
    const auto byte = static_cast<std::uint8_t>(word >> (at * 8));
    return is_signed ? std::int32_t{static_cast<std::int8_t>(byte)} : std::int32_t{byte};
  };
  each_lane(warp, lanes, [=, &in](std::uint32_t lane) {
    std::uint32_t sum = c[lane], bytes = 0;
    for (std::uint32_t at = 0; at < 4; ++at) {
      const std::int32_t apart = byte_of(a[lane], at, (in.kind & 1) != 0) - byte_of(b[lane], at, (in.kind & 2) != 0);
      const auto distance = static_cast<std::uint32_t>(apart < 0 ? -apart : apart);
      sum += distance;
      bytes |= (distance & 0xffU) << (at * 8);
    }
    d[lane] = (in.kind & 4) != 0 ? sum : bytes;
  });
}

template <typename Op, typename Half>
constexpr Handler kOfHalves = BinaryInteger<OfHalves<Op, Half>, std::uint32_t>::run;

/// add, min and max of .u16x2 and .s16x2.
bool decode_halves(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  if (opcode != "add" && opcode != "min" && opcode != "max") return false;
  const bool sign = decoder.take("s16x2");
  if (!sign && !decoder.take("u16x2")) return false;
  const bool relu = sign && opcode != "add" && decoder.take("relu");
  decoder.operands(Type::kB32, 2);
  Instruction& in = decoder.in;
  if (opcode == "add") {
    in.run = kOfHalves<Add, std::uint16_t>;
  } else if (opcode == "min") {
    in.run = relu   ? kOfHalves<AtLeastZero<Min>, std::int16_t>
             : sign ? kOfHalves<Min, std::int16_t>
                    : kOfHalves<Min, std::uint16_t>;
  } else {
    in.run = relu   ? kOfHalves<AtLeastZero<Max>, std::int16_t>
             : sign ? kOfHalves<Max, std::int16_t>
                    : kOfHalves<Max, std::uint16_t>;
  }
  return true;
}

bool decode_byte_distances(Decoder& decoder) {
  if (decoder.has("sat")) return false;  // traps where it is executed
  const Type result = decoder.type(), a = decoder.type(), b = decoder.type();
  const auto is_word = [](Type type) { return is_integer(type) && bytes_of(type) == 4; };
  if (!is_word(result) || !is_word(a) || !is_word(b)) decoder.unsupported("this type");
  decoder.operands(result, {a, b, result});
  decoder.in.kind =
      static_cast<std::uint8_t>((is_signed(a) ? 1 : 0) | (is_signed(b) ? 2 : 0) | (decoder.take("add") ? 4 : 0));
  decoder.in.run = byte_distances;
  return true;
}

}  // namespace

bool decode_integer(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  if (opcode == "vabsdiff4") return decode_byte_distances(decoder);
  if (decode_halves(decoder)) return true;
  if (!integer_type_follows(decoder)) return false;
  if (opcode == "add" || opcode == "sub") {
    decode_sum(decoder, opcode == "add", false);
  } else if (opcode == "addc" || opcode == "subc") {
    decode_sum(decoder, opcode == "addc", true);
  } else if (opcode == "mul" || opcode == "mad") {
    decode_product(decoder, opcode == "mad");
  } else if (opcode == "madc") {
    const bool high = decoder.take("hi");
    if (!high) decoder.take("lo");
    const bool goes = decoder.take("cc");
    const Type type = decoder.type();
    if (is_signed(type) && high) decoder.unsupported("a signed carry chain");
    if (bytes_of(type) < 4) decoder.unsupported("a carry of this type");
    decoder.operands(type, {type, type, type});
    decoder.in.run = bytes_of(type) == 8 ? with_carry<std::uint64_t> : with_carry<std::uint32_t>;
    decoder.in.kind = static_cast<std::uint8_t>(1 | (goes ? 2 : 0));
    decoder.in.extra = high ? 3 : 2;
    decoder.in.e = carry_place(decoder);
  } else if (opcode == "mul24" || opcode == "mad24") {
    const bool high = decoder.take("hi");
    if (!high) decoder.take("lo");
    const Type type = decoder.type();
    if (bytes_of(type) != 4) decoder.refuse("takes 32 bits");
    decoder.operands(type, opcode == "mad24" ? 3 : 2);
    decoder.in.extra = high ? 1 : 0;
    decoder.in.run = is_signed(type) ? product24<std::int32_t> : product24<std::uint32_t>;
  } else if (opcode == "div" || opcode == "rem" || opcode == "min" || opcode == "max") {
    const bool relu = decoder.take("relu");
    const Type type = decoder.type();
    if (relu && (type != Type::kS32 || (opcode != "min" && opcode != "max"))) decoder.unsupported("this type");
    decoder.operands(type, {type, type});
    if (relu) {
      decoder.in.run = opcode == "min" ? BinaryInteger<AtLeastZero<Min>, std::int32_t>::run
                                       : BinaryInteger<AtLeastZero<Max>, std::int32_t>::run;
      return true;
    }
    decoder.in.run = opcode == "div"   ? integer_handler<BinaryInteger, Div>(type)
                     : opcode == "rem" ? integer_handler<BinaryInteger, Rem>(type)
                     : opcode == "min" ? integer_handler<BinaryInteger, Min>(type)
                                       : integer_handler<BinaryInteger, Max>(type);
  } else if (opcode == "sad") {
    const Type type = decoder.type();
    decoder.operands(type, {type, type, type});
    decoder.in.run = integer_handler<TernaryInteger, Sad>(type);
  } else if (opcode == "neg" || opcode == "abs") {
    const Type type = decoder.type();
    decoder.operands(type, {type});
    decoder.in.run =
        opcode == "neg" ? integer_handler<UnaryInteger, Neg>(type) : integer_handler<UnaryInteger, Abs>(type);
  } else {
    return false;
  }
  if (decoder.in.run == nullptr) decoder.unsupported("this type");
  return true;
}

}  // namespace meshbed::sim::ptx
