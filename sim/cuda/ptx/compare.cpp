// Comparison and selection: setp, set, selp, slct. PTX ISA 9.7.6.
#include <cmath>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/half.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Relation : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <Relation kRelation, typename T>
inline bool holds(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool unordered = a != a || b != b;
    switch (kRelation) {
      case Relation::kEq:
        return a == b;
      case Relation::kNe:
        return !unordered && a != b;
      case Relation::kLt:
        return a < b;
      case Relation::kLe:
        return a <= b;
      case Relation::kGt:
        return a > b;
      case Relation::kGe:
        return a >= b;
      case Relation::kEqu:
        return unordered || a == b;
      case Relation::kNeu:
        return a != b;
      case Relation::kLtu:
        return !(a >= b);
      case Relation::kLeu:
        return !(a > b);
      case Relation::kGtu:
        return !(a <= b);
      case Relation::kGeu:
        return !(a < b);
      case Relation::kNum:
        return !unordered;
      case Relation::kNan:
        return unordered;
    }
  } else {
    switch (kRelation) {
      case Relation::kEq:
        return a == b;
      case Relation::kNe:
        return a != b;
      case Relation::kLt:
        return a < b;
      case Relation::kLe:
        return a <= b;
      case Relation::kGt:
        return a > b;
      default:
        return a >= b;
    }
  }
  return false;
}

/// The lanes where the relation holds; kFlush: subnormals count as zero.
template <typename T, Relation kRelation, bool kFlush>
std::uint32_t related(const Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  std::uint32_t found = 0;
  const auto one = [&](std::uint32_t lane) {
    if constexpr (kFlush) {
      return holds<kRelation, T>(flushed(T{a[lane]}), flushed(T{b[lane]}));
    } else {
      return holds<kRelation, T>(a[lane], b[lane]);
    }
  };
  if ((lanes | warp.idle) == kAllLanes) {
    // A byte a lane first: that loop becomes vectors, and eight bytes make eight bits by one multiplication.
    alignas(32) std::uint8_t each[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) each[lane] = one(lane) ? 1 : 0;
    for (std::uint32_t group = 0; group < 4; ++group) {
      std::uint64_t bytes = 0;
      __builtin_memcpy(&bytes, each + group * 8, 8);
      found |= static_cast<std::uint32_t>((bytes * 0x0102040810204080ULL) >> 56U) << (group * 8);
    }
    return found;
  }
  each_active(lanes, [&](std::uint32_t lane) { found |= one(lane) ? 1U << lane : 0U; });
  return found;
}

/// Halves are compared as floats: bfloat16 and float16 convert exactly.
template <Relation kRelation, bool kBrain>
std::uint32_t related_halves(const Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto* a = lanes_at<std::uint16_t>(warp, in.a);
  const auto* b = lanes_at<std::uint16_t>(warp, in.b);
  std::uint32_t found = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    const float left = kBrain ? float_of_brain(a[lane]) : float_of_half(a[lane]);
    const float right = kBrain ? float_of_brain(b[lane]) : float_of_half(b[lane]);
    found |= holds<kRelation, float>(left, right) ? 1U << lane : 0U;
  });
  return found;
}

enum class Combine : std::uint8_t { kNone, kAnd, kOr, kXor };

inline std::uint32_t combined(const Warp& warp, const Instruction& in, std::uint32_t first) {
  if (in.c == kNowhere) return first;
  const std::uint32_t c = mask_at(warp, in.c) ^ ((in.flags & kFlagNegateC) != 0 ? kAllLanes : 0);
  switch (static_cast<Combine>(in.extra)) {
    case Combine::kAnd:
      return first & c;
    case Combine::kOr:
      return first | c;
    case Combine::kXor:
      return first ^ c;
    default:
      return first;
  }
}

using Related = std::uint32_t (*)(const Warp&, const Instruction&, std::uint32_t);

template <Related kRelated>
void set_predicate(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const std::uint32_t found = kRelated(warp, in, lanes);
  const std::uint32_t second = in.e == kNowhere ? 0 : combined(warp, in, ~found);
  set_mask(warp, in.d, lanes, combined(warp, in, found));
  if (in.e != kNowhere) set_mask(warp, in.e, lanes, second);
}

/// set: kind 0 writes all ones, 1 writes 1.0f.
template <Related kRelated>
void set_word(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const std::uint32_t found = combined(warp, in, kRelated(warp, in, lanes));
  std::byte* d = place_at(warp, in.d);
  each_active(lanes, [&](std::uint32_t lane) {
    const bool yes = (found >> lane & 1U) != 0;
    write_lane(d, in.d_bytes, lane, !yes ? 0 : in.kind == 1 ? 0x3f800000U : ~std::uint64_t{0});
  });
}

struct Handlers {
  Handler predicate = nullptr, word = nullptr;
};
template <Related kRelated>
constexpr Handlers both() {
  return {set_predicate<kRelated>, set_word<kRelated>};
}

template <typename T, bool kFlush = false>
Handlers relation_handlers(Relation relation) {
  switch (relation) {
    case Relation::kEq:
      return both<related<T, Relation::kEq, kFlush>>();
    case Relation::kNe:
      return both<related<T, Relation::kNe, kFlush>>();
    case Relation::kLt:
      return both<related<T, Relation::kLt, kFlush>>();
    case Relation::kLe:
      return both<related<T, Relation::kLe, kFlush>>();
    case Relation::kGt:
      return both<related<T, Relation::kGt, kFlush>>();
    case Relation::kGe:
      return both<related<T, Relation::kGe, kFlush>>();
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (relation) {
      case Relation::kEqu:
        return both<related<T, Relation::kEqu, kFlush>>();
      case Relation::kNeu:
        return both<related<T, Relation::kNeu, kFlush>>();
      case Relation::kLtu:
        return both<related<T, Relation::kLtu, kFlush>>();
      case Relation::kLeu:
        return both<related<T, Relation::kLeu, kFlush>>();
      case Relation::kGtu:
        return both<related<T, Relation::kGtu, kFlush>>();
      case Relation::kGeu:
        return both<related<T, Relation::kGeu, kFlush>>();
      case Relation::kNum:
        return both<related<T, Relation::kNum, kFlush>>();
      case Relation::kNan:
        return both<related<T, Relation::kNan, kFlush>>();
      default:
        break;
    }
  }
  return {};
}

template <bool kBrain>
Handlers half_handlers(Relation relation) {
  switch (relation) {
    case Relation::kEq:
      return both<related_halves<Relation::kEq, kBrain>>();
    case Relation::kNe:
      return both<related_halves<Relation::kNe, kBrain>>();
    case Relation::kLt:
      return both<related_halves<Relation::kLt, kBrain>>();
    case Relation::kLe:
      return both<related_halves<Relation::kLe, kBrain>>();
    case Relation::kGt:
      return both<related_halves<Relation::kGt, kBrain>>();
    case Relation::kGe:
      return both<related_halves<Relation::kGe, kBrain>>();
    case Relation::kEqu:
      return both<related_halves<Relation::kEqu, kBrain>>();
    case Relation::kNeu:
      return both<related_halves<Relation::kNeu, kBrain>>();
    case Relation::kLtu:
      return both<related_halves<Relation::kLtu, kBrain>>();
    case Relation::kLeu:
      return both<related_halves<Relation::kLeu, kBrain>>();
    case Relation::kGtu:
      return both<related_halves<Relation::kGtu, kBrain>>();
    case Relation::kGeu:
      return both<related_halves<Relation::kGeu, kBrain>>();
    case Relation::kNum:
      return both<related_halves<Relation::kNum, kBrain>>();
    case Relation::kNan:
      return both<related_halves<Relation::kNan, kBrain>>();
  }
  return {};
}

Handlers handlers_for(Type type, Relation relation, bool flush) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return relation_handlers<std::uint16_t>(relation);
    case Type::kS16:
      return relation_handlers<std::int16_t>(relation);
    case Type::kB32:
    case Type::kU32:
      return relation_handlers<std::uint32_t>(relation);
    case Type::kS32:
      return relation_handlers<std::int32_t>(relation);
    case Type::kB64:
    case Type::kU64:
      return relation_handlers<std::uint64_t>(relation);
    case Type::kS64:
      return relation_handlers<std::int64_t>(relation);
    case Type::kF32:
      return flush ? relation_handlers<float, true>(relation) : relation_handlers<float>(relation);
    case Type::kF64:
      return relation_handlers<double>(relation);
    case Type::kF16:
      return half_handlers<false>(relation);
    case Type::kBf16:
      return half_handlers<true>(relation);
    default:
      return {};
  }
}

template <typename T>
void select(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  const std::uint32_t c = mask_at(warp, in.c) ^ ((in.flags & kFlagNegateC) != 0 ? kAllLanes : 0);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = (c >> lane & 1U) != 0 ? a[lane] : b[lane]; });
}

/// slct: a where c >= 0. kind 1: c is a float.
void select_by_sign(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  each_active(lanes, [&](std::uint32_t lane) {
    const bool first =
        in.kind == 1 ? lanes_at<float>(warp, in.c)[lane] >= 0.0F : lanes_at<std::int32_t>(warp, in.c)[lane] >= 0;
    write_lane(place_at(warp, in.d), in.d_bytes, lane,
               read_lane(place_at(warp, first ? in.a : in.b), in.d_bytes, lane));
  });
}

bool take_relation(Decoder& decoder, Type type, Relation& relation) {
  static constexpr std::pair<const char*, Relation> kAll[] = {
      {"eq", Relation::kEq},   {"ne", Relation::kNe},   {"lt", Relation::kLt},   {"le", Relation::kLe},
      {"gt", Relation::kGt},   {"ge", Relation::kGe},   {"equ", Relation::kEqu}, {"neu", Relation::kNeu},
      {"ltu", Relation::kLtu}, {"leu", Relation::kLeu}, {"gtu", Relation::kGtu}, {"geu", Relation::kGeu},
      {"num", Relation::kNum}, {"nan", Relation::kNan}, {"lo", Relation::kLt},   {"ls", Relation::kLe},
      {"hi", Relation::kGt},   {"hs", Relation::kGe}};
  for (const auto& [name, value] : kAll) {
    if (!decoder.take(name)) continue;
    relation = value;
    if (type == Type::kNone) decoder.refuse("a type is missing");
    return true;
  }
  return false;
}

}  // namespace

bool decode_compare(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  bool negated = false;
  if (opcode == "selp") {
    const Type type = decoder.type();
    decoder.expect_operands(4, 4);
    in.a = decoder.source(decoder.operand(1), type);
    in.b = decoder.source(decoder.operand(2), type);
    in.c = decoder.predicate_source(decoder.operand(3), negated);
    if (negated) in.flags |= kFlagNegateC;
    in.d = decoder.destination(decoder.operand(0), type);
    in.run = bytes_of(type) == 2   ? select<std::uint16_t>
             : bytes_of(type) == 4 ? select<std::uint32_t>
                                   : select<std::uint64_t>;
    if (bytes_of(type) < 2 || bytes_of(type) > 8) decoder.unsupported("this type");
    return true;
  }
  if (opcode == "slct") {
    decoder.take("ftz");
    const Type type = decoder.type();
    const Type selector = decoder.type();
    decoder.expect_operands(4, 4);
    if (bytes_of(type) < 2 || bytes_of(type) > 8) decoder.unsupported("this type");
    if (selector != Type::kS32 && selector != Type::kF32) decoder.unsupported("this selector");
    in.a = decoder.source(decoder.operand(1), type);
    in.b = decoder.source(decoder.operand(2), type);
    in.c = decoder.source(decoder.operand(3), selector);
    in.kind = selector == Type::kF32 ? 1 : 0;
    in.d = decoder.destination(decoder.operand(0), type);
    in.d_bytes = static_cast<std::uint8_t>(bytes_of(type));
    in.run = select_by_sign;
    return true;
  }
  if (opcode != "setp" && opcode != "set") return false;
  const bool flush = decoder.take("ftz");
  const Type result = opcode == "set" ? decoder.type() : Type::kPred;
  const Type type = decoder.type();
  Relation relation{};
  if (!take_relation(decoder, type, relation)) decoder.unsupported("this relation");
  for (const auto& [name, value] : {std::pair{"and", Combine::kAnd}, {"or", Combine::kOr}, {"xor", Combine::kXor}}) {
    if (decoder.take(name)) in.extra = static_cast<std::uint32_t>(value);
  }
  decoder.expect_operands(in.extra != 0 ? 4 : 3, in.extra != 0 ? 4 : 3);
  in.a = decoder.source(decoder.operand(1), type);
  in.b = decoder.source(decoder.operand(2), type);
  if (in.extra != 0) {
    in.c = decoder.predicate_source(decoder.operand(3), negated);
    if (negated) in.flags |= kFlagNegateC;
  }
  const Handlers found = handlers_for(type, relation, flush);
  if (found.predicate == nullptr) decoder.unsupported("this type or relation");
  if (opcode == "set") {
    if (result != Type::kF32 && !(is_integer(result) && bytes_of(result) == 4)) decoder.unsupported("this result");
    in.kind = result == Type::kF32 ? 1 : 0;
    in.d = decoder.destination(decoder.operand(0), result);
    in.d_bytes = 4;
    in.run = found.word;
    return true;
  }
  const Operand& to = decoder.operand(0);
  const bool pair = to.kind == Operand::Kind::kPair;
  in.d = decoder.predicate_destination(pair ? to.parts[0] : to);
  if (pair) in.e = decoder.predicate_destination(to.parts[1]);
  in.run = found.predicate;
  return true;
}

}  // namespace meshbed::sim::ptx
