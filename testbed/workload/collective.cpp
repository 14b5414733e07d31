#include "testbed/workload/collective.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "plugin/base/prng.h"
#include "testbed/base/memory.h"
#include "testbed/workload/pattern.h"

namespace meshbed::testbed {
namespace {

using models::Collective;

/// One iteration of a case: which memory is read and written, and what must stand in the result.
struct Iteration {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::uint32_t salt = 0;
};

Iteration place(RankHost& host, CollectiveBuffers& buffers, const CollectiveCase& wanted, const CollectiveShape& shape,
                std::uint32_t salt) {
  if (!wanted.in_place) return {buffers.send(), buffers.recv(), salt};
  std::byte* base = buffers.recv();
  const std::uint64_t share = static_cast<std::uint64_t>(host.rank()) * shape.count * size_of(wanted.type);
  const bool sends_shares = has_shares(info_of(wanted.op).sends), gets_shares = has_shares(info_of(wanted.op).receives);
  if (gets_shares && !sends_shares) return {base + share, base, salt};
  if (sends_shares && !gets_shares) return {base, base + share, salt};
  return {base, base, salt};
}

void fill_input(RankHost& host, const CollectiveCase& wanted, const CollectiveShape& shape,
                const Iteration& iteration) {
  if (is_of_root(info_of(wanted.op).sends) && host.rank() != wanted.root) return;
  if (wanted.rough) return fill_rough(host.rank(), iteration.salt, wanted.type, iteration.send, shape.send_count);
  if (wanted.shared_data) {
    const std::uint64_t block_bytes = shape.count * size_of(wanted.type);
    for (std::uint64_t at = 0; at < shape.send_count; at += shape.count) {
      fill(rank_pattern(0, 0, iteration.salt), wanted.type, iteration.send + at / shape.count * block_bytes,
           shape.count);
    }
    return;
  }
  const coll::ReduceOp op = models::reduces(wanted.op) ? wanted.reduction : coll::ReduceOp::kSum;
  fill(rank_pattern(host.rank(), 0, iteration.salt, op, host.ranks()), wanted.type, iteration.send, shape.send_count);
}

meshcoll_result call(RankHost& host, Engine& engine, const CollectiveCase& wanted, const CollectiveShape& shape,
                     const Iteration& iteration) {
  const EngineCalls& calls = engine.calls();
  meshcoll_comm* comm = engine.comm();
  const std::byte* send = iteration.send;
  std::byte* recv = iteration.recv;
  const auto type = static_cast<meshcoll_dtype>(wanted.type);
  const auto reduction = static_cast<meshcoll_op>(wanted.reduction);
  switch (wanted.op) {
    case Collective::kAllReduce:
      return calls.all_reduce(comm, send, recv, shape.count, type, reduction);
    case Collective::kAllGather:
      return calls.all_gather(comm, send, recv, shape.count, type);
    case Collective::kReduceScatter:
      return calls.reduce_scatter(comm, send, recv, shape.count, type, reduction);
    case Collective::kBroadcast:
      return calls.broadcast(comm, send, recv, shape.count, type, wanted.root);
    case Collective::kReduce:
      return calls.reduce(comm, send, recv, shape.count, type, reduction, wanted.root);
    case Collective::kGather:
      return calls.gather(comm, send, recv, shape.count, type, wanted.root);
    case Collective::kScatter:
      return calls.scatter(comm, send, recv, shape.count, type, wanted.root);
    case Collective::kSendRecv:
      return calls.send_recv(comm, send, shape.count, target_of(wanted, host.rank(), host.ranks()), recv, shape.count,
                             source_of(wanted, host.rank(), host.ranks()), type);
    case Collective::kAllToAll:
      return calls.all_to_all(comm, send, recv, shape.count, type);
  }
  return MESHCOLL_UNSUPPORTED;
}

meshcoll_args args_of(RankHost& host, const CollectiveCase& wanted, const CollectiveShape& shape,
                      const Iteration& iteration) {
  meshcoll_args args{};
  args.struct_bytes = sizeof args;
  args.call = static_cast<meshcoll_call>(wanted.op);  // the same numbers: collectives.def
  args.send = iteration.send;
  args.recv = iteration.recv;
  args.count = args.recv_count = shape.count;
  args.dtype = static_cast<meshcoll_dtype>(wanted.type);
  args.op = static_cast<meshcoll_op>(wanted.reduction);
  args.root = wanted.root;
  args.to = target_of(wanted, host.rank(), host.ranks());
  args.from = source_of(wanted, host.rank(), host.ranks());
  return args;
}

/// The same call, started.
meshcoll_result start(RankHost& host, Engine& engine, const CollectiveCase& wanted, const CollectiveShape& shape,
                      const Iteration& iteration, meshcoll_handle& handle) {
  const meshcoll_args args = args_of(host, wanted, shape, iteration);
  return engine.calls().start(engine.comm(), &args, &handle);
}

meshcoll_result wait_for(Engine& engine, meshcoll_handle handle) {
  constexpr std::int64_t kUntilItHasFinished = -1;
  return engine.calls().wait(engine.comm(), handle, kUntilItHasFinished);
}

/// Both; `returned_ps`: when the start came back.
meshcoll_result start_and_wait(RankHost& host, Engine& engine, const CollectiveCase& wanted,
                               const CollectiveShape& shape, const Iteration& iteration, Picoseconds& returned_ps) {
  meshcoll_handle handle = 0;
  const meshcoll_result started = start(host, engine, wanted, shape, iteration, handle);
  returned_ps = host.now_ps();
  return started == MESHCOLL_OK ? wait_for(engine, handle) : started;
}

/// The same call in the rank's stream, on the GPU memory behind the host's, waited for as CUDA programs do.
Result<void> call_in_stream(RankHost& host, Engine& engine, const CollectiveCase& wanted, const CollectiveShape& shape,
                            const Iteration& iteration, const GpuBuffers& gpu, Picoseconds& returned_ps) {
  meshcoll_args args = args_of(host, wanted, shape, {gpu.behind(iteration.send), gpu.behind(iteration.recv)});
  args.in_stream = 1;
  args.stream = gpu.stream();
  if (const auto started = engine.outcome(engine.calls().start(engine.comm(), &args, nullptr)); !started) {
    return started;
  }
  returned_ps = host.now_ps();
  if (const auto waited = gpu.wait(); !waited) return waited;
  return engine.health();
}

void add_work(const GpuWork& before, const GpuWork& after, CaseResults& board) {
  board.gpu.copies += after.copies - before.copies;
  board.gpu.copied_bytes += after.copied_bytes - before.copied_bytes;
  board.gpu.host_copies += after.host_copies - before.host_copies;
  board.gpu.launches += after.launches - before.launches;
  board.gpu.device_syncs += after.device_syncs - before.device_syncs;
  ++board.gpu_calls;
}

/// 0 where none is on GPU memory.
Result<std::uint64_t> direct_calls_of(Engine& engine, bool on_gpu) {
  if (!on_gpu) return std::uint64_t{0};
  const Result<meshcoll_stats> stats = engine.stats();
  if (!stats) return stats.error();
  return std::uint64_t{stats->gpu_direct_calls};
}

/// Whether the operation leaves anything at this rank.
bool receives(const CollectiveCase& wanted, int rank, int ranks) {
  if (is_of_root(info_of(wanted.op).receives)) return rank == wanted.root;
  return wanted.op != Collective::kSendRecv || source_of(wanted, rank, ranks) >= 0;
}

/// Compares blocks of the result, and writes down what it finds.
struct Check {
  const CollectiveCase& wanted;
  const std::byte* recv;
  std::uint64_t count;
  CaseResults& board;

  void block(const Pattern& pattern, std::uint64_t index, const std::string& where) const {
    const std::byte* values = recv + index * count * size_of(wanted.type);
    board.checked += count;
    const std::uint64_t wrong = count_wrong(pattern, wanted.type, values, count);
    if (wrong == 0) return;
    if (board.wrong == 0) {
      const std::size_t at = first_wrong(pattern, wanted.type, values, count);
      board.first_wrong = fmt::format("{}, element {}: {}", where, at, say_wrong(pattern, wanted.type, values, at));
    }
    board.wrong += wrong;
  }
};

void check_result(RankHost& host, const CollectiveCase& wanted, const CollectiveShape& shape,
                  const Iteration& iteration, const std::string& where, CaseResults& board) {
  const int rank = host.rank();
  const int ranks = host.ranks();
  const std::uint32_t salt = iteration.salt;
  const Check check{wanted, iteration.recv, shape.count, board};
  const auto own_share = static_cast<std::uint32_t>(static_cast<std::uint64_t>(rank) * shape.count);
  if (!receives(wanted, rank, ranks)) return;
  if (wanted.shared_data) {
    for (std::uint64_t block = 0; block * shape.count < shape.recv_count; ++block) {
      check.block(rank_pattern(0, 0, salt), block, fmt::format("{}, block {}", where, block));
    }
    return;
  }
  switch (wanted.op) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return check.block(reduced_pattern(ranks, 0, salt, wanted.reduction), 0, where);
    case Collective::kReduceScatter:
      return check.block(reduced_pattern(ranks, own_share, salt, wanted.reduction), 0, where);
    case Collective::kAllGather:
    case Collective::kGather:
      for (int source = 0; source < ranks; ++source) {
        check.block(rank_pattern(source, 0, salt), static_cast<std::uint64_t>(source),
                    fmt::format("{}, share of rank {}", where, source));
      }
      return;
    case Collective::kAllToAll:
      for (int source = 0; source < ranks; ++source) {
        check.block(rank_pattern(source, own_share, salt), static_cast<std::uint64_t>(source),
                    fmt::format("{}, block of rank {}", where, source));
      }
      return;
    case Collective::kBroadcast:
      return check.block(rank_pattern(wanted.root, 0, salt), 0, where);
    case Collective::kScatter:
      return check.block(rank_pattern(wanted.root, own_share, salt), 0, where);
    case Collective::kSendRecv:
      return check.block(rank_pattern(source_of(wanted, rank, ranks), 0, salt), 0, where);
  }
}

void log_begin(RankHost& host, const CollectiveCase& wanted, const CollectiveShape& shape, int iteration) {
  if (wanted.log == nullptr) return;
  const std::string name = wanted.label.empty() ? models::name_of(wanted.op) : wanted.label;
  wanted.log->begin(host, {.name = name, .bytes = shape.bytes, .timed = wanted.timed}, iteration);
}

}  // namespace

Result<EnginePlan> plan_of(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted) {
  const CollectiveShape shape = shape_of(wanted, host.ranks());
  return engine.plan_of(args_of(host, wanted, shape, place(host, buffers, wanted, shape, 0)));
}

int source_of(const CollectiveCase& wanted, int rank, int ranks) {
  const int source = ((rank - wanted.shift) % ranks + ranks) % ranks;
  return wanted.sends(source) ? source : -1;
}

int target_of(const CollectiveCase& wanted, int rank, int ranks) {
  return wanted.sends(rank) ? ((rank + wanted.shift) % ranks + ranks) % ranks : -1;
}

CollectiveShape shape_of(const CollectiveCase& wanted, int ranks) {
  if (wanted.count) return shape_of_count(wanted.op, *wanted.count, ranks, wanted.type);
  return shape_of(wanted.op, wanted.bytes, ranks, wanted.type);
}

std::uint32_t first_salt(std::uint64_t seed) { return static_cast<std::uint32_t>(mix64(seed) >> 32U); }

Picoseconds CaseResults::total_ps() const {
  Picoseconds total = 0;
  for (const IterationTime& time : iterations) total += time.end_ps - time.start_ps;
  return total;
}

Picoseconds CaseResults::average_ps() const {
  return iterations.empty() ? 0 : total_ps() / (static_cast<Picoseconds>(iterations.size()) * operations);
}

Picoseconds CaseResults::fastest_ps() const {
  Picoseconds fastest = iterations.empty() ? 0 : std::numeric_limits<Picoseconds>::max();
  for (const IterationTime& time : iterations) fastest = std::min(fastest, time.end_ps - time.start_ps);
  return fastest / operations;
}

CollectiveBuffers::CollectiveBuffers(std::uint64_t largest_bytes, int ranks, bool out_of_place) {
  // One share more than asked for covers every rounding.
  const std::uint64_t bytes = largest_bytes + kShareBytes * static_cast<std::uint64_t>(ranks);
  size_bytes_ = bytes;
  recv_.reset(new std::byte[bytes]);
  prefer_large_pages(recv_.get(), bytes);
  if (!out_of_place) return;
  send_.reset(new std::byte[bytes]);
  prefer_large_pages(send_.get(), bytes);
}

CollectiveBuffers CollectiveBuffers::shared() const {
  CollectiveBuffers same;
  same.size_bytes_ = size_bytes_;
  same.send_ = send_;
  same.recv_ = recv_;
  return same;
}

Result<void> CollectiveBuffers::enter_gpu(int device) {
  auto made = GpuBuffers::make({.device = device, .send = send(), .recv = recv(), .size_bytes = size_bytes_});
  if (!made) return made.error();
  gpu_ = std::move(*made);
  return ok();
}

std::vector<CollectiveBuffers> buffers_for(int ranks, std::uint64_t largest_bytes, bool out_of_place,
                                           const std::string& option, bool shared) {
  refuse_too_large(
      {.ranks = shared ? 1 : ranks, .buffers_per_rank = out_of_place ? 2 : 1, .buffer_bytes = largest_bytes},
      available_memory_bytes(), option);
  std::vector<CollectiveBuffers> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    if (shared && rank > 0) {
      buffers.push_back(buffers.front().shared());
    } else {
      buffers.emplace_back(largest_bytes, ranks, out_of_place);
    }
  }
  return buffers;
}

Result<void> run_case(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                      std::uint32_t salt, CaseResults& board, const std::function<void()>& after_iteration,
                      const std::function<Result<void>(int)>& before_iteration) {
  const CollectiveShape shape = shape_of(wanted, host.ranks());
  std::vector<IterationTime> unread;
  std::vector<IterationTime>& times = wanted.timed ? board.iterations : unread;
  times.resize(static_cast<std::size_t>(wanted.iterations));
  host.set_hop(wanted.hop_ps);
  for (int index = 0; index < wanted.iterations; ++index) {
    // In the one buffer of all ranks the data stay the same: a rank that is ahead fills it while others are at work.
    const std::uint32_t own_salt = wanted.shared_data ? 0 : salt + static_cast<std::uint32_t>(index) * 0x9e3779b9U;
    const Iteration iteration = place(host, buffers, wanted, shape, own_salt);
    fill_input(host, wanted, shape, iteration);
    GpuBuffers* const gpu = buffers.gpu();
    if (gpu != nullptr) {
      const auto given = gpu->put(iteration.send, shape.send_count * size_of(wanted.type));
      if (!given) return given;
    }
    if (const Result<void> ready = host.rendezvous(); !ready) return ready;
    IterationTime& time = times[static_cast<std::size_t>(index)];
    time.start_ps = host.now_ps();
    log_begin(host, wanted, shape, index);
    if (before_iteration) {
      if (const Result<void> ready = before_iteration(index); !ready) return ready;
    }
    const auto work_before = gpu != nullptr ? host.gpu_work() : std::nullopt;
    const auto direct_before = direct_calls_of(engine, gpu != nullptr);
    if (!direct_before) return direct_before.error();
    CallTime call_time{.rank = host.rank(), .start_ps = host.now_ps()};
    host.spend(wanted.spent_ps);
    const Result<void> done =
        gpu != nullptr
            ? call_in_stream(host, engine, wanted, shape, iteration, *gpu, call_time.returned_ps)
            : engine.outcome(wanted.start_and_wait
                                 ? start_and_wait(host, engine, wanted, shape, iteration, call_time.returned_ps)
                                 : call(host, engine, wanted, shape, iteration));
    if (wanted.log != nullptr) wanted.log->end(host, engine, static_cast<bool>(done));
    if (!done) return done;
    call_time.end_ps = host.now_ps();
    if (gpu == nullptr && !wanted.start_and_wait) call_time.returned_ps = call_time.end_ps;
    const auto direct_after = direct_calls_of(engine, gpu != nullptr);
    if (!direct_after) return direct_after.error();
    board.gpu_direct_calls += *direct_after - *direct_before;
    if (work_before) add_work(*work_before, *host.gpu_work(), board);
    if (gpu != nullptr && receives(wanted, host.rank(), host.ranks())) {
      const auto taken = gpu->get(iteration.recv, shape.recv_count * size_of(wanted.type));
      if (!taken) return taken;
    }
    if (wanted.calls != nullptr) wanted.calls->push_back(call_time);
    time.end_ps = std::max(time.end_ps, call_time.end_ps);

    if (wanted.check) {
      const std::string where = fmt::format("rank {}, iteration {}", host.rank(), index);
      if (!wanted.rough) check_result(host, wanted, shape, iteration, where, board);
      if (index + 1 == wanted.iterations) {
        board.results.resize(static_cast<std::size_t>(host.ranks()));
        board.results[static_cast<std::size_t>(host.rank())] =
            receives(wanted, host.rank(), host.ranks())
                ? XXH3_64bits(iteration.recv, shape.recv_count * size_of(wanted.type))
                : 0;
      }
    }
    if (host.rank() == 0 && after_iteration) after_iteration();
  }
  return ok();
}

Result<void> run_paced(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                       const Pacing& pacing, std::uint32_t salt, CaseResults& board) {
  using Wait = Pacing::Wait;
  const CollectiveShape shape = shape_of(wanted, host.ranks());
  const Iteration memory = place(host, buffers, wanted, shape, salt);
  fill_input(host, wanted, shape, memory);
  const auto count = static_cast<std::size_t>(wanted.iterations) * static_cast<std::size_t>(pacing.launches);
  board.operations = pacing.operations;
  host.set_hop(wanted.hop_ps);
  board.iterations.resize(count);
  if (const Result<void> ready = host.rendezvous(); !ready) return ready;
  log_begin(host, wanted, shape, 0);

  const bool waits_for_each = pacing.wait == Wait::kOwn || pacing.wait == Wait::kBarrier;
  std::vector<meshcoll_handle> under_way;
  // Of one communicator they end in the order in which they were started.
  const auto wait_for_all = [&](std::size_t from, std::size_t to) -> Result<void> {
    for (std::size_t index = from; index < to; ++index) {
      if (auto done = engine.outcome(wait_for(engine, under_way[index])); !done) return done;
    }
    return ok();
  };
  const auto operations = static_cast<std::size_t>(pacing.operations);
  for (std::size_t index = 0; index < count; ++index) {
    IterationTime& time = board.iterations[index];
    if (index == 0 || pacing.wait == Wait::kTogether) time.start_ps = host.now_ps();
    for (std::size_t operation = 0; operation < operations; ++operation) {
      host.spend(wanted.spent_ps);
      const meshcoll_result result = waits_for_each
                                         ? call(host, engine, wanted, shape, memory)
                                         : start(host, engine, wanted, shape, memory, under_way.emplace_back());
      if (auto done = engine.outcome(result); !done) return done;
      if (pacing.wait != Wait::kBarrier) continue;
      if (const Result<void> all = host.rendezvous(); !all) return all;
    }
    if (pacing.wait == Wait::kQueued) continue;
    if (auto done = wait_for_all(index * operations, under_way.size()); !done) return done;
    time.end_ps = std::max(time.end_ps, host.now_ps());
    if (pacing.wait != Wait::kTogether) continue;
    if (const Result<void> all = host.rendezvous(); !all) return all;
  }
  for (std::size_t index = 0; index < count && pacing.wait == Wait::kQueued; ++index) {
    if (auto done = wait_for_all(index * operations, (index + 1) * operations); !done) return done;
    board.iterations[index].end_ps = std::max(board.iterations[index].end_ps, host.now_ps());
  }
  if (wanted.log != nullptr) wanted.log->end(host, engine, true);
  if (const Result<void> all = host.rendezvous(); !all) return all;
  for (std::size_t index = 1; index < count && pacing.wait != Wait::kTogether; ++index) {
    board.iterations[index].start_ps = board.iterations[index - 1].end_ps;
  }
  return ok();
}

}  // namespace meshbed::testbed
