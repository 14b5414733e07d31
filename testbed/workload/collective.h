#pragma once
// Collective: one operation, timed and checked on every iteration, as nccl-tests counts sizes and elements.
//
// Each iteration starts with all ranks at one instant (as after a perfect barrier) and ends when the last rank has its
// result. Filling and checking the buffers takes no simulated time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/algorithm.h"
#include "plugin/coll/plan/datatype.h"
#include "sim/trace/proof.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/workload/engine.h"
#include "testbed/workload/gpu_buffers.h"
#include "testbed/workload/operations.h"

namespace meshbed::testbed {

/// One rank's call, by that rank's clock.
struct CallTime {
  int rank = 0;
  Picoseconds start_ps = 0;
  Picoseconds returned_ps = 0;  // from the call itself: start_and_wait's comes back before the work is done
  Picoseconds end_ps = 0;       // the rank has its result
};

struct CollectiveCase {
  models::Collective op = models::Collective::kAllReduce;
  coll::DataType type = coll::DataType::kFloat32;
  coll::ReduceOp reduction = coll::ReduceOp::kSum;  // where the operation reduces
  std::uint64_t bytes = 0;                          // as asked for; see CollectiveShape
  std::optional<std::uint64_t> count{};             // elements that the caller passes, in place of `bytes`
  bool in_place = true;
  int iterations = 1;
  bool check = true;
  // Numbers whose sums depend on their order, where the type's do: the result is hashed, and not checked.
  bool rough = false;
  int root = 0;
  int shift = 1;               // sendrecv: rank r sends to (r + shift) % ranks
  std::vector<int> senders{};  // sendrecv: who does; empty: all
  bool timed = true;           // false: run_case() leaves the times of the board as they are
  // What a profile says that its software costs: each rank spends it before each call; each message is so late.
  Picoseconds spent_ps = 0, hop_ps = 0;
  bool start_and_wait = false;  // by meshcoll_start and _wait, as NCCL's callers do, and not by a call that blocks
  std::vector<CallTime>* calls = nullptr;  // gets those that succeed, as they end; nullptr: nobody asks
  OperationLog* log = nullptr;             // of all ranks of this process; nullptr: none is kept
  std::string label{};                     // what the log calls it; empty: the operation's name

  bool sends(int rank) const {
    return senders.empty() || std::find(senders.begin(), senders.end(), rank) != senders.end();
  }
};

/// How operations follow each other, by the names of nccl-tests' options (its src/common.cu, BenchTime).
struct Pacing {
  enum class Wait {
    kTogether,  // an iteration begins when all ranks have ended the one before, which its time leaves out (-z 3)
    kBarrier,   // a rank waits for each operation and then for all ranks, and its time has both (-z 1)
    kOwn,       // a rank waits for each of its operations (-z 2)
    kQueued,    // all are started at once, and waited for at the end (-z 0)
  };
  Wait wait = Wait::kTogether;
  int operations = 1;  // of one iteration (-m)
  int launches = 1;    // all iterations again, so often (-G)

  /// Each iteration by itself, as run_case() has it.
  bool is_plain() const { return wait == Wait::kTogether && operations == 1; }
};

CollectiveShape shape_of(const CollectiveCase& wanted, int ranks);
/// Of sendrecv: whom `rank` sends to, and from whom it receives; -1: nobody.
int target_of(const CollectiveCase& wanted, int rank, int ranks);
int source_of(const CollectiveCase& wanted, int rank, int ranks);

struct IterationTime {
  Picoseconds start_ps = -1;
  Picoseconds end_ps = -1;  // of the last rank
};

/// What the ranks found out together; one board a case, written by all ranks.
struct CaseResults {
  std::vector<IterationTime> iterations;
  std::vector<std::uint64_t> results;  // by rank: XXH3-64 of its result of the last iteration; empty: not checked
  std::uint64_t wrong = 0;             // elements, over all ranks and iterations
  std::uint64_t checked = 0;
  std::string first_wrong;  // "rank 1, iteration 0, element 17: 3 instead of 4"
  int operations = 1;       // of each iteration
  // Of buffers of GPU memory, where the world can tell: what all ranks' GPUs did in the calls, and of how many of
  // those.
  GpuWork gpu;
  std::uint64_t gpu_calls = 0, gpu_direct_calls = 0;  // direct: as meshcoll_stats has it

  Picoseconds total_ps() const;
  Picoseconds average_ps() const;  // of an operation
  Picoseconds fastest_ps() const;  // of an operation, in the fastest iteration
};

/// The engine copies what it is given once into host memory and its result once back, neither where messages are in GPU
/// memory itself, and never waits for all of a GPU's work: of so many calls, all ranks together.
sim::Proof gpu_kept_going(const GpuWork& work, std::uint64_t calls, std::uint64_t direct_calls);

/// What the ranks of this process wrote on a board, and the taking in of what another process's did; case_results.cpp.
nlohmann::json board_findings(const CaseResults& board);
/// Throws nlohmann::json::exception where these are none.
void take_in_findings(CaseResults& board, const nlohmann::json& findings);

/// The buffers of one rank, large enough for every case that it will run; reused from case to case.
class CollectiveBuffers {
 public:
  CollectiveBuffers(std::uint64_t largest_bytes, int ranks, bool out_of_place);
  std::byte* send() { return send_.get(); }  // nullptr where everything is in place
  std::byte* recv() { return recv_.get(); }
  std::uint64_t size_bytes() const { return size_bytes_; }  // of each

  /// From now on calls are on the rank's GPU memory, and these buffers hold what it gets and gives; `device`: of its
  /// node. By the rank's thread, as leave_gpu().
  Result<void> enter_gpu(int device);
  void leave_gpu() { gpu_.reset(); }
  GpuBuffers* gpu() { return gpu_.get(); }  // nullptr: calls are on host memory

 private:
  std::uint64_t size_bytes_ = 0;
  std::unique_ptr<GpuBuffers> gpu_;
  // Left uninitialised: every case writes what it reads, and untouched pages cost nothing.
  std::unique_ptr<std::byte[]> send_;
  std::unique_ptr<std::byte[]> recv_;
};

/// One for each rank. Owned by whoever runs the simulation, and kept until it is over: what a failed rank leaves
/// registered may still be written to.
/// Throws std::runtime_error where they would not fit into the memory that this machine has left; `option` is what the
/// user has to lower.
std::vector<CollectiveBuffers> buffers_for(int ranks, std::uint64_t largest_bytes, bool out_of_place,
                                           const std::string& option);

/// Where the salts of a run's cases start. The data descend from the seed: another seed, other results.
std::uint32_t first_salt(std::uint64_t seed);

/// How the engine would carry it out.
Result<EnginePlan> plan_of(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted);

/// Runs the case on this rank; all ranks call it with the same case. `salt` differs from case to case, so that a result
/// of an earlier one cannot pass for this one's. Each rank calls `before_iteration` (where there is one) with the
/// iteration's number before it, rank 0 `after_iteration` after it.
Result<void> run_case(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                      std::uint32_t salt, CaseResults& board, const std::function<void()>& after_iteration = {},
                      const std::function<Result<void>(int)>& before_iteration = {});

/// Runs the case's iterations so, on buffers that are filled once and never checked, for the operations of one
/// iteration follow each other on the same ones. The board has the times: an iteration begins where the one before
/// ended, except with Wait::kTogether.
Result<void> run_paced(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                       const Pacing& pacing, std::uint32_t salt, CaseResults& board);

}  // namespace meshbed::testbed
