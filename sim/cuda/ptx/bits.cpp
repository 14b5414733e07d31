// Bits: logic, shifts, fields, counts, permutations and dot products of bytes. PTX ISA 9.7.1 (popc to dp2a) and 9.7.8.
#include <algorithm>
#include <bit>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Bits : std::uint8_t { kAnd, kOr, kXor, kNot, kCnot };

template <Bits kOp, typename T>
void logic(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  if constexpr (kOp == Bits::kNot) {
    each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = static_cast<T>(~a[lane]); });
  } else if constexpr (kOp == Bits::kCnot) {
    each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = a[lane] == 0 ? 1 : 0; });
  } else {
    const auto* b = lanes_at<T>(warp, in.b);
    each_lane(warp, lanes, [=](std::uint32_t lane) {
      if constexpr (kOp == Bits::kAnd) d[lane] = a[lane] & b[lane];
      if constexpr (kOp == Bits::kOr) d[lane] = a[lane] | b[lane];
      if constexpr (kOp == Bits::kXor) d[lane] = a[lane] ^ b[lane];
    });
  }
}

/// Of predicates: whole masks. extra: which sources are negated, bit 0 a, bit 1 b.
template <Bits kOp>
void logic_of_masks(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const std::uint32_t a = mask_at(warp, in.a) ^ ((in.extra & 1U) != 0 ? kAllLanes : 0);
  const std::uint32_t b = in.b == kNowhere ? 0 : mask_at(warp, in.b) ^ ((in.extra & 2U) != 0 ? kAllLanes : 0);
  std::uint32_t d = 0;
  if constexpr (kOp == Bits::kAnd) d = a & b;
  if constexpr (kOp == Bits::kOr) d = a | b;
  if constexpr (kOp == Bits::kXor) d = a ^ b;
  if constexpr (kOp == Bits::kNot || kOp == Bits::kCnot) d = ~a;
  set_mask(warp, in.d, lanes, d);
}

template <Bits kOp>
Handler logic_handler(Type type) {
  switch (bytes_of(type)) {
    case 2:
      return logic<kOp, std::uint16_t>;
    case 4:
      return logic<kOp, std::uint32_t>;
    case 8:
      return logic<kOp, std::uint64_t>;
    default:
      return nullptr;
  }
}

/// lop3: bit by bit the table (`extra`) at the index that a, b and c make.
void any_logic(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* a = lanes_at<std::uint32_t>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  const auto* c = lanes_at<std::uint32_t>(warp, in.c);
  std::uint32_t term[8];
  for (std::uint32_t index = 0; index < 8; ++index) term[index] = (in.extra >> index & 1U) != 0 ? kAllLanes : 0;
  each_lane(warp, lanes, [=](std::uint32_t lane) {
    const std::uint32_t x = a[lane], y = b[lane], z = c[lane];
    d[lane] = (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) | (term[2] & ~x & y & ~z) | (term[3] & ~x & y & z) |
              (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) | (term[6] & x & y & ~z) | (term[7] & x & y & z);
  });
}

/// Shifts: an amount above the width shifts everything out.
template <typename T, bool kLeft>
void shift(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  constexpr std::uint32_t kWidth = sizeof(T) * 8;
  each_lane(warp, lanes, [=](std::uint32_t lane) {
    const std::uint32_t amount = b[lane];
    if constexpr (kLeft) {
      d[lane] = amount >= kWidth ? T{0} : static_cast<T>(static_cast<std::uint64_t>(a[lane]) << (amount & 63U));
    } else {
      const T value = a[lane];
      const T gone = std::is_signed_v<T> && value < 0 ? static_cast<T>(-1) : T{0};
      d[lane] = amount >= kWidth ? gone : static_cast<T>(value >> (amount & (kWidth - 1)));
    }
  });
}

/// shf: kind bit 0 right, bit 1 wrap.
void funnel_shift(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* low = lanes_at<std::uint32_t>(warp, in.a);
  const auto* high = lanes_at<std::uint32_t>(warp, in.b);
  const auto* c = lanes_at<std::uint32_t>(warp, in.c);
  const bool right = (in.kind & 1U) != 0;
  const bool wrap = (in.kind & 2U) != 0;
  each_lane(warp, lanes, [=](std::uint32_t lane) {
    const std::uint32_t amount = wrap ? c[lane] & 31U : std::min<std::uint32_t>(c[lane], 32);
    const std::uint64_t both = std::uint64_t{high[lane]} << 32U | low[lane];
    d[lane] = static_cast<std::uint32_t>(right ? both >> amount : both << amount >> 32U);
  });
}

template <typename T>
T reversed(T value) {
  T made = 0;
  for (std::uint32_t bit = 0; bit < sizeof(T) * 8; ++bit) made = static_cast<T>(made << 1U | (value >> bit & 1U));
  return made;
}

enum class Count : std::uint8_t { kPopc, kClz, kBrev };
template <Count kOp, typename T>
void counted(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto* a = lanes_at<T>(warp, in.a);
  each_active(lanes, [&](std::uint32_t lane) {
    const T value = a[lane];
    if constexpr (kOp == Count::kBrev) {
      lanes_at<T>(warp, in.d)[lane] = reversed(value);
    } else {
      lanes_at<std::uint32_t>(warp, in.d)[lane] =
          static_cast<std::uint32_t>(kOp == Count::kPopc ? std::popcount(value) : std::countl_zero(value));
    }
  });
}

/// bfind; kind 1: .shiftamt
template <typename T>
void find_highest(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  each_active(lanes, [&](std::uint32_t lane) {
    using U = std::make_unsigned_t<T>;
    const T given = a[lane];
    const U value = static_cast<U>(std::is_signed_v<T> && given < 0 ? ~given : given);
    constexpr int kTop = sizeof(T) * 8 - 1;
    const int highest = value == 0 ? -1 : kTop - std::countl_zero(value);
    d[lane] = static_cast<std::uint32_t>(highest < 0 || in.kind == 0 ? highest : kTop - highest);
  });
}

/// Where a field begins, and how long it is: of 32 bits the low byte counts, of 64 bits all that is given, as an H200
/// has it (tests/cuda/ptx/h200.txt). What is beyond the width is no longer than that.
template <typename T>
std::uint32_t field_bound(std::uint32_t given) {
  constexpr std::uint32_t kBeyond = 128;
  return sizeof(T) == 8 ? std::min(given, kBeyond) : given & 0xffU;
}

template <typename T>
void extract_field(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  const auto* c = lanes_at<std::uint32_t>(warp, in.c);
  each_active(lanes, [&](std::uint32_t lane) {
    using U = std::make_unsigned_t<T>;
    constexpr std::uint32_t kTop = sizeof(T) * 8 - 1;
    const std::uint32_t position = field_bound<T>(b[lane]);
    const std::uint32_t length = field_bound<T>(c[lane]);
    const U value = static_cast<U>(a[lane]);
    const bool sign = std::is_signed_v<T> && length > 0 && (value >> std::min(position + length - 1, kTop) & 1U) != 0;
    U made = sign ? static_cast<U>(~U{0}) : U{0};
    for (std::uint32_t bit = 0; bit <= kTop && bit < length; ++bit) {
      if (position + bit > kTop) break;
      made = static_cast<U>((made & ~(U{1} << bit)) | ((value >> (position + bit) & 1U) << bit));
    }
    d[lane] = static_cast<T>(made);
  });
}

/// bfi d, from, into, position, length
template <typename T>
void insert_field(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  const auto* c = lanes_at<std::uint32_t>(warp, in.c);
  const auto* e = lanes_at<std::uint32_t>(warp, in.e);
  each_active(lanes, [&](std::uint32_t lane) {
    constexpr std::uint32_t kWidth = sizeof(T) * 8;
    const std::uint32_t position = field_bound<T>(c[lane]);
    const std::uint32_t length = field_bound<T>(e[lane]);
    const T field = length >= kWidth ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = position >= kWidth ? T{0} : static_cast<T>(field << position);
    d[lane] =
        static_cast<T>((b[lane] & ~mask) | (position >= kWidth ? T{0} : static_cast<T>(a[lane] << position) & mask));
  });
}

/// bmsk; kind 1: wrap
void make_mask(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* a = lanes_at<std::uint32_t>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint32_t position = in.kind == 1 ? a[lane] & 31U : std::min<std::uint32_t>(a[lane], 32);
    const std::uint32_t length = in.kind == 1 ? b[lane] & 31U : std::min<std::uint32_t>(b[lane], 32);
    const std::uint64_t ones = (std::uint64_t{1} << length) - 1;
    d[lane] = static_cast<std::uint32_t>(ones << position);
  });
}

/// szext; kind bit 0: wrap, bit 1: signed
void extend_from(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* a = lanes_at<std::uint32_t>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint32_t width = (in.kind & 1U) != 0 ? b[lane] & 31U : std::min<std::uint32_t>(b[lane], 32);
    const std::uint64_t ones = (std::uint64_t{1} << width) - 1;
    const std::uint32_t value = a[lane] & static_cast<std::uint32_t>(ones);
    const bool sign = (in.kind & 2U) != 0 && width > 0 && (value >> (width - 1) & 1U) != 0;
    d[lane] = sign ? value | ~static_cast<std::uint32_t>(ones) : value;
  });
}

/// fns: the n-th set bit of a mask, from a base bit up (or down).
void find_nth(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint32_t mask = lanes_at<std::uint32_t>(warp, in.a)[lane];
    const std::uint32_t base = lanes_at<std::uint32_t>(warp, in.b)[lane];
    const std::int32_t offset = lanes_at<std::int32_t>(warp, in.c)[lane];
    std::uint32_t found = kAllLanes;
    if (offset == 0) {
      if (base < 32 && (mask >> base & 1U) != 0) found = base;
    } else {
      const int step = offset > 0 ? 1 : -1;
      std::int64_t left = offset > 0 ? std::int64_t{offset} : -std::int64_t{offset};
      for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
        if ((mask >> bit & 1U) == 0 || --left != 0) continue;
        found = static_cast<std::uint32_t>(bit);
        break;
      }
    }
    d[lane] = found;
  });
}

/// prmt; kind: 0 the general form, else the mode's number.
void permute_bytes(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  const auto* a = lanes_at<std::uint32_t>(warp, in.a);
  const auto* b = lanes_at<std::uint32_t>(warp, in.b);
  const auto* c = lanes_at<std::uint32_t>(warp, in.c);
  // Selectors by the two low bits of c: f4e, b4e, rc8, ecl, ecr, rc16 (table of the ISA; most significant first).
  static constexpr std::uint16_t kModes[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                                 {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                                 {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint64_t both = std::uint64_t{b[lane]} << 32U | a[lane];
    const std::uint32_t selector = in.kind == 0 ? c[lane] : kModes[in.kind - 1][c[lane] & 3U];
    std::uint32_t made = 0;
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      const std::uint32_t one = selector >> (byte * 4);
      std::uint32_t value = static_cast<std::uint32_t>(both >> ((one & 7U) * 8)) & 0xffU;
      if ((one & 8U) != 0) value = (value & 0x80U) != 0 ? 0xffU : 0;
      made |= value << (byte * 8);
    }
    d[lane] = made;
  });
}

/// dp4a, dp2a; kind bit 0: a signed, bit 1: b signed; extra: 4, or 2 (low) or 3 (high).
void dot_product(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint32_t a = lanes_at<std::uint32_t>(warp, in.a)[lane];
    const std::uint32_t b = lanes_at<std::uint32_t>(warp, in.b)[lane];
    std::uint32_t sum = lanes_at<std::uint32_t>(warp, in.c)[lane];
    const std::uint32_t count = in.extra == 4 ? 4 : 2;
    for (std::uint32_t at = 0; at < count; ++at) {
      const std::uint32_t width = 32 / count;
      const std::uint32_t raw = a >> (at * width) << (32 - width);
      const std::int64_t left =
          (in.kind & 1U) != 0 ? static_cast<std::int32_t>(raw) >> (32 - width) : std::int64_t{raw >> (32 - width)};
      const std::uint32_t byte = (b >> ((at + (in.extra == 3 ? 2 : 0)) * 8)) & 0xffU;
      const std::int64_t right = (in.kind & 2U) != 0 ? static_cast<std::int8_t>(byte) : std::int64_t{byte};
      sum += static_cast<std::uint32_t>(left * right);
    }
    d[lane] = sum;
  });
}

template <Bits kOp>
void decode_logic(Decoder& decoder) {
  const Type type = decoder.type();
  if (type == Type::kPred) {
    decoder.expect_operands(2, 3);
    bool negated = false;
    decoder.in.a = decoder.predicate_source(decoder.operand(1), negated);
    decoder.in.extra = negated ? 1 : 0;
    if (kOp != Bits::kNot && kOp != Bits::kCnot) {
      decoder.in.b = decoder.predicate_source(decoder.operand(2), negated);
      decoder.in.extra |= negated ? 2U : 0U;
    }
    decoder.in.d = decoder.predicate_destination(decoder.operand(0));
    decoder.in.run = logic_of_masks<kOp>;
    return;
  }
  if (kOp == Bits::kNot || kOp == Bits::kCnot)
    decoder.operands(type, {type});
  else
    decoder.operands(type, {type, type});
  decoder.in.run = logic_handler<kOp>(type);
}

template <bool kLeft>
Handler shift_handler(Type type) {
  const bool sign = is_signed(type);
  switch (bytes_of(type)) {
    case 2:
      return sign ? shift<std::int16_t, kLeft> : shift<std::uint16_t, kLeft>;
    case 4:
      return sign ? shift<std::int32_t, kLeft> : shift<std::uint32_t, kLeft>;
    case 8:
      return sign ? shift<std::int64_t, kLeft> : shift<std::uint64_t, kLeft>;
    default:
      return nullptr;
  }
}

bool decode_fields(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  const auto whether = [&](const char* modifier) { return decoder.take(modifier) ? 1U : 0U; };
  if (opcode == "bfe" || opcode == "bfi") {
    const Type type = decoder.type();
    const bool wide = bytes_of(type) == 8;
    if (bytes_of(type) < 4 || type == Type::kB128) decoder.unsupported("this type");
    if (opcode == "bfi") {
      decoder.operands(type, {type, type, Type::kU32, Type::kU32});
      in.run = wide ? insert_field<std::uint64_t> : insert_field<std::uint32_t>;
      return true;
    }
    decoder.operands(type, {type, Type::kU32, Type::kU32});
    if (is_signed(type))
      in.run = wide ? extract_field<std::int64_t> : extract_field<std::int32_t>;
    else
      in.run = wide ? extract_field<std::uint64_t> : extract_field<std::uint32_t>;
  } else if (opcode == "bmsk") {
    decoder.take("clamp");
    in.kind = static_cast<std::uint8_t>(whether("wrap"));
    decoder.type();
    decoder.operands(Type::kB32, {Type::kB32, Type::kB32});
    in.run = make_mask;
  } else if (opcode == "szext") {
    decoder.take("clamp");
    in.kind = static_cast<std::uint8_t>(whether("wrap"));
    if (is_signed(decoder.type())) in.kind |= 2U;
    decoder.operands(Type::kB32, {Type::kB32, Type::kB32});
    in.run = extend_from;
  } else if (opcode == "fns") {
    decoder.type();
    decoder.operands(Type::kB32, {Type::kB32, Type::kB32, Type::kB32});
    in.run = find_nth;
  } else if (opcode == "prmt") {
    decoder.type();
    std::uint8_t number = 1;
    for (const char* mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
      if (decoder.take(mode)) in.kind = number;
      ++number;
    }
    decoder.operands(Type::kB32, {Type::kB32, Type::kB32, Type::kB32});
    in.run = permute_bytes;
  } else if (opcode == "dp4a" || opcode == "dp2a") {
    in.extra = 4;
    if (opcode == "dp2a") in.extra = decoder.take("hi") ? 3 : (decoder.take("lo"), 2);
    const bool first = is_signed(decoder.type());
    const bool second = is_signed(decoder.type());
    in.kind = static_cast<std::uint8_t>((first ? 1 : 0) | (second ? 2 : 0));
    decoder.operands(Type::kB32, {Type::kB32, Type::kB32, Type::kB32});
    in.run = dot_product;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool decode_bits(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  if (opcode == "and") {
    decode_logic<Bits::kAnd>(decoder);
  } else if (opcode == "or") {
    decode_logic<Bits::kOr>(decoder);
  } else if (opcode == "xor") {
    decode_logic<Bits::kXor>(decoder);
  } else if (opcode == "not") {
    decode_logic<Bits::kNot>(decoder);
  } else if (opcode == "cnot") {
    decode_logic<Bits::kCnot>(decoder);
  } else if (opcode == "lop3") {
    decoder.type();
    decoder.expect_operands(5, 5);
    in.a = decoder.source(decoder.operand(1), Type::kB32);
    in.b = decoder.source(decoder.operand(2), Type::kB32);
    in.c = decoder.source(decoder.operand(3), Type::kB32);
    in.d = decoder.destination(decoder.operand(0), Type::kB32);
    if (decoder.operand(4).kind != Operand::Kind::kInteger) decoder.refuse("the table must be a number");
    in.extra = static_cast<std::uint32_t>(decoder.operand(4).value);
    in.run = any_logic;
  } else if (opcode == "shl" || opcode == "shr") {
    const Type type = decoder.type();
    decoder.operands(type, {type, Type::kU32});
    in.run = opcode == "shl" ? shift_handler<true>(type) : shift_handler<false>(type);
  } else if (opcode == "shf") {
    in.kind = decoder.take("r") ? 1 : (decoder.take("l"), 0);
    if (decoder.take("wrap"))
      in.kind |= 2U;
    else
      decoder.take("clamp");
    decoder.type();
    decoder.operands(Type::kB32, {Type::kB32, Type::kB32, Type::kU32});
    in.run = funnel_shift;
  } else if (opcode == "popc" || opcode == "clz" || opcode == "brev") {
    const Type type = decoder.type();
    const bool wide = bytes_of(type) == 8;
    if (!wide && bytes_of(type) != 4) decoder.unsupported("this type");
    decoder.operands(opcode == "brev" ? type : Type::kU32, {type});
    if (opcode == "popc")
      in.run = wide ? counted<Count::kPopc, std::uint64_t> : counted<Count::kPopc, std::uint32_t>;
    else if (opcode == "clz")
      in.run = wide ? counted<Count::kClz, std::uint64_t> : counted<Count::kClz, std::uint32_t>;
    else
      in.run = wide ? counted<Count::kBrev, std::uint64_t> : counted<Count::kBrev, std::uint32_t>;
  } else if (opcode == "bfind") {
    in.kind = decoder.take("shiftamt") ? 1 : 0;
    const Type type = decoder.type();
    decoder.operands(Type::kU32, {type});
    const bool wide = bytes_of(type) == 8;
    if (!wide && bytes_of(type) != 4) decoder.unsupported("this type");
    if (is_signed(type))
      in.run = wide ? find_highest<std::int64_t> : find_highest<std::int32_t>;
    else
      in.run = wide ? find_highest<std::uint64_t> : find_highest<std::uint32_t>;
  } else {
    return decode_fields(decoder);
  }
  if (in.run == nullptr) decoder.unsupported("this type");
  return true;
}

}  // namespace meshbed::sim::ptx
