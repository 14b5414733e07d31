// What the lanes of a warp do with each other: shfl, vote, match, redux, activemask, elect, bar.warp.sync.
// PTX ISA 9.7.9.6, 9.7.13.2 and 9.7.13.9 to 9.7.13.14.
//
// A *.sync names its partners by a mask. Where they come together, one pass does it; else the lanes wait, each at its
// own instruction, until the last of them is there.
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Exchange : std::uint8_t {
  kBarrier,
  kShflIdx,
  kShflUp,
  kShflDown,
  kShflBfly,
  kVoteAll,
  kVoteAny,
  kVoteUni,
  kVoteBallot,
  kMatchAny,
  kMatchAll,
  kReduxAdd,
  kReduxMin,
  kReduxMax,
  kReduxAnd,
  kReduxOr,
  kReduxXor,
  kElect,
};

constexpr std::uint8_t kFlagSignedValue = 0x10;
constexpr std::uint8_t kFlagNegateA = 0x20;

/// The lane's own operands and results, in any frame.
std::uint64_t value_of(const Warp& warp, const Instruction& in, std::uint32_t lane) {
  return read_lane(warp.base_of(lane, in.a), in.a_bytes, lane);
}
std::uint32_t word_of(const Warp& warp, std::uint32_t place, std::uint32_t lane) {
  return static_cast<std::uint32_t>(read_lane(warp.base_of(lane, place), 4, lane));
}
bool vote_of(const Warp& warp, const Instruction& in, std::uint32_t lane) {
  const auto mask = *reinterpret_cast<const Aliased<std::uint32_t>::type*>(warp.base_of(lane, in.a));
  return ((mask >> lane & 1U) != 0) != ((in.flags & kFlagNegateA) != 0);
}
void put(const Warp& warp, const Instruction& in, std::uint32_t lane, std::uint32_t value) {
  write_lane(warp.base_of(lane, in.d), 4, lane, value);
}
void put_predicate(const Warp& warp, std::uint32_t place, std::uint32_t lane, bool value) {
  if (place == kNowhere) return;
  auto* mask = reinterpret_cast<Aliased<std::uint32_t>::type*>(warp.base_of(lane, place));
  *mask = (*mask & ~(1U << lane)) | (value ? 1U << lane : 0U);
}

void shuffle(const Warp& warp, const Instruction& in, std::uint32_t lane, std::uint32_t lanes,
             const std::uint64_t* values) {
  const std::uint32_t b = word_of(warp, in.b, lane);
  const std::uint32_t c = word_of(warp, in.c, lane);
  const std::uint32_t segment = c >> 8U & 0x1fU;
  const std::uint32_t clamp = c & 0x1fU;
  const auto most = static_cast<std::int32_t>((lane & segment) | (clamp & ~segment));
  const auto least = static_cast<std::int32_t>(lane & segment);
  const auto mine = static_cast<std::int32_t>(lane);
  const auto offset = static_cast<std::int32_t>(b & 0x1fU);
  std::int32_t from = mine;
  bool inside = false;
  switch (static_cast<Exchange>(in.kind)) {
    case Exchange::kShflUp:
      from = mine - offset;
      inside = from >= most;
      break;
    case Exchange::kShflDown:
      from = mine + offset;
      inside = from <= most;
      break;
    case Exchange::kShflBfly:
      from = mine ^ offset;
      inside = from <= most;
      break;
    default:
      from = least | (offset & static_cast<std::int32_t>(~segment));
      inside = from <= most;
      break;
  }
  if (!inside) from = mine;
  // A lane that takes no part has nothing to give: its value is unspecified, and here the reader's own.
  const bool there = (lanes >> (static_cast<std::uint32_t>(from) & 31U) & 1U) != 0;
  put(warp, in, lane, static_cast<std::uint32_t>(values[there ? static_cast<std::uint32_t>(from) : lane]));
  put_predicate(warp, in.e, lane, inside);
}

std::uint32_t reduced(const Warp& warp, const Instruction& in, std::uint32_t lanes) {
  std::uint32_t made = 0;
  bool begun = false;
  each_active(lanes, [&](std::uint32_t lane) {
    const auto value = static_cast<std::uint32_t>(value_of(warp, in, lane));
    if (!begun) {
      made = value;
      begun = true;
      return;
    }
    const bool less = (in.flags & kFlagSignedValue) != 0
                          ? static_cast<std::int32_t>(value) < static_cast<std::int32_t>(made)
                          : value < made;
    switch (static_cast<Exchange>(in.kind)) {
      case Exchange::kReduxAdd:
        made += value;
        break;
      case Exchange::kReduxMin:
        made = less ? value : made;
        break;
      case Exchange::kReduxMax:
        made = less ? made : value;
        break;
      case Exchange::kReduxAnd:
        made &= value;
        break;
      case Exchange::kReduxOr:
        made |= value;
        break;
      default:
        made ^= value;
        break;
    }
  });
  return made;
}

/// `instructions[lane]`: what each lane stands at; they are of one kind where the program is right.
void exchange(const Warp& warp, const Instruction* const* instructions, std::uint32_t lanes) {
  const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes));
  const auto kind = static_cast<Exchange>(instructions[first]->kind);
  std::uint64_t values[kLanes] = {};
  std::uint32_t yes = 0;
  std::uint32_t same = 0;
  switch (kind) {
    case Exchange::kBarrier:
      return;
    case Exchange::kShflIdx:
    case Exchange::kShflUp:
    case Exchange::kShflDown:
    case Exchange::kShflBfly:
      each_active(lanes, [&](std::uint32_t lane) { values[lane] = value_of(warp, *instructions[lane], lane); });
      each_active(lanes, [&](std::uint32_t lane) { shuffle(warp, *instructions[lane], lane, lanes, values); });
      return;
    case Exchange::kVoteAll:
    case Exchange::kVoteAny:
    case Exchange::kVoteUni:
    case Exchange::kVoteBallot:
      each_active(lanes,
                  [&](std::uint32_t lane) { yes |= vote_of(warp, *instructions[lane], lane) ? 1U << lane : 0U; });
      each_active(lanes, [&](std::uint32_t lane) {
        const Instruction& in = *instructions[lane];
        if (kind == Exchange::kVoteBallot)
          put(warp, in, lane, yes);
        else if (kind == Exchange::kVoteAll)
          put_predicate(warp, in.d, lane, yes == lanes);
        else if (kind == Exchange::kVoteAny)
          put_predicate(warp, in.d, lane, yes != 0);
        else
          put_predicate(warp, in.d, lane, yes == lanes || yes == 0);
      });
      return;
    case Exchange::kMatchAny:
    case Exchange::kMatchAll:
      each_active(lanes, [&](std::uint32_t lane) { values[lane] = value_of(warp, *instructions[lane], lane); });
      each_active(lanes, [&](std::uint32_t lane) {
        const Instruction& in = *instructions[lane];
        std::uint32_t equal = 0;
        each_active(lanes, [&](std::uint32_t other) { equal |= values[other] == values[lane] ? 1U << other : 0U; });
        if (kind == Exchange::kMatchAll && equal != lanes) equal = 0;
        put(warp, in, lane, equal);
        put_predicate(warp, in.e, lane, equal != 0);
      });
      return;
    case Exchange::kElect:
      each_active(lanes, [&](std::uint32_t lane) {
        const Instruction& in = *instructions[lane];
        put(warp, in, lane, first);
        put_predicate(warp, in.e, lane, lane == first);
      });
      return;
    default:
      same = reduced(warp, *instructions[first], lanes);
      each_active(lanes, [&](std::uint32_t lane) { put(warp, *instructions[lane], lane, same); });
      return;
  }
}

/// extra: 1: without .sync, among the lanes that are here. immediate: the place of the mask.
void exchange_lanes(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Instruction* instructions[kLanes];
  for (const Instruction*& one : instructions) one = &in;
  if (in.extra == 1) {
    exchange(warp, instructions, lanes);
    return;
  }
  const auto* members = lanes_at<std::uint32_t>(warp, static_cast<std::uint32_t>(in.immediate));
  // Those of which no partner is missing.
  std::uint32_t rest = lanes;
  std::uint32_t wait = 0;
  while (rest != 0) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint32_t same = 0;
    each_active(rest, [&](std::uint32_t other) { same |= members[other] == members[lane] ? 1U << other : 0U; });
    rest &= ~same;
    const std::uint32_t needed = members[lane] & warp.alive;
    if ((needed & ~same) == 0)
      exchange(warp, instructions, same);
    else
      wait |= same;
  }
  if (wait == 0) return;
  each_active(warp.active, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  each_active(wait, [&](std::uint32_t lane) {
    warp.barrier_at[lane] = &in;
    warp.exchange_mask[lane] = members[lane];
  });
  warp.warp_waiting |= wait;
  warp.active = 0;
  warp.event = true;
  settle_exchanges(warp);
}

void active_mask(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  each_active(lanes, [&](std::uint32_t lane) { d[lane] = lanes; });
}

void take_members(Decoder& decoder, std::size_t index, bool sync) {
  if (sync)
    decoder.in.immediate = decoder.source(decoder.operand(index), Type::kB32);
  else
    decoder.in.extra = 1;
}

void destination_pair(Decoder& decoder, const Operand& to) {
  const bool pair = to.kind == Operand::Kind::kPair;
  decoder.in.d = decoder.destination(pair ? to.parts[0] : to, Type::kB32);
  if (pair) decoder.in.e = decoder.predicate_destination(to.parts[1]);
}

bool take_kind(Decoder& decoder, std::initializer_list<std::pair<const char*, Exchange>> all) {
  for (const auto& [name, kind] : all) {
    if (!decoder.take(name)) continue;
    decoder.in.kind = static_cast<std::uint8_t>(kind);
    return true;
  }
  return false;
}

}  // namespace

void settle_exchanges(Warp& warp) {
  for (std::uint32_t rest = warp.warp_waiting; rest != 0;) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::uint32_t together = 0;
    each_active(warp.warp_waiting, [&](std::uint32_t other) {
      const bool same = warp.exchange_mask[other] == warp.exchange_mask[lane] &&
                        warp.barrier_at[other]->kind == warp.barrier_at[lane]->kind;
      together |= same ? 1U << other : 0U;
    });
    rest &= ~together;
    if ((warp.exchange_mask[lane] & warp.alive & ~together) != 0) continue;
    exchange(warp, warp.barrier_at.data(), together);
    warp.warp_waiting &= ~together;
  }
}

bool decode_exchange(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  in.a_bytes = 4;
  if (opcode == "shfl") {
    const bool sync = decoder.take("sync");
    decoder.take("b32");
    if (!take_kind(decoder, {{"idx", Exchange::kShflIdx},
                             {"up", Exchange::kShflUp},
                             {"down", Exchange::kShflDown},
                             {"bfly", Exchange::kShflBfly}})) {
      decoder.unsupported("this form");
    }
    decoder.expect_operands(sync ? 5 : 4, sync ? 5 : 4);
    in.a = decoder.source(decoder.operand(1), Type::kB32);
    in.b = decoder.source(decoder.operand(2), Type::kB32);
    in.c = decoder.source(decoder.operand(3), Type::kB32);
    take_members(decoder, 4, sync);
    destination_pair(decoder, decoder.operand(0));
  } else if (opcode == "vote") {
    const bool sync = decoder.take("sync");
    if (!take_kind(decoder, {{"all", Exchange::kVoteAll},
                             {"any", Exchange::kVoteAny},
                             {"uni", Exchange::kVoteUni},
                             {"ballot", Exchange::kVoteBallot}})) {
      decoder.unsupported("this form");
    }
    decoder.type();
    decoder.expect_operands(sync ? 3 : 2, sync ? 3 : 2);
    bool negated = false;
    in.a = decoder.predicate_source(decoder.operand(1), negated);
    if (negated) in.flags |= kFlagNegateA;
    take_members(decoder, 2, sync);
    in.d = in.kind == static_cast<std::uint8_t>(Exchange::kVoteBallot)
               ? decoder.destination(decoder.operand(0), Type::kB32)
               : decoder.predicate_destination(decoder.operand(0));
  } else if (opcode == "match") {
    decoder.take("sync");
    if (!take_kind(decoder, {{"any", Exchange::kMatchAny}, {"all", Exchange::kMatchAll}}))
      decoder.unsupported("this form");
    const Type type = decoder.type();
    decoder.expect_operands(3, 3);
    in.a_bytes = static_cast<std::uint8_t>(bytes_of(type));
    in.a = decoder.source(decoder.operand(1), type);
    take_members(decoder, 2, true);
    destination_pair(decoder, decoder.operand(0));
  } else if (opcode == "redux") {
    decoder.take("sync");
    if (!take_kind(decoder, {{"add", Exchange::kReduxAdd},
                             {"min", Exchange::kReduxMin},
                             {"max", Exchange::kReduxMax},
                             {"and", Exchange::kReduxAnd},
                             {"or", Exchange::kReduxOr},
                             {"xor", Exchange::kReduxXor}})) {
      decoder.unsupported("this form");
    }
    const Type type = decoder.type();
    if (!is_integer(type) || bytes_of(type) != 4) decoder.unsupported("this type");
    if (is_signed(type)) in.flags |= kFlagSignedValue;
    decoder.expect_operands(3, 3);
    in.a = decoder.source(decoder.operand(1), type);
    take_members(decoder, 2, true);
    in.d = decoder.destination(decoder.operand(0), type);
  } else if (opcode == "elect") {
    decoder.take("sync");
    in.kind = static_cast<std::uint8_t>(Exchange::kElect);
    decoder.expect_operands(2, 2);
    take_members(decoder, 1, true);
    const Operand& to = decoder.operand(0);
    if (to.kind != Operand::Kind::kPair) decoder.refuse("d|p is expected");
    destination_pair(decoder, to);
  } else if (opcode == "activemask") {
    decoder.type();
    in.d = decoder.destination(decoder.operand(0), Type::kB32);
    in.run = active_mask;
    return true;
  } else if (opcode == "bar" && decoder.has("warp")) {
    decoder.take("warp");
    decoder.take("sync");
    in.kind = static_cast<std::uint8_t>(Exchange::kBarrier);
    decoder.expect_operands(1, 1);
    take_members(decoder, 0, true);
  } else {
    return false;
  }
  in.run = exchange_lanes;
  return true;
}

}  // namespace meshbed::sim::ptx
