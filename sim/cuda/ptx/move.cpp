// Moves: mov (with packing), cvta, isspacep, special registers. PTX ISA 9.7.9 and 10.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/cuda/ptx/cluster/cluster.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

template <typename T>
void move(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<T>(warp, in.d);
  const auto* a = lanes_at<T>(warp, in.a);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = a[lane]; });
}

void move_predicate(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  set_mask(warp, in.d, lanes, mask_at(warp, in.a) ^ (in.kind != 0 ? kAllLanes : 0));
}

/// {a, b} to one register: `extra` names the places, a_bytes each.
void pack(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto& places = warp.frame->function->vectors[in.extra];
  std::byte* d = place_at(warp, in.d);
  each_active(lanes, [&](std::uint32_t lane) {
    std::byte whole[16] = {};
    for (std::size_t at = 0; at < places.size(); ++at) {
      std::memcpy(whole + at * in.a_bytes, place_at(warp, places[at]) + std::size_t{lane} * in.a_bytes, in.a_bytes);
    }
    std::memcpy(d + std::size_t{lane} * in.d_bytes, whole, in.d_bytes);
  });
}

void unpack(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto& places = warp.frame->function->vectors[in.extra];
  const std::byte* a = place_at(warp, in.a);
  each_active(lanes, [&](std::uint32_t lane) {
    std::byte whole[16];
    std::memcpy(whole, a + std::size_t{lane} * in.a_bytes, in.a_bytes);
    for (std::size_t at = 0; at < places.size(); ++at) {
      std::memcpy(place_at(warp, places[at]) + std::size_t{lane} * in.d_bytes, whole + at * in.d_bytes, in.d_bytes);
    }
  });
}

std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::kShared:
      return kSharedWindow;
    case Space::kLocal:
      return kLocalWindow;
    case Space::kParam:
      return kParamWindow;
    default:
      return 0;
  }
}

/// immediate: the window; kind 1: to the space, else from it.
void convert_address(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint64_t>(warp, in.d);
  const auto* a = lanes_at<std::uint64_t>(warp, in.a);
  const auto window = static_cast<std::uint64_t>(in.kind == 1 ? -in.immediate : in.immediate);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = a[lane] + window; });
}

/// %is_explicit_cluster, the one special register that is a predicate.
void read_special_predicate(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  set_mask(warp, in.d, lanes, warp.grid->request.is_explicit_cluster ? kAllLanes : 0);
}

/// immediate: the window; kind 1: of shared memory, the block's own alone.
void is_in_space(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  std::uint32_t found = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint64_t address = read_lane(place_at(warp, in.a), in.a_bytes, lane);
    const std::uint64_t window = address >> kWindowShift << kWindowShift;
    const std::uint64_t rank = (address & kRankMask) >> kRankShift;
    if (in.kind == 1 && rank != 0 && rank != rank_in_cluster(*warp.block) + 1) return;
    const bool windowed = window == kSharedWindow || window == kLocalWindow || window == kParamWindow;
    const auto wanted = static_cast<std::uint64_t>(in.immediate);
    if (wanted == 0 ? !windowed : window == wanted) found |= 1U << lane;
  });
  set_mask(warp, in.d, lanes, found);
}

/// The address of a variable of the frame's local memory, in the local space's own numbers.
void local_address(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  each_active(lanes, [&](std::uint32_t lane) {
    write_lane(place_at(warp, in.d), in.d_bytes, lane,
               warp.lane_frame[lane]->local_base + static_cast<std::uint64_t>(in.immediate));
  });
}

/// kind: which; extra: x, y, z, w.
void read_special(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const Grid& grid = *warp.grid;
  const Block& block = *warp.block;
  const std::uint32_t axis = in.extra;
  const auto& threads = grid.request.block;
  std::uint64_t same = 0;
  const auto special = static_cast<Special>(in.kind);
  std::byte* d = place_at(warp, in.d);
  switch (special) {
    case Special::kTid: {
      // Counted up from the first lane's: a division a lane is the dearest thing in many a kernel.
      const std::uint32_t first = warp.index * kLanes;
      std::array<std::uint32_t, 4> at{first % threads[0], first / threads[0] % threads[1],
                                      first / threads[0] / threads[1], 0};
      std::uint32_t values[kLanes];
      for (std::uint32_t& value : values) {
        value = at[std::min(axis, 3U)];
        if (++at[0] < threads[0]) continue;
        at[0] = 0;
        if (++at[1] < threads[1]) continue;
        at[1] = 0;
        ++at[2];
      }
      each_of(lanes, [&](std::uint32_t lane) { write_lane(d, in.d_bytes, lane, values[lane]); });
      return;
    }
    case Special::kLane:
      each_active(lanes, [&](std::uint32_t lane) { write_lane(d, in.d_bytes, lane, lane); });
      return;
    case Special::kMaskEq:
    case Special::kMaskLe:
    case Special::kMaskLt:
    case Special::kMaskGe:
    case Special::kMaskGt:
      each_active(lanes, [&](std::uint32_t lane) {
        const std::uint32_t equal = 1U << lane;
        const std::uint32_t less = equal - 1;
        const std::uint32_t value = special == Special::kMaskEq   ? equal
                                    : special == Special::kMaskLe ? less | equal
                                    : special == Special::kMaskLt ? less
                                    : special == Special::kMaskGe ? ~less
                                                                  : ~(less | equal);
        write_lane(d, in.d_bytes, lane, value);
      });
      return;
    case Special::kNtid:
      same = axis < 3 ? threads[axis] : 0;
      break;
    case Special::kCtaid:
      same = axis < 3 ? block.at[axis] : 0;
      break;
    case Special::kNctaid:
      same = axis < 3 ? grid.request.grid[axis] : 0;
      break;
    case Special::kWarp:
      same = warp.index;
      break;
    case Special::kWarps:
      same = grid.warps;
      break;
    case Special::kSm:
      same = block.slot % std::max(grid.request.sms, 1U);
      break;
    case Special::kSms:
      same = grid.request.sms;
      break;
    case Special::kClusterId:
      same = axis < 3 ? block.at[axis] / grid.request.cluster[axis] : 0;
      break;
    case Special::kClusterCount:
      same = axis < 3 ? grid.request.grid[axis] / grid.request.cluster[axis] : 0;
      break;
    case Special::kClusterCtaid:
      same = axis < 3 ? place_in_cluster(block, axis) : 0;
      break;
    case Special::kClusterNctaid:
      same = axis < 3 ? grid.request.cluster[axis] : 0;
      break;
    case Special::kClusterRank:
      same = rank_in_cluster(block);
      break;
    case Special::kClusterSize:
      same = grid.cluster_blocks;
      break;
    case Special::kExplicitCluster:
      same = grid.request.is_explicit_cluster ? 1 : 0;
      break;
    case Special::kZero:
      break;
    case Special::kOne:
      same = 1;
      break;
    case Special::kClock:
    case Special::kClockHigh:
      // A clock that moves with what the grid does, beside the simulation's own.
      same = (grid.request.clock_ns ? grid.request.clock_ns() : 0) + grid.counts.warp_instructions;
      ++warp.grid->news;
      if (special == Special::kClockHigh) same >>= 32U;
      break;
    case Special::kTimer:
    case Special::kTimerHigh:
      same = grid.request.clock_ns ? grid.request.clock_ns() : grid.counts.warp_instructions;
      note_poll(warp, in, lanes, 0, same);
      ++warp.grid->news;
      if (special == Special::kTimerHigh) same >>= 32U;
      break;
    case Special::kDynamicShared:
      same = grid.request.dynamic_shared_bytes;
      break;
    case Special::kTotalShared:
      same = grid.shared_bytes;
      break;
    case Special::kReservedShared:
      same = kReservedShared;
      break;
    case Special::kReservedEnd:
      same = kReservedShared + kReservedBytes;
      break;
    case Special::kWorkspaceHigh:
      // 0 in an ordinary launch, by which grid_group::sync() knows that it must trap (cooperative_groups.h, CUDA 13.0).
      if (grid.request.cooperative) same = kWorkspaceWindow >> 32U;
      warp.grid->asked_workspace = true;
      break;
    case Special::kWorkspaceLow:
    case Special::kOther:
    case Special::kNone:
      break;
  }
  if (in.d_bytes == 4) {
    auto* words = lanes_at<std::uint32_t>(warp, in.d);
    const auto word = static_cast<std::uint32_t>(same);
    each_lane(warp, lanes, [=](std::uint32_t lane) { words[lane] = word; });
    return;
  }
  each_active(lanes, [&](std::uint32_t lane) { write_lane(d, in.d_bytes, lane, same); });
}

bool decode_packing(Decoder& decoder, Type type) {
  const Operand& to = decoder.operand(0);
  const Operand& from = decoder.operand(1);
  Instruction& in = decoder.in;
  const bool packs = from.kind == Operand::Kind::kVector;
  if (!packs && to.kind != Operand::Kind::kVector) return false;
  const Operand& vector = packs ? from : to;
  const std::size_t count = vector.parts.size();
  const std::uint32_t bytes = bytes_of(type);
  if (count < 2 || count > 8 || bytes % count != 0 || bytes / count < 1)
    decoder.refuse("these parts do not make the whole");
  const std::uint32_t part = bytes / static_cast<std::uint32_t>(count);
  const Type element = part == 1 ? Type::kB8 : part == 2 ? Type::kB16 : part == 4 ? Type::kB32 : Type::kB64;
  if (part == 1) decoder.unsupported("packing of bytes");
  std::vector<std::uint32_t> places;
  for (const Operand& one : vector.parts) {
    places.push_back(packs ? decoder.source(one, element) : decoder.destination(one, element));
  }
  in.extra = decoder.vector_places(places);
  if (packs) {
    in.d = decoder.destination(to, type);
    in.d_bytes = static_cast<std::uint8_t>(bytes);
    in.a_bytes = static_cast<std::uint8_t>(part);
    in.run = pack;
  } else {
    in.a = decoder.source(from, type);
    in.a_bytes = static_cast<std::uint8_t>(bytes);
    in.d_bytes = static_cast<std::uint8_t>(part);
    in.run = unpack;
  }
  return true;
}

Handler move_handler(std::uint32_t bytes) {
  return bytes == 2   ? move<std::uint16_t>
         : bytes == 4 ? move<std::uint32_t>
         : bytes == 8 ? move<std::uint64_t>
                      : move<unsigned __int128>;
}

}  // namespace

void emit_local_address(Decoder& decoder, std::uint32_t offset, std::uint32_t place, std::uint32_t bytes) {
  decoder.in.run = local_address;
  decoder.in.immediate = offset;
  decoder.in.d = place;
  decoder.in.d_bytes = static_cast<std::uint8_t>(bytes);
}

void decode_special(Decoder& decoder, const std::string& name, std::uint32_t place, std::uint32_t bytes) {
  const std::size_t dot = name.find('.');
  const std::string_view base = std::string_view(name).substr(0, dot);
  decoder.in.extra = 0;
  if (dot != std::string::npos) {
    const std::size_t axis = std::string_view("xyzw").find(name[dot + 1]);
    if (axis == std::string_view::npos) decoder.refuse(name + " has no such part");
    decoder.in.extra = static_cast<std::uint32_t>(axis);
  }
  decoder.in.d = place;
  decoder.in.d_bytes = static_cast<std::uint8_t>(bytes);
  const Special special = special_named(base);
  if (special == Special::kOther) decoder.unsupported("register " + name);
  decoder.in.kind = static_cast<std::uint8_t>(special);
  decoder.in.run = read_special;
}

bool decode_move(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  bool negated = false;
  if (opcode == "mov") {
    const Type type = decoder.type();
    decoder.expect_operands(2, 2);
    const Operand& from = decoder.operand(1);
    if (type == Type::kPred && from.kind == Operand::Kind::kSpecial) {
      if (special_named(from.name) != Special::kExplicitCluster) decoder.refuse(from.name + " is not a predicate");
      in.d = decoder.predicate_destination(decoder.operand(0));
      in.run = read_special_predicate;
      return true;
    }
    if (type == Type::kPred) {
      in.a = decoder.predicate_source(from, negated);
      in.kind = negated ? 1 : 0;
      in.d = decoder.predicate_destination(decoder.operand(0));
      in.run = move_predicate;
      return true;
    }
    if (decode_packing(decoder, type)) return true;
    const std::uint32_t bytes = bytes_of(type);
    if (bytes < 2) decoder.unsupported("this type");
    if (from.kind == Operand::Kind::kSpecial) {
      decode_special(decoder, from.name, decoder.destination(decoder.operand(0), type), bytes);
      return true;
    }
    in.a = decoder.source(from, type);
    in.d = decoder.destination(decoder.operand(0), type);
    in.run = move_handler(bytes);
    return true;
  }
  if (opcode == "cvta") {
    in.kind = decoder.take("to") ? 1 : 0;
    Space space{};
    if (!decoder.take_space(space)) decoder.refuse("a space is missing");
    const Type type = decoder.type();
    decoder.expect_operands(2, 2);
    in.a = decoder.source(decoder.operand(1), type);
    in.d = decoder.destination(decoder.operand(0), type);
    if (space == Space::kParam && !decoder.text.entry) space = Space::kLocal;
    in.immediate = static_cast<std::int64_t>(window_of(space));
    if (bytes_of(type) != 8) decoder.unsupported("an address of 32 bits");
    in.run = in.immediate == 0 ? move<std::uint64_t> : convert_address;
    return true;
  }
  if (opcode == "isspacep") {
    Space space{};
    if (!decoder.has("shared::cluster")) in.kind = 1;
    if (!decoder.take_space(space)) decoder.refuse("a space is missing");
    if (space != Space::kShared) in.kind = 0;
    decoder.expect_operands(2, 2);
    in.a_bytes = 8;
    in.a = decoder.source(decoder.operand(1), Type::kB64);
    in.d = decoder.predicate_destination(decoder.operand(0));
    in.immediate = static_cast<std::int64_t>(window_of(space));
    in.run = is_in_space;
    return true;
  }
  return false;
}

}  // namespace meshbed::sim::ptx
