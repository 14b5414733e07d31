// Barriers of a block: bar and barrier, .sync, .arrive and .red. PTX ISA 9.7.13.1.
#include <algorithm>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Reduction : std::uint8_t { kNone, kPopc, kAnd, kOr };
constexpr std::uint8_t kFlagArrives = 0x10;  // does not wait

/// Lanes that count: where all living lanes of a warp are there, the warp counts whole, as hardware counts it.
std::uint32_t arrived_of(const Warp& warp, std::uint32_t lanes) {
  return (lanes & warp.alive) == warp.alive ? kLanes : count_lanes(lanes);
}

/// a: the barrier's number; b: how many threads, or nowhere; c: the predicate of .red; d: its result; kind: Reduction.
void wait_at_barrier(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  ++warp.grid->counts.barriers;
  const auto* number = lanes_at<std::uint32_t>(warp, in.a);
  const std::uint32_t predicate =
      in.c == kNowhere ? 0 : mask_at(warp, in.c) ^ ((in.flags & kFlagNegateC) != 0 ? kAllLanes : 0);
  const bool waits = (in.flags & kFlagArrives) == 0;
  each_active(warp.active, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  each_active(lanes, [&](std::uint32_t lane) {
    if (number[lane] >= 16) {
      fail(warp, in, lane, Fault::Kind::kBarrier, "barrier " + std::to_string(number[lane]) + ": there are 16");
      return;
    }
    Barrier& barrier = warp.block->barriers[number[lane]];
    const std::uint32_t expected = in.b == kNowhere ? 0 : lanes_at<std::uint32_t>(warp, in.b)[lane];
    if (barrier.lanes > 0 && barrier.expected != expected) {
      fail(warp, in, lane, Fault::Kind::kBarrier,
           "barrier " + std::to_string(number[lane]) + " for " + std::to_string(expected) +
               " threads, where others wait for " + std::to_string(barrier.expected) + " (0: all)");
      return;
    }
    barrier.expected = expected;
    warp.block->waited_at |= 1U << number[lane];
    ++barrier.lanes;
    barrier.arrived[warp.index] |= 1U << lane;
    if ((predicate >> lane & 1U) != 0) ++barrier.votes;
    if (!waits) return;
    warp.barrier[lane] = static_cast<std::uint8_t>(number[lane]);
    warp.barrier_at[lane] = &in;
    warp.barrier_waiting |= 1U << lane;
  });
  warp.active = 0;
  warp.event = true;
  settle_barriers(*warp.block);
}

void release(Block& block, std::uint32_t number) {
  Barrier& barrier = block.barriers[number];
  for (const auto& warp : block.warps) {
    each_active(warp->barrier_waiting, [&](std::uint32_t lane) {
      if (warp->barrier[lane] != number) return;
      warp->barrier_waiting &= ~(1U << lane);
      const Instruction& in = *warp->barrier_at[lane];
      const auto reduction = static_cast<Reduction>(in.kind);
      if (reduction == Reduction::kNone) return;
      std::byte* d = warp->base_of(lane, in.d);
      if (reduction == Reduction::kPopc) {
        write_lane(d, 4, lane, barrier.votes);
        return;
      }
      const bool yes = reduction == Reduction::kAnd ? barrier.votes == barrier.lanes : barrier.votes > 0;
      auto* mask = reinterpret_cast<Aliased<std::uint32_t>::type*>(d);
      *mask = (*mask & ~(1U << lane)) | (yes ? 1U << lane : 0U);
    });
  }
  block.waited_at &= ~(1U << number);
  barrier.lanes = barrier.votes = barrier.expected = 0;
  std::fill(barrier.arrived.begin(), barrier.arrived.end(), 0);
  ++block.warps.front()->grid->changes;
}

bool decode_block_barrier(Decoder& decoder) {
  Instruction& in = decoder.in;
  decoder.take("cta");
  decoder.take("aligned");
  const bool sync = decoder.take("sync");
  const bool arrive = !sync && decoder.take("arrive");
  const bool reduce = !sync && !arrive && decoder.take("red");
  if (!sync && !arrive && !reduce) return false;
  std::size_t at = 0;
  if (reduce) {
    const bool popc = decoder.take("popc");
    in.kind = static_cast<std::uint8_t>(popc                  ? Reduction::kPopc
                                        : decoder.take("and") ? Reduction::kAnd
                                        : decoder.take("or")  ? Reduction::kOr
                                                              : Reduction::kNone);
    if (static_cast<Reduction>(in.kind) == Reduction::kNone) decoder.unsupported("this reduction");
    decoder.type();
    in.d =
        popc ? decoder.destination(decoder.operand(0), Type::kU32) : decoder.predicate_destination(decoder.operand(0));
    at = 1;
  }
  if (arrive) in.flags |= kFlagArrives;
  const std::size_t last = decoder.operand_count() - (reduce ? 1 : 0);
  decoder.expect_operands(reduce ? 3 : 1, reduce ? 4 : 2);
  in.a = decoder.source(decoder.operand(at++), Type::kU32);
  if (at < last) in.b = decoder.source(decoder.operand(at++), Type::kU32);
  if (arrive && in.b == kNowhere) decoder.refuse("the number of threads is missing");
  if (reduce) {
    bool negated = false;
    in.c = decoder.predicate_source(decoder.operand(last), negated);
    if (negated) in.flags |= kFlagNegateC;
  }
  in.run = wait_at_barrier;
  return true;
}

}  // namespace

void settle_barriers(Block& block) {
  for (std::uint32_t rest = block.waited_at; rest != 0; rest &= rest - 1) {
    const auto number = static_cast<std::uint32_t>(std::countr_zero(rest));
    const Barrier& barrier = block.barriers[number];
    std::uint32_t count = 0;
    bool all = true;
    for (std::size_t at = 0; at < block.warps.size(); ++at) {
      const std::uint32_t there = barrier.arrived[at];
      if (there != 0) count += arrived_of(*block.warps[at], there);
      if ((block.warps[at]->alive & ~there) != 0) all = false;
    }
    if (barrier.expected == 0 ? all : count >= barrier.expected) release(block, number);
  }
}

bool decode_barrier(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  if (opcode != "bar" && opcode != "barrier") return false;
  if (decoder.has("warp")) return false;  // an exchange of a warp
  if (decoder.has("cluster")) return false;
  if (!decode_block_barrier(decoder)) decoder.unsupported("this form");
  return true;
}

}  // namespace meshbed::sim::ptx
