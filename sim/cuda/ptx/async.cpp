// Asynchronous copies and mbarriers: cp.async, cp.async.bulk, mbarrier. PTX ISA 9.7.9.25 and 9.7.13.15.
//
// A copy is done where it is issued: that is one of the orders that the ISA allows, so commit and wait have nothing to
// do. An mbarrier is a word of shared memory: bits 0 to 19 arrivals still missing, 20 to 39 those of each phase, 40 to
// 62 bytes still expected (with their sign), 63 the phase's parity.
#include <algorithm>
#include <cstring>

#include "sim/cuda/ptx/access.h"
#include "sim/cuda/ptx/cluster/cluster.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/vector/single_access.h"

namespace meshbed::sim::ptx {

namespace {

constexpr std::uint32_t kCountMask = 0xfffffU;

struct BarrierWord {
  std::uint32_t missing = 0, expected = 0;
  std::int64_t bytes = 0;
  bool parity = false;

  static BarrierWord of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word) & kCountMask, static_cast<std::uint32_t>(word >> 20U) & kCountMask,
            static_cast<std::int64_t>(word << 1U) >> 41, word >> 63U != 0};
  }
  std::uint64_t word() const {
    return std::uint64_t{missing & kCountMask} | std::uint64_t{expected & kCountMask} << 20U |
           (static_cast<std::uint64_t>(bytes) & 0x7fffffU) << 40U | std::uint64_t{parity ? 1U : 0U} << 63U;
  }
  void settle() {
    if (missing != 0 || bytes != 0) return;
    parity = !parity;
    missing = expected;
  }
};

/// An address operand, kept in the function's vectors: place, width, kind, space and offset.
std::uint32_t keep_address(Decoder& decoder, const Operand& from, Space space) {
  decoder.address(from, space);
  const Instruction& in = decoder.in;
  return decoder.vector_places({in.a, in.a_bytes, in.kind, in.space, static_cast<std::uint32_t>(in.immediate),
                                static_cast<std::uint32_t>(static_cast<std::uint64_t>(in.immediate) >> 32U)});
}

struct Addresses {
  std::uint64_t at[kLanes];
  Space space;
};

Addresses kept_addresses(const Warp& warp, const Instruction& in, std::uint32_t index) {
  const auto& kept = warp.frame->function->vectors[index];
  Instruction one = in;
  one.a = kept[0];
  one.a_bytes = static_cast<std::uint8_t>(kept[1]);
  one.kind = static_cast<std::uint8_t>(kept[2]);
  one.immediate = static_cast<std::int64_t>(std::uint64_t{kept[5]} << 32U | kept[4]);
  Addresses found{};
  found.space = static_cast<Space>(kept[3]);
  lane_addresses(warp, one, found.at);
  return found;
}

/// The mbarrier at a lane's address; false: a fault.
template <typename Change>
bool change_barrier(Warp& warp, const Instruction& in, std::uint32_t lane, Space space, std::uint64_t address,
                    Change change) {
  if ((address & 7U) != 0) {
    fail(warp, in, lane, Fault::Kind::kMisaligned, "an mbarrier lies at a multiple of 8");
    return false;
  }
  std::byte* at = resolve_one(warp, in, lane, space, address, 8, true);
  if (at == nullptr) return false;
  std::uint64_t word = 0;
  std::memcpy(&word, at, 8);
  BarrierWord barrier = BarrierWord::of(word);
  change(barrier);
  const std::uint64_t made = barrier.word();
  if (made != word) ++warp.grid->changes;
  std::memcpy(at, &made, 8);
  return true;
}

/// a: the source's address, b: the destination's (both kept), c: size in `count`, e: bytes of the source or nowhere.
void copy_async(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Addresses to = kept_addresses(warp, in, in.b);
  const Addresses from = kept_addresses(warp, in, in.a);
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t size = in.count;
    std::uint32_t given = size;
    if (in.e != kNowhere) given = std::min(size, lanes_at<std::uint32_t>(warp, in.e)[lane]);
    if (in.c != kNowhere && (mask_at(warp, in.c) >> lane & 1U) != 0) given = 0;  // ignore-src
    if (((to.at[lane] | from.at[lane]) & (size - 1)) != 0) {
      fail(warp, in, lane, Fault::Kind::kMisaligned,
           "cp.async of " + std::to_string(size) + " bytes to or from another multiple");
      return;
    }
    std::byte* target = resolve_one(warp, in, lane, to.space, to.at[lane], size, true);
    if (target == nullptr) return;
    const std::byte* source =
        given == 0 ? nullptr : resolve_one(warp, in, lane, from.space, from.at[lane], given, false);
    if (given != 0 && source == nullptr) return;
    alignas(16) std::byte staged[16] = {};
    if (given == size) {
      copy_once(staged, source, size);
    } else if (given != 0) {
      std::memcpy(staged, source, given);
    }
    copy_once(target, staged, size);
    warp.grid->counts.global_bytes_read += given;
    warp.grid->counts.shared_bytes += size;
  }
  ++warp.grid->changes;
}

/// a and b as above, c: the size's place, e: the mbarrier's address kept, or nowhere; d: the place of a mask of ranks,
/// each of which has a copy and an mbarrier at the same offsets, or nowhere.
void copy_bulk(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Addresses to = kept_addresses(warp, in, in.b);
  const Addresses from = kept_addresses(warp, in, in.a);
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t size = lanes_at<std::uint32_t>(warp, in.c)[lane];
    if (((to.at[lane] | from.at[lane] | size) & 15U) != 0) {
      fail(warp, in, lane, Fault::Kind::kMisaligned,
           "cp.async.bulk takes addresses and sizes that are multiples of 16");
      return;
    }
    const std::byte* source = resolve_one(warp, in, lane, from.space, from.at[lane], size, false);
    if (source == nullptr) return;
    Counts& counts = warp.grid->counts;
    const auto put = [&](std::uint64_t rank_bits) {
      const std::uint64_t kept = rank_bits != 0 ? ~kRankMask : ~std::uint64_t{0};
      std::byte* target = resolve_one(warp, in, lane, to.space, (to.at[lane] & kept) | rank_bits, size, true);
      if (target == nullptr) return false;
      std::memmove(target, source, size);
      counts.shared_bytes += size;
      if (in.e == kNowhere) return true;
      const Addresses barrier = kept_addresses(warp, in, in.e);
      return change_barrier(warp, in, lane, barrier.space, (barrier.at[lane] & kept) | rank_bits,
                            [&](BarrierWord& word) {
                              word.bytes -= size;
                              word.settle();
                            });
    };
    if (to.space == Space::kShared)
      counts.global_bytes_read += size;
    else
      counts.global_bytes_written += size;
    if (in.d == kNowhere) {
      if (!put(0)) return;
      continue;
    }
    for (std::uint32_t ranks = lanes_at<std::uint16_t>(warp, in.d)[lane]; ranks != 0; ranks &= ranks - 1) {
      if (!put(std::uint64_t{static_cast<std::uint32_t>(std::countr_zero(ranks)) + 1} << kRankShift)) return;
    }
  }
  ++warp.grid->changes;
}

enum class Operation : std::uint8_t { kInit, kInval, kArrive, kArriveExpect, kDrop, kExpect, kComplete, kPending };

/// e: the address kept; b: the count's or bytes' place, or nowhere; d: the state's, or nowhere; extra: which.
void barrier_word(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Addresses where = kept_addresses(warp, in, in.e);
  const auto operation = static_cast<Operation>(in.extra);
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t given = in.b == kNowhere ? 1 : lanes_at<std::uint32_t>(warp, in.b)[lane];
    bool under = false;
    std::uint64_t state = 0;
    const auto arrive = [&](BarrierWord& word, std::uint32_t count) {
      under = count > word.missing;
      word.missing -= std::min(count, word.missing);
    };
    const bool good = change_barrier(warp, in, lane, where.space, where.at[lane], [&](BarrierWord& word) {
      state = word.word();
      switch (operation) {
        case Operation::kInit:
          word = {given, given, 0, false};
          break;
        case Operation::kInval:
          word = {};
          break;
        case Operation::kArrive:
          arrive(word, given);
          word.settle();
          break;
        case Operation::kArriveExpect:
          word.bytes += given;
          arrive(word, 1);
          word.settle();
          break;
        case Operation::kDrop:
          word.expected -= std::min(given, word.expected);
          arrive(word, given);
          word.settle();
          break;
        case Operation::kExpect:
          word.bytes += given;
          break;
        case Operation::kComplete:
          word.bytes -= given;
          word.settle();
          break;
        case Operation::kPending:
          break;
      }
    });
    if (!good) return;
    if (under) {
      fail(warp, in, lane, Fault::Kind::kBarrier, "more arrivals at an mbarrier than its count");
      return;
    }
    if (in.d != kNowhere) lanes_at<std::uint64_t>(warp, in.d)[lane] = state;
  }
}

/// test_wait and try_wait. d: a predicate; b: the state or, with kFlagParity, the parity; e: the address kept.
void test_barrier(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Addresses where = kept_addresses(warp, in, in.e);
  std::uint32_t done = 0;
  std::uint64_t places = 0, seen = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::byte* at = resolve_one(warp, in, lane, where.space, where.at[lane], 8, false);
    if (at == nullptr) return;
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    const bool parity = (in.flags & kFlagParity) != 0 ? (lanes_at<std::uint32_t>(warp, in.b)[lane] & 1U) != 0
                                                      : lanes_at<std::uint64_t>(warp, in.b)[lane] >> 63U != 0;
    if (BarrierWord::of(word).parity != parity) done |= 1U << lane;
    places = poll_hash(places, where.at[lane]);
    seen = poll_hash(seen, word);
  }
  set_mask(warp, in.d, lanes, done);
  note_poll(warp, in, lanes, places, seen);
}

void pending_count(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  each_active(lanes, [&](std::uint32_t lane) {
    lanes_at<std::uint32_t>(warp, in.d)[lane] = BarrierWord::of(lanes_at<std::uint64_t>(warp, in.a)[lane]).missing;
  });
}

Space take_barrier_space(Decoder& decoder) {
  for (const char* name : {"shared", "shared::cta", "shared::cluster"}) {
    if (decoder.take(name)) return Space::kShared;
  }
  return Space::kGeneric;
}

void decode_mbarrier(Decoder& decoder) {
  Instruction& in = decoder.in;
  for (const char* word : {"relaxed", "acquire", "release", "cta", "cluster"}) decoder.take(word);
  const Space space = take_barrier_space(decoder);
  decoder.take("b64");
  const bool waits = decoder.take("test_wait") || decoder.take("try_wait");
  if (waits) {
    const bool parity = decoder.take("parity");
    decoder.expect_operands(3, 4);
    const std::uint32_t where = keep_address(decoder, decoder.operand(1), space);
    const std::uint32_t b = decoder.source(decoder.operand(2), parity ? Type::kB32 : Type::kB64);
    in.e = where;
    in.b = b;
    in.d = decoder.predicate_destination(decoder.operand(0));
    if (parity) in.flags |= kFlagParity;
    in.run = test_barrier;
    return;
  }
  if (decoder.take("pending_count")) {
    decoder.expect_operands(2, 2);
    in.a = decoder.source(decoder.operand(1), Type::kB64);
    in.d = decoder.destination(decoder.operand(0), Type::kB32);
    in.run = pending_count;
    return;
  }
  Operation operation{};
  if (decoder.take("init"))
    operation = Operation::kInit;
  else if (decoder.take("inval"))
    operation = Operation::kInval;
  else if (decoder.take("arrive"))
    operation = decoder.take("expect_tx") ? Operation::kArriveExpect : Operation::kArrive;
  else if (decoder.take("arrive_drop"))
    operation = Operation::kDrop;
  else if (decoder.take("expect_tx"))
    operation = Operation::kExpect;
  else if (decoder.take("complete_tx"))
    operation = Operation::kComplete;
  else
    decoder.unsupported("this form");
  decoder.take("noComplete");
  std::size_t at = 0;
  std::uint32_t state = kNowhere;
  if (decoder.operand(0).kind != Operand::Kind::kAddress) {
    if (decoder.operand(0).kind != Operand::Kind::kSink) state = decoder.destination(decoder.operand(0), Type::kB64);
    at = 1;
  }
  const std::uint32_t where = keep_address(decoder, decoder.operand(at), space);
  if (at + 1 < decoder.operand_count()) in.b = decoder.source(decoder.operand(at + 1), Type::kB32);
  in.d = state;
  in.e = where;
  in.extra = static_cast<std::uint32_t>(operation);
  in.run = barrier_word;
}

void decode_bulk(Decoder& decoder) {
  Instruction& in = decoder.in;
  if (decoder.take("commit_group") || decoder.take("wait_group") || decoder.take("prefetch")) {
    for (const std::string_view modifier : decoder.statement->modifiers) decoder.take(modifier);
    in.run = no_effect;
    return;
  }
  if (decoder.has("tensor") || decoder.has("cp_mask")) {
    decoder.unsupported("this form");
  }
  // The destination's space stands first.
  Space spaces[2] = {Space::kGeneric, Space::kGeneric};
  std::size_t count = 0;
  for (const std::string_view modifier : decoder.statement->modifiers) {
    const bool global = modifier == "global";
    if ((!global && modifier.substr(0, 6) != "shared") || count == 2 || !decoder.take(modifier)) continue;
    spaces[count++] = global ? Space::kGlobal : Space::kShared;
  }
  const bool barrier = decoder.take("mbarrier::complete_tx::bytes");
  if (!barrier) decoder.take("bulk_group");
  const bool multicast = decoder.take("multicast::cluster");
  decoder.skip_modifiers();
  const std::size_t least = (barrier ? 4U : 3U) + (multicast ? 1U : 0U);
  decoder.expect_operands(least, least + 1);
  if (multicast) in.d = decoder.source(decoder.operand(4), Type::kB16);
  const std::uint32_t to = keep_address(decoder, decoder.operand(0), spaces[0]);
  const std::uint32_t from = keep_address(decoder, decoder.operand(1), spaces[1]);
  const std::uint32_t word = barrier ? keep_address(decoder, decoder.operand(3), Space::kShared) : kNowhere;
  in.c = decoder.source(decoder.operand(2), Type::kB32);
  in.a = from;
  in.b = to;
  in.e = word;
  in.run = copy_bulk;
}

}  // namespace

bool decode_async(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  if (opcode == "mbarrier") {
    decode_mbarrier(decoder);
    return true;
  }
  if (opcode != "cp") return false;
  if (!decoder.take("async")) decoder.unsupported("this form");
  if (decoder.take("bulk")) {
    decode_bulk(decoder);
    return true;
  }
  if (decoder.take("commit_group") || decoder.take("wait_group") || decoder.take("wait_all")) {
    in.run = no_effect;
    return true;
  }
  if (decoder.take("mbarrier")) {
    decoder.take("arrive");
    decoder.take("b64");
    const bool counts = decoder.take("noinc");
    const Space space = take_barrier_space(decoder);
    decoder.expect_operands(1, 1);
    const std::uint32_t where = keep_address(decoder, decoder.operand(0), space);
    in.e = where;
    // Without .noinc the arrival is first added to those that are missing: nothing is left to do.
    in.extra = static_cast<std::uint32_t>(Operation::kArrive);
    in.run = counts ? barrier_word : no_effect;
    return true;
  }
  decoder.skip_modifiers();
  take_barrier_space(decoder);
  decoder.take("global");
  decoder.expect_operands(3, 5);
  if (decoder.operand(2).kind != Operand::Kind::kInteger) decoder.refuse("the size must be a number");
  const std::int64_t size = decoder.operand(2).value;
  if (size != 4 && size != 8 && size != 16) decoder.refuse("the size is 4, 8 or 16");
  const std::uint32_t to = keep_address(decoder, decoder.operand(0), Space::kShared);
  const std::uint32_t from = keep_address(decoder, decoder.operand(1), Space::kGlobal);
  if (decoder.operand_count() > 3) {
    const Operand& more = decoder.operand(3);
    bool negated = false;
    if (decoder.is_register(more) && decoder.register_type(more) == Type::kPred)
      in.c = decoder.predicate_source(more, negated);
    else if (!decoder.is_register(more) || bytes_of(decoder.register_type(more)) == 4)
      in.e = decoder.source(more, Type::kB32);
    if (negated) decoder.unsupported("a negated predicate");
  }
  in.count = static_cast<std::uint8_t>(size);
  in.a = from;
  in.b = to;
  in.run = copy_async;
  return true;
}

}  // namespace meshbed::sim::ptx
