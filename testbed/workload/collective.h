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
  std::optional<std::uint64_t> count{};             // elements that the caller passes, instead of `bytes`
  bool in_place = true;
  int iterations = 1;
  bool check = true;
  // All ranks of the simulation have the same buffers (buffers_for()), and equal data in each block of them: a block
  // that is moved is as it was, and so is the largest or smallest of equal ones. What lands elsewhere is seen. They are
  // the same in all iterations.
  bool shared_data = false;
  // Use numbers whose sums depend on their order, if the type's do: the result is hashed and not checked.
  bool rough = false;
  int root = 0;
  int shift = 1;               // sendrecv: rank r sends to (r + shift) % ranks
  std::vector<int> senders{};  // sendrecv: the ranks that send; empty: all
  bool timed = true;           // false: run_case() leaves the times of the board as they are
  // Cost of the software by a profile: each rank spends `spent_ps` before each call; each message arrives `hop_ps`
  // later.
  Picoseconds spent_ps = 0, hop_ps = 0;
  bool start_and_wait = false;  // by meshcoll_start and _wait, as NCCL's callers do, instead of a blocking call
  std::vector<CallTime>* calls = nullptr;  // receives the calls that succeed, as they end; nullptr: not recorded
  OperationLog* log = nullptr;             // of all ranks of this process; nullptr: no log
  std::string label{};                     // its name in the log; empty: the operation's name

  bool sends(int rank) const {
    return senders.empty() || std::find(senders.begin(), senders.end(), rank) != senders.end();
  }
};

/// How operations follow each other, by the names of nccl-tests' options (its src/common.cu, BenchTime).
struct Pacing {
  enum class Wait {
    kTogether,  // an iteration begins when all ranks have ended the previous one; its time excludes that wait (-z 3)
    kBarrier,   // a rank waits for each operation and then for all ranks, and its time includes both (-z 1)
    kOwn,       // a rank waits for each of its operations (-z 2)
    kQueued,    // all are started at once and waited for at the end (-z 0)
  };
  Wait wait = Wait::kTogether;
  int operations = 1;  // of one iteration (-m)
  int launches = 1;    // number of times that all iterations run (-G)

  /// Each iteration by itself, as run_case() has it.
  bool is_plain() const { return wait == Wait::kTogether && operations == 1; }
};

CollectiveShape shape_of(const CollectiveCase& wanted, int ranks);
/// For sendrecv: the rank that `rank` sends to, and the one that it receives from; -1: none.
int target_of(const CollectiveCase& wanted, int rank, int ranks);
int source_of(const CollectiveCase& wanted, int rank, int ranks);

struct IterationTime {
  Picoseconds start_ps = -1;
  Picoseconds end_ps = -1;  // of the last rank
};

/// The results of all ranks; one board a case, written by all ranks.
struct CaseResults {
  std::vector<IterationTime> iterations;
  std::vector<std::uint64_t> results;  // by rank: XXH3-64 of its result of the last iteration; empty: not checked
  std::uint64_t wrong = 0;             // elements, over all ranks and iterations
  std::uint64_t checked = 0;
  std::string first_wrong;  // "rank 1, iteration 0, element 17: 3 instead of 4"
  int operations = 1;       // of each iteration
  // For buffers in GPU memory, if the world can count it: the work of all ranks' GPUs during the calls, and the number
  // of these calls.
  GpuWork gpu;
  std::uint64_t gpu_calls = 0, gpu_direct_calls = 0;  // direct: as meshcoll_stats has it

  Picoseconds total_ps() const;
  Picoseconds average_ps() const;  // of an operation
  Picoseconds fastest_ps() const;  // of an operation, in the fastest iteration
};

/// Proves for `calls` of all ranks together: the engine copies its input to host memory once and its result back once,
/// neither if messages are in GPU memory itself, and it never waits for all of a GPU's work.
sim::Proof gpu_kept_going(const GpuWork& work, std::uint64_t calls, std::uint64_t direct_calls);

/// A board's results of this process' ranks as JSON, and the addition of those of another process; case_results.cpp.
nlohmann::json board_findings(const CaseResults& board);
/// Throws nlohmann::json::exception if the JSON does not have that form.
void take_in_findings(CaseResults& board, const nlohmann::json& findings);

/// The buffers of one rank, large enough for every case that it will run; reused from case to case.
class CollectiveBuffers {
 public:
  CollectiveBuffers(std::uint64_t largest_bytes, int ranks, bool out_of_place);
  /// Another rank's, which are the same memory.
  CollectiveBuffers shared() const;
  std::byte* send() { return send_.get(); }  // nullptr if all cases are in place
  std::byte* recv() { return recv_.get(); }
  std::uint64_t size_bytes() const { return size_bytes_; }  // of each

  /// Makes calls use the rank's GPU memory; these buffers then hold the bytes copied to and from it. `device`: index in
  /// its node. Called by the rank's thread, as is leave_gpu().
  Result<void> enter_gpu(int device);
  void leave_gpu() { gpu_.reset(); }
  GpuBuffers* gpu() { return gpu_.get(); }  // nullptr: calls are on host memory

 private:
  CollectiveBuffers() = default;

  std::uint64_t size_bytes_ = 0;
  std::unique_ptr<GpuBuffers> gpu_;
  // Left uninitialised: every case writes what it reads, and untouched pages cost nothing.
  std::shared_ptr<std::byte[]> send_;
  std::shared_ptr<std::byte[]> recv_;
};

/// One for each rank. The caller keeps them until the simulation has ended: memory that a failed rank leaves registered
/// may still be written to.
/// `shared`: they are all the same memory. Throws std::runtime_error if they do not fit into this machine's free
/// memory; `option` is the setting that the user has to reduce.
std::vector<CollectiveBuffers> buffers_for(int ranks, std::uint64_t largest_bytes, bool out_of_place,
                                           const std::string& option, bool shared = false);

/// The first salt of a run's cases. The data depend on the seed: another seed gives other results.
std::uint32_t first_salt(std::uint64_t seed);

/// How the engine would execute the case.
Result<EnginePlan> plan_of(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted);

/// Runs the case on this rank; all ranks call it with the same case. `salt` differs from case to case, so that a result
/// of an earlier one cannot pass for this one's. Each rank calls `before_iteration` (where there is one) with the
/// iteration's number before it, rank 0 `after_iteration` after it.
Result<void> run_case(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                      std::uint32_t salt, CaseResults& board, const std::function<void()>& after_iteration = {},
                      const std::function<Result<void>(int)>& before_iteration = {});

/// Runs the case's iterations in this way, on buffers that are filled once and not checked, because the operations of
/// one iteration share them. The board has the times: an iteration begins where the one before
/// ended, except with Wait::kTogether.
Result<void> run_paced(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted,
                       const Pacing& pacing, std::uint32_t salt, CaseResults& board);

}  // namespace meshbed::testbed
