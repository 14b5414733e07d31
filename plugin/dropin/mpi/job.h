#pragma once
// Job: the ranks of an MPI program, which meet at rank 0's store (plugin/coll/store) on the management network. All
// bytes go through rank 0: MPI carries here what programs of NCCL's use it for, an id, a few numbers, a barrier.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"

namespace meshbed::dropin::mpi {

class Job {
 public:
  /// As the launcher's variables say (plugin/coll/api/launcher.h); a world of one where there are none. Returns when
  /// every rank is there.
  static Result<std::unique_ptr<Job>> join();

  int rank() const { return rank_; }
  int world() const { return world_; }

  /// What each of `members` (world ranks, one of them ours) has handed over, in their order. `name` is this exchange's
  /// alone.
  Result<std::vector<std::string>> exchange(const std::string& name, const std::vector<int>& members,
                                            const std::string& mine);
  /// Messages of one name meet in the order in which both sides name them: the caller numbers them.
  Result<void> send(const std::string& name, const std::string& bytes);
  Result<std::string> receive(const std::string& name, int from);
  Result<void> barrier();
  /// Tells all ranks that the job has failed; `text` says why.
  void fail(const std::string& text);

 private:
  Job(int rank, int world) : rank_(rank), world_(world) {}

  const int rank_, world_;
  std::unique_ptr<coll::StoreServer> server_;  // rank 0's; both are null in a world of one
  std::unique_ptr<coll::StoreClient> store_;   // ends first
};

}  // namespace meshbed::dropin::mpi
