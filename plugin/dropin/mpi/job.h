#pragma once
// Job: the ranks of an MPI program, which meet at rank 0's store (plugin/coll/store) on the management network. All
// bytes go through rank 0: this serves what NCCL programs use MPI for, an id, a few numbers, a barrier.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"

namespace meshbed::dropin::mpi {

class Job {
 public:
  /// Joins as the launcher's variables define it (plugin/coll/api/launcher.h); a world of one rank where there are
  /// none. Returns when every rank has joined.
  static Result<std::unique_ptr<Job>> join();

  int rank() const { return rank_; }
  int world() const { return world_; }

  /// Returns each member's `mine`, in the order of `members` (world ranks, ours among them). `name` is unique to this
  /// exchange. kUnsupported, on every member: it is too large.
  Result<std::vector<std::string>> exchange(const std::string& name, const std::vector<int>& members,
                                            const std::string& mine);
  /// kUnsupported: a message of this size is too large.
  static Result<void> check_size(std::size_t bytes);
  /// `name` is unique to this message. Returns before it is received.
  Result<void> send(const std::string& name, int to, const std::string& bytes);
  Result<std::string> receive(const std::string& name, int from);
  Result<void> barrier();
  /// Ends the job on all ranks with this error.
  void fail(const std::string& text);
  /// The same without waiting, from any thread.
  void abort(const std::string& text);

 private:
  Job(int rank, int world) : rank_(rank), world_(world) {}
  /// exchange() at the first member, which gathers all parts and sends them to the others, and at those.
  Result<std::vector<std::string>> gather(const std::string& name, const std::vector<int>& members,
                                          const std::string& mine);
  Result<std::vector<std::string>> ask(const std::string& name, int hub, std::size_t members, const std::string& mine);

  const int rank_, world_;
  std::map<std::string, std::string> to_self_;  // messages that this rank sent to itself, by name
  std::unique_ptr<coll::StoreServer> server_;   // rank 0's; both are null in a world of one
  std::unique_ptr<coll::StoreClient> store_;    // must be destroyed before the server
};

}  // namespace meshbed::dropin::mpi
