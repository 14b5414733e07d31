#pragma once
// Communicator: one rank's part in a group: its store, its net plugin, its connections, and the two threads that drive
// them. Calls are serialised by the caller.
//
// An operation goes from the caller to the service thread (connections, registrations: prepare), from there to the
// progress thread (transfers: execute), and back. The first error that leaves data in flight, or leaves another rank
// waiting, breaks the communicator, as it does NCCL's: the failure is announced to every rank, the connections are
// closed so that no peer can write into memory that the caller is about to free, and every later call answers with the
// same reason. A send_recv whose only peer could not be connected breaks nothing: both ends know, and nothing moved.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/algorithm.h"
#include "plugin/coll/connection.h"
#include "plugin/coll/datatype.h"
#include "plugin/coll/executor.h"
#include "plugin/coll/memory.h"
#include "plugin/coll/plan.h"
#include "plugin/coll/store_client.h"
#include "plugin/coll/store_server.h"
#include "plugin/coll/transport.h"
#include "plugin/coll/worker.h"

namespace meshbed::coll {

struct Schedule;
struct ScheduleMemory;

struct CommunicatorOptions {
  int rank = 0, world = 1;
  std::string bootstrap{};
  std::string net_plugin{};
  int net_version = 0;
  int channels = 1;
  std::vector<int> channel_devices{};  // empty: channel c opens device c % devices
  std::uint64_t slice_bytes = 1 << 20;
  int steps = 8;
  std::int64_t connect_timeout_ms = 30000;
  std::int64_t operation_timeout_ms = 0;
  AlgorithmChoice algorithm{};
  CostModel network{};
};

/// Where the ranks of a communicator meet.
StoreServer::Options server_options(const CommunicatorOptions& options, const SocketAddress& address);

/// One collective call, as the caller made it. Counts are elements; plan.h says of what.
struct Operation {
  Collective collective = Collective::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0, receive_count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0, to = -1, from = -1;
};

class Communicator {
 public:
  /// Returns when every rank of the world has arrived with the same options.
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options) {
    return create(options, nullptr);
  }
  /// A communicator of some ranks of this one, in this order, ourselves among them. Every rank of this one calls, each
  /// with its own group's members; nullptr where there are none. What becomes of one is nothing to the other.
  Result<std::unique_ptr<Communicator>> create_group(const std::vector<int>& members);
  /// In any state. Rank 0 stays until the others have left, at most connect_timeout_ms.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Result<void> run(const Operation& operation);
  /// Through the store: every rank reports to rank 0, which answers all at once. 2 messages per rank, whatever the
  /// cabling; a ring of zero-byte messages would take 2n steps and need no less.
  Result<void> barrier();
  Result<void> keep_registered(void* data, std::uint64_t size_bytes);
  Result<void> drop_registered(const void* data);

  int rank() const { return options_.rank; }
  int world() const { return options_.world; }
  const LaneCounters& counters() const { return counters_; }

 private:
  explicit Communicator(const CommunicatorOptions& options) : options_(options) {}
  /// `server`: where others meet us already, at options.bootstrap.
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options,
                                                      std::unique_ptr<StoreServer> server);
  Result<void> start();
  Result<void> open_transport();
  Result<std::unique_ptr<StoreServer>> meet_group(const std::vector<int>& members, CommunicatorOptions* options);
  Result<void> choose_devices();

  PlanRequest request_of(const Operation& operation) const;
  // On the service thread.
  Result<void> prepare(const Operation& operation, Lanes* lanes);
  Result<void> connect_peers(const std::vector<Leg>& legs);
  /// `memory` has the buffers and the kernels; what connects it with the network is added.
  Result<void> register_for_sends(const Plan& plan, LaneMemory* memory);
  Result<void> register_for_receives(const Plan& plan, LaneMemory* memory);
  Result<void> prepare_schedules(Algorithm algorithm, PlanRequest request, const Operation& operation, Lanes* lanes);
  Result<void> give_memory(const Schedule& schedule, ScheduleMemory* memory);
  void break_down(const Error& error);

  bool leaves_peers_unharmed(const Operation& operation, const Error& error) const;
  Result<void> usable() const;

  const CommunicatorOptions options_;
  std::vector<int> channel_devices_;
  std::unique_ptr<StoreServer> server_;  // rank 0's
  std::unique_ptr<StoreClient> store_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<MemoryTable> memory_;
  std::unique_ptr<ConnectionTable> connections_;
  std::unique_ptr<Worker> service_, progress_;
  LaneCounters counters_;
  std::uint64_t operations_ = 0, groups_ = 0;
  std::optional<Error> broken_;
};

}  // namespace meshbed::coll
