// Comparison and selection: setp, set, selp, slct. PTX ISA 9.7.6.
#include <array>
#include <type_traits>
#include <utility>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/half.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Relation : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
constexpr std::size_t kOrderedRelations = 6, kAllRelations = 14;

template <Relation kRelation, typename T>
inline bool holds(T a, T b) {
  const bool unordered = std::is_floating_point_v<T> && (a != a || b != b);  // of integers none ever is
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
template <Relation kRelation, bool kBrain, bool kFlush>
std::uint32_t related_halves(const Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto* a = lanes_at<std::uint16_t>(warp, in.a);
  const auto* b = lanes_at<std::uint16_t>(warp, in.b);
  std::uint32_t found = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    const auto value = [](std::uint16_t bits) {
      if (kFlush && (bits & 0x7c00U) == 0) bits &= 0x8000U;
      return kBrain ? float_of_brain(bits) : float_of_half(bits);
    };
    const float left = value(a[lane]), right = value(b[lane]);
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

/// What compares by a relation: numbers of type T, or halves. Integers have the first six relations only.
template <typename T, bool kFlush = false>
struct Numbers {
  static constexpr std::size_t kRelations = std::is_floating_point_v<T> ? kAllRelations : kOrderedRelations;
  template <Relation kRelation>
  static constexpr Related kCompare = related<T, kRelation, kFlush>;
};
template <bool kBrain, bool kFlush = false>
struct Halves {
  static constexpr std::size_t kRelations = kAllRelations;
  template <Relation kRelation>
  static constexpr Related kCompare = related_halves<kRelation, kBrain, kFlush>;
};

template <typename Of, std::size_t... kAt>
constexpr std::array<Handlers, sizeof...(kAt)> handlers_of(std::index_sequence<kAt...>) {
  return {{{set_predicate<Of::template kCompare<static_cast<Relation>(kAt)>>,
            set_word<Of::template kCompare<static_cast<Relation>(kAt)>>}...}};
}
/// None where the type has no such relation.
template <typename Of>
Handlers handlers_of(Relation relation) {
  static constexpr auto kAll = handlers_of<Of>(std::make_index_sequence<Of::kRelations>{});
  const auto at = static_cast<std::size_t>(relation);
  return at < kAll.size() ? kAll[at] : Handlers{};
}

Handlers handlers_for(Type type, Relation relation, bool flush) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return handlers_of<Numbers<std::uint16_t>>(relation);
    case Type::kS16:
      return handlers_of<Numbers<std::int16_t>>(relation);
    case Type::kB32:
    case Type::kU32:
      return handlers_of<Numbers<std::uint32_t>>(relation);
    case Type::kS32:
      return handlers_of<Numbers<std::int32_t>>(relation);
    case Type::kB64:
    case Type::kU64:
      return handlers_of<Numbers<std::uint64_t>>(relation);
    case Type::kS64:
      return handlers_of<Numbers<std::int64_t>>(relation);
    case Type::kF32:
      return flush ? handlers_of<Numbers<float, true>>(relation) : handlers_of<Numbers<float>>(relation);
    case Type::kF64:
      return handlers_of<Numbers<double>>(relation);
    case Type::kF16:
      return flush ? handlers_of<Halves<false, true>>(relation) : handlers_of<Halves<false>>(relation);
    case Type::kBf16:
      return handlers_of<Halves<true>>(relation);
    default:
      return {};
  }
}

/// Four lanes of a mask as four words of ones or zeros, so that a choice is arithmetic on vectors.
constexpr std::array<std::array<std::uint32_t, 4>, 16> kFourLanes = [] {
  std::array<std::array<std::uint32_t, 4>, 16> all{};
  for (std::uint32_t mask = 0; mask < 16; ++mask) {
    for (std::uint32_t lane = 0; lane < 4; ++lane) all[mask][lane] = (mask >> lane & 1U) != 0 ? ~0U : 0U;
  }
  return all;
}();

template <typename T>
void select(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  const auto* b = lanes_at<T>(warp, in.b);
  const std::uint32_t c = mask_at(warp, in.c) ^ ((in.flags & kFlagNegateC) != 0 ? kAllLanes : 0);
  if constexpr (sizeof(T) == 4) {
    if ((lanes | warp.idle) == kAllLanes) {
      for (std::uint32_t lane = 0; lane < kLanes; lane += 4) {
        const auto& chosen = kFourLanes[c >> lane & 15U];
        std::uint32_t made[4];
        for (std::uint32_t at = 0; at < 4; ++at) made[at] = b[lane + at] ^ ((a[lane + at] ^ b[lane + at]) & chosen[at]);
        __builtin_memcpy(d + lane, made, sizeof made);
      }
      return;
    }
  }
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = (c >> lane & 1U) != 0 ? a[lane] : b[lane]; });
}

/// slct: a where c >= 0. kind 1: c is a float; 2: and subnormal ones are zeros.
void select_by_sign(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  each_active(lanes, [&](std::uint32_t lane) {
    const float number = lanes_at<float>(warp, in.c)[lane];
    const bool first = in.kind == 0   ? lanes_at<std::int32_t>(warp, in.c)[lane] >= 0
                       : in.kind == 1 ? number >= 0.0F
                                      : flushed(number) >= 0.0F;
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
    const bool flush = decoder.take("ftz");
    const Type type = decoder.type();
    const Type selector = decoder.type();
    decoder.expect_operands(4, 4);
    if (bytes_of(type) < 2 || bytes_of(type) > 8) decoder.unsupported("this type");
    if (selector != Type::kS32 && selector != Type::kF32) decoder.unsupported("this selector");
    in.a = decoder.source(decoder.operand(1), type);
    in.b = decoder.source(decoder.operand(2), type);
    in.c = decoder.source(decoder.operand(3), selector);
    in.kind = selector != Type::kF32 ? 0 : flush ? 2 : 1;
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
