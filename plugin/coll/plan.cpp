#include "plugin/coll/plan.h"

#include <algorithm>

#include "plugin/base/units.h"

namespace meshbed::coll {
namespace {

// Below 64 KiB a message's fixed cost shows; above 1 MiB pipelining gains nothing on any wire that we model.
constexpr std::uint64_t kSliceFloorBytes = 64 * kKiB;
constexpr std::uint64_t kSlicesPerChunk = 8;  // enough that forwarding hides a step's latency behind the next slices
constexpr std::uint64_t kPageBytes = 4096;    // whole packets at every RDMA MTU

std::uint64_t choose_slice_bytes(std::uint64_t chunk_bytes, const PlanRequest& request) {
  const std::uint64_t wanted = (chunk_bytes / kSlicesPerChunk + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uint64_t bytes = std::min(std::max(wanted, kSliceFloorBytes), request.slice_bytes_max);
  const std::uint64_t whole = bytes / request.element_bytes * request.element_bytes;
  return std::max(whole, request.element_bytes);
}

int ring_rank(const PlanRequest& request, int offset) {
  return (request.rank + offset + request.ranks) % request.ranks;
}

std::uint64_t block_of(const PlanRequest& request, std::uint64_t steps_back) {
  const auto ranks = static_cast<std::uint64_t>(request.ranks);
  return (static_cast<std::uint64_t>(request.rank) + 2 * ranks - steps_back % ranks) % ranks;
}

std::uint64_t ring_steps(const PlanRequest& request) {
  const auto ranks = static_cast<std::uint64_t>(request.ranks);
  if (ranks == 1) return 0;
  switch (request.collective) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return ranks - 1;
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return 1;
  }
  return 0;
}

// Where `block`'s data of this round lie, in elements of the whole buffer.
Range chunk_range(const Plan& plan, std::uint64_t block, std::uint64_t round) {
  const PlanRequest& request = plan.request;
  Range chunk{plan.part_begin, plan.part_count};
  if (request.collective == Collective::kAllReduce) {
    chunk = part_of(plan.part_count, static_cast<std::uint64_t>(request.ranks), block);
    chunk.begin += plan.part_begin;
  } else {
    chunk.begin += block * request.count;
  }
  const std::uint64_t skipped = std::min(round * plan.round_count, chunk.count);
  return {chunk.begin + skipped, std::min(plan.round_count, chunk.count - skipped)};
}

void plan_ring(Plan& plan) {
  const PlanRequest& request = plan.request;
  const bool blocks_are_chunks = request.collective != Collective::kAllReduce;
  const std::uint64_t chunk_count = blocks_are_chunks
                                        ? plan.part_count
                                        : part_of(plan.part_count, static_cast<std::uint64_t>(request.ranks), 0).count;
  plan.slice_bytes = choose_slice_bytes(chunk_count * request.element_bytes, request);
  plan.recv_slice_bytes = plan.slice_bytes;
  plan.round_count = std::max<std::uint64_t>(chunk_count, 1);
  if (request.collective == Collective::kReduceScatter) {
    // Partial sums wait in slots (W of them) until they are forwarded, behind the L slices of a round's first step.
    // L < W or the ring can lock: with s_r slices sent by rank r, all slots full everywhere means
    // s_(r-1) - s_r >= W - L > 0 for every r, which no ring can meet. Half leaves room for what arrives meanwhile.
    const auto slices = static_cast<std::uint64_t>(std::max(request.slots / 2, 1));
    plan.round_count = std::min(plan.round_count, slices * plan.slice_bytes / request.element_bytes);
  }
  const std::uint64_t rounds = (chunk_count + plan.round_count - 1) / plan.round_count;
  plan.send_steps = plan.recv_steps = rounds * ring_steps(request);
  if (plan.recv_steps > 0 && request.collective != Collective::kAllGather) {
    plan.slot_bytes = std::min(plan.slice_bytes, plan.round_count * request.element_bytes);
  }
  const std::uint64_t own = static_cast<std::uint64_t>(request.rank) * request.count + plan.part_begin;
  const std::uint64_t part_bytes = plan.part_count * request.element_bytes;
  if (request.collective == Collective::kAllGather) {
    plan.copy = {plan.part_begin * request.element_bytes, own * request.element_bytes, part_bytes};
  } else if (request.ranks == 1) {
    plan.copy = {plan.part_begin * request.element_bytes, plan.part_begin * request.element_bytes, part_bytes};
  }
}

void plan_broadcast(Plan& plan) {
  const PlanRequest& request = plan.request;
  const std::uint64_t part_bytes = plan.part_count * request.element_bytes;
  plan.slice_bytes = plan.recv_slice_bytes = choose_slice_bytes(part_bytes, request);
  const bool moves = request.ranks > 1 && plan.part_count > 0;
  plan.send_steps = moves && ring_rank(request, 1) != request.root ? 1 : 0;
  plan.recv_steps = moves && request.rank != request.root ? 1 : 0;
  if (request.rank == request.root) {
    plan.copy = {plan.part_begin * request.element_bytes, plan.part_begin * request.element_bytes, part_bytes};
  }
}

void plan_send_recv(Plan& plan) {
  const PlanRequest& request = plan.request;
  const Range received = part_of(request.receive_count, static_cast<std::uint64_t>(request.channels),
                                 static_cast<std::uint64_t>(request.channel));
  plan.slice_bytes = choose_slice_bytes(plan.part_count * request.element_bytes, request);
  plan.recv_slice_bytes = choose_slice_bytes(received.count * request.element_bytes, request);
  if (request.to == request.rank) {  // to ourselves: no network
    const std::uint64_t offset_bytes = plan.part_begin * request.element_bytes;
    plan.copy = {offset_bytes, offset_bytes, plan.part_count * request.element_bytes};
    return;
  }
  plan.send_steps = request.to >= 0 && plan.part_count > 0 ? 1 : 0;
  plan.recv_steps = request.from >= 0 && received.count > 0 ? 1 : 0;
  // In place: what arrives must not overwrite what has not been sent. A window of slots takes the first slices, so that
  // the peers' sends (and with them ours) get going whatever waits here.
  if (request.in_place && plan.recv_steps > 0) {
    plan.slot_bytes = std::min(plan.recv_slice_bytes, received.count * request.element_bytes);
  }
}

}  // namespace

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kSendRecv:
      return "send_recv";
  }
  return "unknown";
}

Peers peers_of(const PlanRequest& request) {
  if (request.ranks == 1) return {};
  if (request.collective != Collective::kSendRecv) return {ring_rank(request, 1), ring_rank(request, -1)};
  if (request.to == request.rank) return {};
  return {request.to, request.from};
}

std::uint64_t input_bytes_of(const PlanRequest& request) {
  const bool has_blocks = request.collective == Collective::kReduceScatter;
  return request.count * request.element_bytes * (has_blocks ? static_cast<std::uint64_t>(request.ranks) : 1U);
}

std::uint64_t output_bytes_of(const PlanRequest& request) {
  if (request.collective == Collective::kSendRecv) return request.receive_count * request.element_bytes;
  const bool has_blocks = request.collective == Collective::kAllGather;
  return request.count * request.element_bytes * (has_blocks ? static_cast<std::uint64_t>(request.ranks) : 1U);
}

Plan make_plan(const PlanRequest& request) {
  Plan plan;
  plan.request = request;
  const Peers peers = peers_of(request);
  plan.send_peer = peers.send;
  plan.recv_peer = peers.recv;
  const Range part =
      part_of(request.count, static_cast<std::uint64_t>(request.channels), static_cast<std::uint64_t>(request.channel));
  plan.part_begin = part.begin;
  plan.part_count = part.count;
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      plan_ring(plan);
      break;
    case Collective::kBroadcast:
      plan_broadcast(plan);
      break;
    case Collective::kSendRecv:
      plan_send_recv(plan);
      break;
  }
  return plan;
}

SendStep send_step(const Plan& plan, std::uint64_t index) {
  const PlanRequest& request = plan.request;
  const std::uint64_t element_bytes = request.element_bytes;
  if (request.collective == Collective::kBroadcast || request.collective == Collective::kSendRecv) {
    const bool forwarded = request.collective == Collective::kBroadcast && request.rank != request.root;
    return {.source = forwarded ? Source::kOutput : Source::kInput,
            .forwarded = forwarded,
            .offset_bytes = plan.part_begin * element_bytes,
            .size_bytes = plan.part_count * element_bytes};
  }
  const std::uint64_t steps = ring_steps(request);
  const std::uint64_t round = index / steps, step = index % steps;
  const bool gathers = request.collective == Collective::kAllGather;
  // A sum of chunk c starts at rank c + 1; a gathered block starts at its owner.
  const std::uint64_t block = block_of(request, gathers ? step : step + 1);
  const Range chunk = chunk_range(plan, block, round);
  SendStep send{.source = Source::kInput,
                .forwarded = step > 0,
                .offset_bytes = chunk.begin * element_bytes,
                .size_bytes = chunk.count * element_bytes};
  if (send.forwarded) {
    send.source = request.collective == Collective::kReduceScatter ? Source::kPartial : Source::kOutput;
  } else if (gathers) {
    send.offset_bytes = plan.part_begin * element_bytes;  // the input holds our own block only
  }
  return send;
}

RecvStep recv_step(const Plan& plan, std::uint64_t index) {
  const PlanRequest& request = plan.request;
  const std::uint64_t element_bytes = request.element_bytes;
  if (request.collective == Collective::kBroadcast) {
    return {.forward = plan.send_steps > 0,
            .output_offset_bytes = plan.part_begin * element_bytes,
            .size_bytes = plan.part_count * element_bytes};
  }
  if (request.collective == Collective::kSendRecv) {
    const Range received = part_of(request.receive_count, static_cast<std::uint64_t>(request.channels),
                                   static_cast<std::uint64_t>(request.channel));
    return {.arrival = request.in_place ? Arrival::kStoreBehindSend : Arrival::kStore,
            .output_offset_bytes = received.begin * element_bytes,
            .size_bytes = received.count * element_bytes};
  }
  const std::uint64_t steps = ring_steps(request);
  const std::uint64_t round = index / steps, step = index % steps;
  const bool gathers = request.collective == Collective::kAllGather;
  const std::uint64_t block = block_of(request, gathers ? step + 1 : step + 2);
  const Range chunk = chunk_range(plan, block, round);
  RecvStep receive{.arrival = Arrival::kStore,
                   .forward = step + 1 < steps,
                   .output_offset_bytes = chunk.begin * element_bytes,
                   .input_offset_bytes = chunk.begin * element_bytes,
                   .size_bytes = chunk.count * element_bytes};
  const auto reducing_steps = static_cast<std::uint64_t>(request.ranks - 1);
  if (gathers || step >= reducing_steps) return receive;
  receive.arrival = Arrival::kReduceToOutput;
  if (request.collective == Collective::kReduceScatter) {
    if (receive.forward) receive.arrival = Arrival::kReduceInSlot;
    // The output holds our own block only.
    receive.output_offset_bytes = (chunk.begin - block * request.count) * element_bytes;
  }
  return receive;
}

}  // namespace meshbed::coll
