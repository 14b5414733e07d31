// barrier.cluster, mapa and getctarank.
#include "sim/cuda/ptx/cluster/cluster.h"

#include <algorithm>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

/// Calls see(block) for each block of the cluster; a block without one is a cluster.
template <typename See>
bool all_of_cluster(Block& block, const See& see) {
  if (block.cluster.empty()) return see(block);
  return std::all_of(block.cluster.begin(), block.cluster.end(), [&](Block* one) { return see(*one); });
}

void arrive_at_cluster(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  ++warp.grid->counts.barriers;
  warp.grid->has_cluster_barrier = true;
  if (const std::uint32_t twice = lanes & (warp.cluster_arrived | warp.cluster_passed); twice != 0) {
    fail(warp, in, static_cast<std::uint32_t>(std::countr_zero(twice)), Fault::Kind::kBarrier,
         "a second barrier.cluster.arrive before barrier.cluster.wait");
    return;
  }
  warp.cluster_arrived |= lanes;
  warp.event = true;  // lanes of this warp may wait for these
  settle_cluster(*warp.block);
}

void wait_at_cluster(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const std::uint32_t passed = lanes & warp.cluster_passed, waiting = lanes & ~passed;
  warp.cluster_passed &= ~passed;
  if (waiting == 0) return;
  if (const std::uint32_t strays = waiting & ~warp.cluster_arrived; strays != 0) {
    fail(warp, in, static_cast<std::uint32_t>(std::countr_zero(strays)), Fault::Kind::kBarrier,
         "barrier.cluster.wait without barrier.cluster.arrive before it");
    return;
  }
  each_active(warp.active, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
  each_active(waiting, [&](std::uint32_t lane) {
    warp.barrier[lane] = kClusterBarrier;
    warp.barrier_at[lane] = &in;
  });
  warp.barrier_waiting |= waiting;
  warp.active = 0;
  warp.event = true;
}

/// a: the address, b: the rank, a_bytes: the address's width.
void map_to_rank(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto* rank = lanes_at<std::uint32_t>(warp, in.b);
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint64_t address = read_lane(place_at(warp, in.a), in.a_bytes, lane) & ~kRankMask;
    write_lane(place_at(warp, in.d), in.a_bytes, lane, address | std::uint64_t{rank[lane] + 1} << kRankShift);
  });
}

void rank_of_address(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint32_t>(warp, in.d);
  each_active(lanes, [&](std::uint32_t lane) {
    const std::uint64_t rank = (read_lane(place_at(warp, in.a), in.a_bytes, lane) & kRankMask) >> kRankShift;
    d[lane] = rank == 0 ? rank_in_cluster(*warp.block) : static_cast<std::uint32_t>(rank - 1);
  });
}

}  // namespace

std::array<std::uint32_t, 3> clustered_position(const LaunchRequest& request, std::uint64_t index) {
  const std::uint64_t within = index % cluster_blocks(request.cluster);
  std::uint64_t cluster = index / cluster_blocks(request.cluster), rank = within;
  std::array<std::uint32_t, 3> at{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::uint32_t size = request.cluster[axis], clusters = request.grid[axis] / size;
    at[axis] = static_cast<std::uint32_t>(cluster % clusters * size + rank % size);
    cluster /= clusters;
    rank /= size;
  }
  return at;
}

std::uint32_t place_in_cluster(const Block& block, std::size_t axis) {
  return block.at[axis] % block.warps.front()->grid->request.cluster[axis];
}

std::uint32_t rank_in_cluster(const Block& block) {
  const auto& size = block.warps.front()->grid->request.cluster;
  return place_in_cluster(block, 0) + size[0] * (place_in_cluster(block, 1) + size[1] * place_in_cluster(block, 2));
}

Block* block_of_address(Block& own, std::uint64_t& address) {
  const std::uint64_t rank = (address & kRankMask) >> kRankShift;
  address &= ~kRankMask;
  if (rank == 0 || (own.cluster.empty() && rank == 1)) return &own;
  return rank <= own.cluster.size() ? own.cluster[rank - 1] : nullptr;
}

void settle_cluster(Block& block) {
  const bool is_complete = all_of_cluster(block, [](const Block& one) {
    return std::all_of(one.warps.begin(), one.warps.end(),
                       [](const auto& warp) { return (warp->alive & ~warp->cluster_arrived) == 0; });
  });
  if (!is_complete) return;
  all_of_cluster(block, [](const Block& one) {
    for (const auto& warp : one.warps) {
      std::uint32_t waiting = 0;
      each_active(warp->barrier_waiting, [&](std::uint32_t lane) {
        if (warp->barrier[lane] == kClusterBarrier) waiting |= 1U << lane;
      });
      warp->barrier_waiting &= ~waiting;
      warp->cluster_passed |= warp->cluster_arrived & warp->alive & ~waiting;
      warp->cluster_arrived = 0;
    }
    return true;
  });
  Grid& grid = *block.warps.front()->grid;
  ++grid.changes;
  grid.round.progress = true;  // of blocks that have had their turn, too
}

bool awaits_cluster(const Block& block) {
  const auto waits_there = [](const auto& warp) {
    bool found = false;
    each_active(warp->alive & warp->barrier_waiting,
                [&](std::uint32_t lane) { found = found || warp->barrier[lane] == kClusterBarrier; });
    return found;
  };
  if (!std::any_of(block.warps.begin(), block.warps.end(), waits_there)) return false;
  return std::any_of(block.cluster.begin(), block.cluster.end(), [](const Block* one) {
    return std::any_of(one->warps.begin(), one->warps.end(), [](const auto& warp) { return warp->runnable() != 0; });
  });
}

bool decode_cluster(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  Instruction& in = decoder.in;
  if (opcode == "barrier" && decoder.take("cluster")) {
    const bool arrives = decoder.take("arrive");
    if (!arrives && !decoder.take("wait")) decoder.unsupported("this form");
    for (const char* order : {"release", "relaxed", "acquire", "aligned"}) decoder.take(order);
    decoder.expect_operands(0, 0);
    in.run = arrives ? arrive_at_cluster : wait_at_cluster;
    return true;
  }
  if (opcode != "mapa" && opcode != "getctarank") return false;
  decoder.take("shared::cluster");
  const Type type = decoder.type();
  if (bytes_of(type) != 4 && bytes_of(type) != 8) decoder.refuse("an address has 32 or 64 bits");
  in.a_bytes = static_cast<std::uint8_t>(bytes_of(type));
  const bool maps = opcode == "mapa";
  decoder.expect_operands(maps ? 3 : 2, maps ? 3 : 2);
  in.a = decoder.source(decoder.operand(1), type);
  if (maps) in.b = decoder.source(decoder.operand(2), Type::kU32);
  in.d = decoder.destination(decoder.operand(0), maps ? type : Type::kU32);
  in.run = maps ? map_to_rank : rank_of_address;
  return true;
}

}  // namespace meshbed::sim::ptx
