#include "cli/collective.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>

#include "cli/memory.h"
#include "cli/pattern.h"
#include "plugin/base/prng.h"

namespace meshbed::cli {
namespace {

using models::Collective;

constexpr std::uint64_t kShareAlignment = 16 / sizeof(float);

/// One iteration of a case: which memory is read and written, and what must stand in the result.
struct Iteration {
  float* send = nullptr;
  float* recv = nullptr;
  std::uint32_t salt = 0;
};

/// Of sendrecv; -1: nobody.
int source_of(const CollectiveCase& wanted, int rank, int ranks) {
  const int source = ((rank - wanted.shift) % ranks + ranks) % ranks;
  return wanted.sends(source) ? source : -1;
}
int target_of(const CollectiveCase& wanted, int rank, int ranks) {
  return wanted.sends(rank) ? ((rank + wanted.shift) % ranks + ranks) % ranks : -1;
}

Iteration place(RankHost& host, CollectiveBuffers& buffers, const CollectiveCase& wanted, const CollectiveShape& shape,
                std::uint32_t salt) {
  if (!wanted.in_place) return {buffers.send(), buffers.recv(), salt};
  float* base = buffers.recv();
  const std::uint64_t share = static_cast<std::uint64_t>(host.rank()) * shape.count;
  if (wanted.op == Collective::kAllGather) return {base + share, base, salt};
  if (wanted.op == Collective::kReduceScatter) return {base, base + share, salt};
  return {base, base, salt};
}

void fill_input(RankHost& host, const CollectiveCase& wanted, const CollectiveShape& shape,
                const Iteration& iteration) {
  if (wanted.op == Collective::kBroadcast && host.rank() != wanted.root) return;
  fill(rank_pattern(host.rank(), 0, iteration.salt), iteration.send, shape.send_count);
}

/// In as many rounds as there are ranks, in each of which pairs exchange their blocks: in round s ranks a and b with
/// a + b = s (mod n), so that each pair meets once and a block can be exchanged in place. As nccl-tests it is made of
/// sends and receives.
meshcoll_result all_to_all(RankHost& host, Engine& engine, const CollectiveShape& shape, const Iteration& iteration) {
  const int ranks = host.ranks();
  for (int round = 0; round < ranks; ++round) {
    const int partner = (round - host.rank() + ranks) % ranks;
    const std::uint64_t block = static_cast<std::uint64_t>(partner) * shape.count;
    const meshcoll_result result =
        engine.calls().send_recv(engine.comm(), iteration.send + block, shape.count, partner, iteration.recv + block,
                                 shape.count, partner, MESHCOLL_FLOAT32);
    if (result != MESHCOLL_OK) return result;
  }
  return MESHCOLL_OK;
}

meshcoll_result call(RankHost& host, Engine& engine, const CollectiveCase& wanted, const CollectiveShape& shape,
                     const Iteration& iteration) {
  const EngineCalls& calls = engine.calls();
  const float* send = iteration.send;
  float* recv = iteration.recv;
  switch (wanted.op) {
    case Collective::kAllReduce:
      return calls.all_reduce(engine.comm(), send, recv, shape.count, MESHCOLL_FLOAT32, MESHCOLL_SUM);
    case Collective::kAllGather:
      return calls.all_gather(engine.comm(), send, recv, shape.count, MESHCOLL_FLOAT32);
    case Collective::kReduceScatter:
      return calls.reduce_scatter(engine.comm(), send, recv, shape.count, MESHCOLL_FLOAT32, MESHCOLL_SUM);
    case Collective::kBroadcast:
      return calls.broadcast(engine.comm(), send, recv, shape.count, MESHCOLL_FLOAT32, wanted.root);
    case Collective::kSendRecv:
      return calls.send_recv(engine.comm(), send, shape.count, target_of(wanted, host.rank(), host.ranks()), recv,
                             shape.count, source_of(wanted, host.rank(), host.ranks()), MESHCOLL_FLOAT32);
    case Collective::kAllToAll:
      return all_to_all(host, engine, shape, iteration);
  }
  return MESHCOLL_UNSUPPORTED;
}

void check_block(const Pattern& pattern, const float* values, std::uint64_t count, const std::string& where,
                 CaseBoard& board) {
  board.checked += count;
  const std::uint64_t wrong = count_wrong(pattern, values, count);
  if (wrong == 0) return;
  if (board.wrong == 0) {
    const std::size_t index = first_wrong(pattern, values, count);
    board.first_wrong = fmt::format("{}, element {}: {} instead of {}", where, index, values[index],
                                    value_at(pattern, static_cast<std::uint32_t>(index)));
  }
  board.wrong += wrong;
}

void check_result(RankHost& host, const CollectiveCase& wanted, const CollectiveShape& shape,
                  const Iteration& iteration, const std::string& where, CaseBoard& board) {
  const int rank = host.rank();
  const int ranks = host.ranks();
  const std::uint32_t salt = iteration.salt;
  switch (wanted.op) {
    case Collective::kAllReduce:
      return check_block(sum_pattern(ranks, 0, salt), iteration.recv, shape.count, where, board);
    case Collective::kReduceScatter: {
      const auto first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(rank) * shape.count);
      return check_block(sum_pattern(ranks, first, salt), iteration.recv, shape.count, where, board);
    }
    case Collective::kAllGather:
      for (int source = 0; source < ranks; ++source) {
        check_block(rank_pattern(source, 0, salt), iteration.recv + static_cast<std::uint64_t>(source) * shape.count,
                    shape.count, fmt::format("{}, share of rank {}", where, source), board);
      }
      return;
    case Collective::kAllToAll:
      for (int source = 0; source < ranks; ++source) {
        const auto first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(rank) * shape.count);
        check_block(rank_pattern(source, first, salt),
                    iteration.recv + static_cast<std::uint64_t>(source) * shape.count, shape.count,
                    fmt::format("{}, block of rank {}", where, source), board);
      }
      return;
    case Collective::kBroadcast:
      return check_block(rank_pattern(wanted.root, 0, salt), iteration.recv, shape.count, where, board);
    case Collective::kSendRecv: {
      const int source = source_of(wanted, rank, ranks);
      if (source >= 0) check_block(rank_pattern(source, 0, salt), iteration.recv, shape.count, where, board);
      return;
    }
  }
}

}  // namespace

CollectiveShape shape_of(Collective op, std::uint64_t bytes, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t elements = bytes / sizeof(float);
  CollectiveShape shape;
  const std::uint64_t share = elements / n / kShareAlignment * kShareAlignment;
  switch (op) {
    case Collective::kAllGather:
      shape = {.count = share, .send_count = share, .recv_count = share * n};
      break;
    case Collective::kReduceScatter:
      shape = {.count = share, .send_count = share * n, .recv_count = share};
      break;
    case Collective::kAllToAll:
      shape = {.count = share, .send_count = share * n, .recv_count = share * n};
      break;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      shape = {.count = elements, .send_count = elements, .recv_count = elements};
      break;
  }
  shape.bytes = std::max(shape.send_count, shape.recv_count) * sizeof(float);
  return shape;
}

std::uint64_t smallest_bytes(Collective op, int ranks) {
  const bool has_shares =
      op == Collective::kAllGather || op == Collective::kReduceScatter || op == Collective::kAllToAll;
  return sizeof(float) * (has_shares ? kShareAlignment * static_cast<std::uint64_t>(ranks) : 1);
}

std::uint32_t first_salt(std::uint64_t seed) { return static_cast<std::uint32_t>(mix64(seed) >> 32U); }

Picoseconds CaseBoard::total_ps() const {
  Picoseconds total = 0;
  for (const IterationTime& time : iterations) total += time.end_ps - time.start_ps;
  return total;
}

Picoseconds CaseBoard::average_ps() const {
  return iterations.empty() ? 0 : total_ps() / static_cast<Picoseconds>(iterations.size());
}

Picoseconds CaseBoard::fastest_ps() const {
  Picoseconds fastest = iterations.empty() ? 0 : std::numeric_limits<Picoseconds>::max();
  for (const IterationTime& time : iterations) fastest = std::min(fastest, time.end_ps - time.start_ps);
  return fastest;
}

CollectiveBuffers::CollectiveBuffers(std::uint64_t largest_bytes, int ranks, bool out_of_place) {
  // One share more than asked for covers every rounding.
  const std::uint64_t elements = largest_bytes / sizeof(float) + kShareAlignment * static_cast<std::uint64_t>(ranks);
  recv_ = std::make_unique_for_overwrite<float[]>(elements);
  if (out_of_place) send_ = std::make_unique_for_overwrite<float[]>(elements);
}

std::vector<CollectiveBuffers> buffers_for(int ranks, std::uint64_t largest_bytes, bool out_of_place,
                                           const std::string& option) {
  refuse_too_large({.ranks = ranks, .buffers_per_rank = out_of_place ? 2 : 1, .buffer_bytes = largest_bytes},
                   available_memory_bytes(), option);
  std::vector<CollectiveBuffers> buffers;
  for (int rank = 0; rank < ranks; ++rank) buffers.emplace_back(largest_bytes, ranks, out_of_place);
  return buffers;
}

Result<void> run_case(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                      std::uint32_t salt, CaseBoard& board, const std::function<void()>& after_iteration,
                      const std::function<Result<void>(int)>& before_iteration) {
  const CollectiveShape shape = shape_of(wanted.op, wanted.bytes, host.ranks());
  board.iterations.resize(static_cast<std::size_t>(wanted.iterations));
  for (int index = 0; index < wanted.iterations; ++index) {
    const Iteration iteration =
        place(host, buffers, wanted, shape, salt + static_cast<std::uint32_t>(index) * 0x9e3779b9U);
    fill_input(host, wanted, shape, iteration);
    if (const Result<void> ready = host.rendezvous(); !ready) return ready;
    IterationTime& time = board.iterations[static_cast<std::size_t>(index)];
    time.start_ps = host.now_ps();
    if (before_iteration) {
      if (const Result<void> ready = before_iteration(index); !ready) return ready;
    }
    const Result<void> done = engine.outcome(call(host, engine, wanted, shape, iteration));
    if (!done) return done;
    time.end_ps = std::max(time.end_ps, host.now_ps());

    if (wanted.check) {
      check_result(host, wanted, shape, iteration, fmt::format("rank {}, iteration {}", host.rank(), index), board);
      if (index + 1 == wanted.iterations) {
        board.results.resize(static_cast<std::size_t>(host.ranks()));
        const bool receives = wanted.op != Collective::kSendRecv || source_of(wanted, host.rank(), host.ranks()) >= 0;
        board.results[static_cast<std::size_t>(host.rank())] =
            receives ? XXH3_64bits(iteration.recv, shape.recv_count * sizeof(float)) : 0;
      }
    }
    if (host.rank() == 0 && after_iteration) after_iteration();
  }
  return ok();
}

}  // namespace meshbed::cli
