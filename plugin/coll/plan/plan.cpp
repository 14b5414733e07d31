#include "plugin/coll/plan/plan.h"

#include <algorithm>

#include "plugin/base/units.h"

namespace meshbed::coll {
namespace {

// Below 64 KiB a message's fixed cost shows; above 1 MiB pipelining gains nothing on any wire that we model.
constexpr std::uint64_t kSliceFloorBytes = 64 * kKiB;
constexpr std::uint64_t kSlicesPerChunk = 8;     // enough that forwarding hides a step's latency behind the next slices
constexpr std::uint64_t kBlockAlignment = 4096;  // whole packets at every RDMA MTU

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
    default:
      return 1;
  }
}

/// Of the reducing step `step` of so many.
Form form_of(std::uint64_t step, std::uint64_t steps) {
  if (steps == 1) return Form::kOnly;
  if (step == 0) return Form::kFirst;
  return step + 1 == steps ? Form::kLast : Form::kBetween;
}

bool is_chain(Collective collective) { return pattern_of(collective) == CollectivePattern::kChain; }

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

Range received_part(const PlanRequest& request) {
  return part_of(request.receive_count, static_cast<std::uint64_t>(request.channels),
                 static_cast<std::uint64_t>(request.channel));
}

/// A slot for slices of so many elements, wherever reduced ones land in slots.
void plan_slots(Plan& plan, std::uint64_t slice_count) {
  const PlanRequest& request = plan.request;
  plan.slot_bytes = slice_count * (plan.keeps_partials ? request.partial_bytes : request.element_bytes);
  if (!plan.keeps_partials || request.partial_bytes == request.element_bytes) return;
  // A kernel that widens cannot write over what it still has to read.
  plan.widened_from_bytes = plan.slot_bytes;
  plan.slot_bytes += slice_count * request.element_bytes;
}

void plan_ring(Plan& plan) {
  const PlanRequest& request = plan.request;
  const auto ranks = static_cast<std::uint64_t>(request.ranks);
  const bool reduces = request.collective != Collective::kAllGather;
  // Two ranks never have a partial result; the output holds those of an all_reduce that fit there.
  plan.keeps_partials =
      reduces && ranks > 2 &&
      (request.collective == Collective::kReduceScatter || request.partial_bytes != request.element_bytes);
  const std::uint64_t chunk_count =
      request.collective == Collective::kAllReduce ? part_of(plan.part_count, ranks, 0).count : plan.part_count;
  plan.slice_count =
      slice_count_of(chunk_count, plan.keeps_partials ? request.partial_bytes : request.element_bytes, request);
  plan.recv_slice_count = plan.slice_count;
  plan.round_count = std::max<std::uint64_t>(chunk_count, 1);
  if (plan.keeps_partials) {
    // Partial results wait in slots (W of them) until they are forwarded, behind the L slices of a round's first step.
    // L < W or the ring can lock: with s_r slices sent by rank r, all slots full everywhere means
    // s_(r-1) - s_r >= W - L > 0 for every r, which no ring can meet. (What an all_reduce gathers afterwards takes no
    // slots.) Half leaves room for what arrives meanwhile.
    const auto slices = static_cast<std::uint64_t>(std::max(request.slots / 2, 1));
    plan.round_count = std::min(plan.round_count, slices * plan.slice_count);
  }
  const std::uint64_t rounds = (chunk_count + plan.round_count - 1) / plan.round_count;
  plan.send_steps = plan.recv_steps = rounds * ring_steps(request);
  if (plan.recv_steps > 0 && reduces) plan_slots(plan, std::min(plan.slice_count, plan.round_count));
  const std::uint64_t own = static_cast<std::uint64_t>(request.rank) * request.count + plan.part_begin;
  if (request.collective == Collective::kAllGather) {
    plan.copy = {plan.part_begin, own, plan.part_count};
  } else if (ranks == 1) {
    plan.copy = {plan.part_begin, plan.part_begin, plan.part_count};
  }
}

void plan_chain(Plan& plan) {
  const PlanRequest& request = plan.request;
  const bool reduces = request.collective == Collective::kReduce;
  // Of a reduce's ranks only the root has an output that may be written to.
  plan.keeps_partials = reduces && request.ranks > 2;
  const std::uint64_t wire_bytes = plan.keeps_partials ? request.partial_bytes : request.element_bytes;
  plan.slice_count = plan.recv_slice_count = slice_count_of(plan.part_count, wire_bytes, request);
  const bool moves = request.ranks > 1 && plan.part_count > 0;
  const bool is_first = (reduces ? ring_rank(request, -1) : request.rank) == request.root;
  const bool is_last = (reduces ? request.rank : ring_rank(request, 1)) == request.root;
  plan.send_steps = moves && !is_last ? 1 : 0;
  plan.recv_steps = moves && !is_first ? 1 : 0;
  if (plan.recv_steps > 0 && reduces) plan_slots(plan, std::min(plan.slice_count, plan.part_count));
  const bool copies = reduces ? request.ranks == 1 : request.rank == request.root;
  if (copies) plan.copy = {plan.part_begin, plan.part_begin, plan.part_count};
}

void plan_send_recv(Plan& plan) {
  const PlanRequest& request = plan.request;
  const Range received = received_part(request);
  plan.slice_count = slice_count_of(plan.part_count, request.element_bytes, request);
  plan.recv_slice_count = slice_count_of(received.count, request.element_bytes, request);
  if (request.to == request.rank) {  // to ourselves: no network
    plan.copy = {plan.part_begin, plan.part_begin, plan.part_count};
    return;
  }
  plan.send_steps = request.to >= 0 && plan.part_count > 0 ? 1 : 0;
  plan.recv_steps = request.from >= 0 && received.count > 0 ? 1 : 0;
  // In place: what arrives must not overwrite what has not been sent. A window of slots takes the first slices, so that
  // the peers' sends (and with them ours) begin, independently of what waits here.
  if (request.in_place && plan.recv_steps > 0) {
    plan.slot_bytes = std::min(plan.recv_slice_count, received.count) * request.element_bytes;
  }
}

SendStep chain_send_step(const Plan& plan) {
  const PlanRequest& request = plan.request;
  const bool forwarded = plan.recv_steps > 0 && is_chain(request.collective);
  const Source on = request.collective == Collective::kReduce ? Source::kPartial : Source::kOutput;
  return {.source = forwarded ? on : Source::kInput,
          .forwarded = forwarded,
          .offset = plan.part_begin,
          .count = plan.part_count};
}

RecvStep chain_recv_step(const Plan& plan) {
  const PlanRequest& request = plan.request;
  const bool forward = plan.send_steps > 0;
  RecvStep receive{
      .forward = forward, .output_offset = plan.part_begin, .input_offset = plan.part_begin, .count = plan.part_count};
  if (request.collective != Collective::kReduce) return receive;
  receive.arrival = forward ? Arrival::kReduceInSlot : Arrival::kReduceToOutput;
  // We are so many steps behind root + 1, which only sends.
  const int behind = (request.rank - request.root - 1 + 2 * request.ranks) % request.ranks;
  receive.form = form_of(static_cast<std::uint64_t>(behind - 1), static_cast<std::uint64_t>(request.ranks - 1));
  return receive;
}

}  // namespace

std::uint64_t slice_count_of(std::uint64_t chunk_count, std::uint64_t wire_bytes, const PlanRequest& request) {
  const std::uint64_t chunk_bytes = chunk_count * wire_bytes;
  const std::uint64_t wanted =
      (chunk_bytes / kSlicesPerChunk + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  const std::uint64_t bytes = std::min(std::max(wanted, kSliceFloorBytes), request.slice_bytes_max);
  return std::max<std::uint64_t>(bytes / wire_bytes, 1);
}

std::vector<SubPlan> sub_plans_of(const PlanRequest& request) {
  if (pattern_of(request.collective) != CollectivePattern::kPairs) return {{.request = request}};
  const bool to_all = is_all_to_all(request.collective);
  const bool gathers = is_of_root(info_of(request.collective).receives);
  const bool scatters = is_of_root(info_of(request.collective).sends);
  std::vector<SubPlan> sub_plans;
  const auto with = [&](int peer, bool sends, bool receives) {
    SubPlan sub_plan{.request = request};
    sub_plan.request.collective = Collective::kSendRecv;
    sub_plan.request.to = sends ? peer : -1;
    sub_plan.request.from = receives ? peer : -1;
    sub_plan.request.count = sends ? request.count : 0;
    sub_plan.request.receive_count = receives ? request.count : 0;
    const std::uint64_t block = static_cast<std::uint64_t>(peer) * request.count;
    const bool is_root = request.rank == request.root;
    sub_plan.input_offset = to_all || (scatters && is_root) ? block : 0;
    sub_plan.output_offset = to_all || (gathers && is_root) ? block : 0;
    sub_plans.push_back(sub_plan);
  };
  if (to_all || request.rank == request.root) {
    with(request.rank, true, true);
    for (int step = 1; step < request.ranks; ++step)
      with(ring_rank(request, step), to_all || scatters, to_all || gathers);
  } else {
    with(request.root, gathers, scatters);
  }
  return sub_plans;
}

std::vector<LocalCopy> local_copies_of(PlanRequest request) {
  request.channel = 0;
  request.channels = 1;
  std::vector<LocalCopy> copies;
  for (const SubPlan& sub_plan : sub_plans_of(request)) {
    LocalCopy copy = make_plan(sub_plan.request).copy;
    if (copy.count == 0) continue;
    copy.input_offset += sub_plan.input_offset;
    copy.output_offset += sub_plan.output_offset;
    copies.push_back(copy);
  }
  return copies;
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
  if (request.collective == Collective::kSendRecv) {
    plan_send_recv(plan);
  } else if (is_chain(request.collective)) {
    plan_chain(plan);
  } else {
    plan_ring(plan);
  }
  return plan;
}

SendStep send_step(const Plan& plan, std::uint64_t index) {
  const PlanRequest& request = plan.request;
  if (request.collective == Collective::kSendRecv || is_chain(request.collective)) return chain_send_step(plan);
  const std::uint64_t steps = ring_steps(request);
  const std::uint64_t round = index / steps, step = index % steps;
  const bool gathers = request.collective == Collective::kAllGather;
  // A sum of chunk c starts at rank c + 1; a gathered block starts at its owner.
  const Range chunk = chunk_range(plan, block_of(request, gathers ? step : step + 1), round);
  SendStep send{.source = Source::kInput, .forwarded = step > 0, .offset = chunk.begin, .count = chunk.count};
  if (send.forwarded) {
    const bool partial = plan.keeps_partials && step + 1 < static_cast<std::uint64_t>(request.ranks);
    send.source = partial ? Source::kPartial : Source::kOutput;
  } else if (gathers) {
    send.offset = plan.part_begin;  // the input holds our own block only
  }
  return send;
}

RecvStep recv_step(const Plan& plan, std::uint64_t index) {
  const PlanRequest& request = plan.request;
  if (is_chain(request.collective)) return chain_recv_step(plan);
  if (request.collective == Collective::kSendRecv) {
    const Range received = received_part(request);
    return {.arrival = request.in_place ? Arrival::kStoreBehindSend : Arrival::kStore,
            .output_offset = received.begin,
            .count = received.count};
  }
  const std::uint64_t steps = ring_steps(request);
  const std::uint64_t round = index / steps, step = index % steps;
  const bool gathers = request.collective == Collective::kAllGather;
  const std::uint64_t block = block_of(request, gathers ? step + 1 : step + 2);
  const Range chunk = chunk_range(plan, block, round);
  RecvStep receive{.arrival = Arrival::kStore,
                   .forward = step + 1 < steps,
                   .output_offset = chunk.begin,
                   .input_offset = chunk.begin,
                   .count = chunk.count};
  const auto reducing_steps = static_cast<std::uint64_t>(request.ranks - 1);
  if (gathers || step >= reducing_steps) return receive;
  receive.form = form_of(step, reducing_steps);
  const bool is_partial = step + 1 < reducing_steps;
  receive.arrival = plan.keeps_partials && is_partial ? Arrival::kReduceInSlot : Arrival::kReduceToOutput;
  // A reduce_scatter's output holds our own block only.
  if (request.collective == Collective::kReduceScatter) receive.output_offset = chunk.begin - block * request.count;
  return receive;
}

}  // namespace meshbed::coll
