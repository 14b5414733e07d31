#pragma once
// Communicator: one rank's part in a group: its store, its net plugin, its connections, and the two threads that drive
// them. Calls are serialised by the caller; abort() is for any thread.
//
// A call is issued and waited for. Calls run in the order in which they were issued, one after the other: each goes to
// the service thread (connections, registrations: prepare), which has the progress thread move the data (execute) and
// waits for that. The first error that leaves data in flight or another rank waiting breaks the communicator, as in
// NCCL: the failure is announced to every rank, the connections are closed so that no peer can write into memory that
// the caller is about to free, and every later call returns the same reason. A send_recv whose only peer could not be
// connected breaks nothing: both ends know of it, and nothing was moved.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/signature.h"
#include "plugin/coll/plan/torus_shape.h"
#include "plugin/coll/run/call.h"
#include "plugin/coll/run/executor.h"
#include "plugin/coll/run/worker.h"
#include "plugin/coll/store/long_wait.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "plugin/coll/transport/connection.h"
#include "plugin/coll/transport/direct_messages.h"
#include "plugin/coll/transport/memory.h"
#include "plugin/coll/transport/transport.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/memory.h"

namespace meshbed::coll {

class Gpu;
class Loan;
class RecordedCall;
class StreamOrder;
struct GpuCopy;
struct GpuSumPlace;
struct Schedule;
struct ScheduleMemory;
struct StreamMemory;

struct CommunicatorOptions {
  int rank = 0, world = 1;
  std::string bootstrap{};
  std::string net_plugin{};
  int net_version = 0;
  int channels = 1;
  std::vector<int> channel_devices{};  // empty: channel c opens device c % devices
  std::uint64_t slice_bytes = 1 << 20;
  int steps = 8;
  std::int64_t connect_timeout_ms = 30000;  // 0: none: every rank that lives is awaited
  std::int64_t reach_timeout_ms = 0;        // until rank 0 listens; 0: connect_timeout_ms, or a minute without it
  std::int64_t operation_timeout_ms = 0;
  ChoiceRules way{};
  std::vector<MeshCable> cables{};  // empty: not known
  std::vector<int> rank_mbps{};     // as Mesh's
  std::vector<int> shape{};         // lengths; empty: as torus_shape() finds them
  /// Empty, or called with the reason before the connections of a communicator that breaks are closed.
  std::function<void(const std::string&)> on_break{};

  /// After which a wait is a long one (long_wait.h).
  std::int64_t long_wait_ms() const { return long_part_of(connect_timeout_ms); }
  /// A limit for waits that must end even if the other rank lives.
  std::int64_t patience_ms() const { return connect_timeout_ms > 0 ? connect_timeout_ms : 30000; }
};

/// Where the ranks of a communicator meet.
StoreServer::Options server_options(const CommunicatorOptions& options, const MeetingPlace& place);

/// One collective call, as the caller made it. Counts are elements (plan.h).
struct Operation {
  Collective collective = Collective::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0, receive_count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0, to = -1, from = -1;
  std::uint64_t input_bytes = 0, output_bytes = 0;  // of the caller's memory that this rank reads, and writes
  bool in_stream = false;
  void* stream = nullptr;  // a CUstream; null: CUDA's default stream
  // Of an operation whose messages are in its GPU memory itself: how that is registered. nullptr: they are not.
  const GpuAccess* direct = nullptr;
  bool lends_input = false;  // but what it gives, which its own output would overwrite
  // Of an operation that works in pinned memory lent to it (loan.h).
  cuda::CUcontext lender = nullptr;           // whose memory all of the caller's is; null: not of one GPU's
  const char* lent_input = nullptr;           // the caller's
  std::shared_ptr<const GpuSumPlace> sums{};  // where the lender reduces
};

/// Whether it has anything to reduce.
inline bool reduces(const Operation& operation, int world) {
  return meshbed::reduces(operation.collective) && world > 1 && operation.count > 0;
}

/// How an operation went, or would go.
struct PlanRecord {
  Collective collective = Collective::kAllReduce;
  AlgorithmProtocol way{};
  int channels = 0;  // that carry a part of it
};
/// "ring", ...; "pairs" for collectives that go between pairs of ranks where another has its ring.
const char* algorithm_name(const PlanRecord& record);

/// One operation's own name, or that of a group.
const char* name_of(const std::vector<Operation>& operations);

/// `default_ms` where there is no deadline; never zero where there is.
inline std::int64_t left_of(const Deadline& deadline, std::int64_t default_ms) {
  return deadline.is_never() ? default_ms : std::max(1, deadline.remaining_ms());
}

class Communicator {
 public:
  /// Returns when every rank of the world has arrived with the same options.
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options) {
    return create(options, nullptr);
  }
  /// The same; where `listener` is valid, it stands at options.bootstrap already, and we are rank 0.
  static Result<std::unique_ptr<Communicator>> create_at(const CommunicatorOptions& options, Socket listener);
  /// A communicator of some ranks of this one, in this order, including our own. Every rank of this one calls, each
  /// with its own group's members; nullptr if there are none. A failure of one does not affect the other.
  Result<std::unique_ptr<Communicator>> create_group(const std::vector<int>& members);
  /// Of the ranks with our color, by key, then by rank. Every rank of this one calls; a negative color has no group.
  Result<std::unique_ptr<Communicator>> split(int color, int key);
  /// A communicator of those ranks of this one, in their order, that make this call and live; this one is aborted. Rank
  /// 0's store sends all of them the list: without rank 0 there is none (kRemote).
  Result<std::unique_ptr<Communicator>> rebuild();
  /// In any state. Rank 0 stays until the others have left, at most connect_timeout_ms; without that, where the
  /// communicator is broken, 30 s.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Several operations are a group: its send_recvs all progress at once, after its other operations, which run one
  /// after the other. `timeout_ms`: from now; 0: as the options have it. They begin when all of their streams have come
  /// to them, which go on when they have ended.
  std::shared_ptr<Call> issue(std::vector<Operation> operations, std::int64_t timeout_ms);
  /// Through the store: every rank reports to rank 0, which replies to all at once. 2 messages per rank with any
  /// cabling; a ring of zero-byte messages would take 2n steps and as many messages.
  std::shared_ptr<Call> issue_barrier(std::int64_t timeout_ms);
  /// Issues and waits.
  Result<void> run(const Operation& operation);
  /// Ends, from any thread, what every rank waits for here, with an error that names us, our last call and `reason`.
  /// When it returns, nothing issued before is under way on this rank, and its memory may be freed.
  void abort(const std::string& reason);
  Result<void> keep_registered(void* data, std::uint64_t size_bytes);
  Result<void> drop_registered(const void* data);

  struct Break {
    Error error;
    int culprit;
  };
  /// Why this communicator is broken, as far as is known: also if another rank announced it and no call was made since.
  /// From any thread, without waiting: the service thread is asked to look, for the next call.
  std::optional<Break> broken_by();

  int rank() const { return options_.rank; }
  int world() const { return options_.world; }
  ChannelCounters counters() const;
  /// Of the last operation that was prepared; of a group the last one of it.
  std::optional<PlanRecord> last_plan() const;
  /// How the operation would go, on all channels.
  PlanRecord plan_of(const Operation& operation);
  /// A graph has come to a call that its stream recorded; a thread of CUDA's. Does not wait.
  void launch(RecordedCall& recorded);
  /// Whether calls can be in streams and on GPU memory: CUDA has been loaded by this process.
  bool has_gpu() const;

 private:
  /// What a choice depends on: collective, root, count, bytes of an element.
  using ChoiceKey = std::tuple<Collective, int, std::uint64_t, std::uint64_t>;

  explicit Communicator(const CommunicatorOptions& options)
      : options_(options),
        mesh_(make_mesh(options.world, options.cables, options.rank_mbps)),
        torus_(torus_shape(mesh_, options.shape)) {}
  /// `server`: where others meet us already, at options.bootstrap.
  static Result<std::unique_ptr<Communicator>> create(const CommunicatorOptions& options,
                                                      std::unique_ptr<StoreServer> server);
  Result<void> start();
  Result<void> open_transport();
  /// `name`: the group's, which no other of this communicator has.
  Result<std::unique_ptr<Communicator>> meet(const std::vector<int>& members, const std::string& name);
  Result<std::unique_ptr<StoreServer>> meet_group(const std::vector<int>& members, const std::string& name,
                                                  CommunicatorOptions* options);
  Result<void> choose_devices();

  /// On the service thread, or the caller's: a root's trees are made for its first operation.
  PlanRequest request_of(const Operation& operation);
  AlgorithmProtocol way_of(const PlanRequest& request);
  Protocol protocol_of(const Operation& operation);
  // On the service thread.
  /// `body` finishes the call where it succeeds.
  void serve(Call& call, const std::function<Result<void>()>& body);
  Result<void> perform(Call& call, const std::vector<Operation>& operations, const Deadline& deadline);
  /// `last_of`: the call that ends with these; nullptr: none does.
  Result<void> transfer(std::span<const Operation> operations, const Deadline& deadline, Call* last_of);
  /// The same once: where the plugin refuses GPU memory nothing has moved.
  Result<void> transfer_once(std::span<const Operation> operations, const Deadline& deadline, Call* last_of);
  /// On memory that messages can go from and into.
  Result<void> transfer_host(std::span<const Operation> operations, const Deadline& deadline, Call* last_of);
  // communicator_gpu.cpp
  std::shared_ptr<Gpu> gpu() const;
  Result<std::shared_ptr<Gpu>> need_gpu();
  void adopt(std::shared_ptr<Gpu> gpu);
  Result<void> prepare_sums(const std::vector<Operation>& operations);
  Result<std::vector<GpuCopy>> choose_direct(Gpu& gpu, std::vector<Operation>* operations);
  Result<const GpuAccess*> direct_access(Gpu& gpu, const Operation& operation) const;
  Result<std::shared_ptr<StreamOrder>> enter_streams(std::vector<Operation>* operations);
  void refuse(const std::shared_ptr<Call>& call, const Error& error);
  Result<void> await_streams(StreamOrder& order, const Deadline& deadline, const Call& call);
  Result<void> lend(Gpu& gpu, Loan* loan);
  void keep_staging(const cuda::PinnedMemory* staging);
  void count_copies(std::uint64_t copied_bytes);
  void count_direct(std::span<const Operation> operations, bool are_direct);
  std::shared_ptr<const GpuSumPlace> sum_place(Gpu& gpu, const Operation& operation);
  Result<void> copy_by_gpu(Gpu& gpu, const std::vector<GpuCopy>& copies, const Deadline& deadline);
  // recorded_call.cpp
  struct LaunchedCall {
    std::shared_ptr<Call> call;
    RecordedCall* recorded = nullptr;
  };
  Result<bool> record(const std::vector<Operation>& operations, std::int64_t timeout_ms);
  void serve_launched();
  /// Runs them on the progress thread.
  Result<void> drive(ChannelRuns& channel_runs, const Deadline& deadline);
  Result<void> prepare(std::span<const Operation> operations, std::int64_t connect_timeout_ms,
                       ChannelRuns* channel_runs);
  /// How many channels have something to send or receive.
  Result<int> add_channel_runs(const Operation& operation, const SubPlan& sub_plan, Protocol protocol,
                               ChannelRuns* channel_runs);
  Result<void> connect_peers(const std::vector<SubPlan>& sub_plans, std::int64_t timeout_ms);
  /// `memory` has the buffers and the kernels; what connects it with the network is added.
  Result<void> register_for_sends(const Plan& plan, Protocol protocol, ChannelMemory* memory);
  Result<void> register_for_receives(const Plan& plan, Protocol protocol, ChannelMemory* memory);
  /// What a channel run takes for the connection: `slots` messages of at most so many bytes are under way.
  /// `direct`: messages are in GPU memory.
  Result<void*> comm_of(Connection& connection, Protocol protocol, std::uint64_t size_bytes, int slots, bool direct);
  /// nullptr: a channel run alone in the world has no plugin, and never calls one.
  Messages* messages_by(Protocol protocol, bool direct) const;
  Result<void> prepare_schedules(AlgorithmProtocol way, PlanRequest request, const Operation& operation,
                                 std::int64_t connect_timeout_ms, ChannelRuns* channel_runs);
  Result<void> give_memory(const Schedule& schedule, Protocol protocol, ScheduleMemory* memory);
  Result<void> register_for_stream(const Schedule& schedule, const ScheduleMemory& memory, std::uint64_t work_bytes,
                                   StreamMemory* stream);
  void break_down(const Error& error);
  void look_for_failure();

  bool leaves_peers_unharmed(const Operation& operation, const Error& error) const;
  Result<void> usable() const;
  void count(const ChannelRuns& channel_runs);
  void note_plan(const PlanRecord& record);
  void note_begun(const std::string& name);
  /// On the service thread: this rank turns to it. Gives it its number, and its messages their tag.
  void turn_to(const Operation& operation);
  void turn_to_barrier();
  void note_call(const CallSignature& call);
  /// The last calls, the one under way first; any thread.
  std::vector<CallSignature> recent_calls() const;
  /// The service thread turns to the call.
  void begin(const Call& call);

  const CommunicatorOptions options_;
  const Mesh mesh_;
  const TorusShape torus_;
  std::vector<int> channel_devices_;
  std::unique_ptr<StoreServer> server_;  // rank 0's
  std::unique_ptr<StoreClient> store_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<LinedMessages> lined_;
  std::unique_ptr<DirectMessages> direct_;
  int gpu_support_ = 0;  // kPtrCuda, kPtrDmaBuf: supported by all of our devices
  std::unique_ptr<MemoryTable> memory_;
  std::unique_ptr<ConnectionTable> connections_;
  std::unique_ptr<Worker> service_, progress_;
  std::atomic<std::uint64_t> calls_ = 0;
  std::uint64_t groups_ = 0;
  std::vector<RecordedCall*> recorded_;  // the caller's thread's
  std::mutex choice_mutex_;              // of the next two
  std::map<ChoiceKey, AlgorithmProtocol> choices_;
  std::map<int, RootTrees> root_trees_;  // by root
  // The service thread's own.
  std::optional<Error> broken_;
  int culprit_ = -1;                                               // the rank that the last error was about
  bool harmless_ = false;                                          // it breaks nothing
  std::uint64_t collectives_ = 0;                                  // that this rank has turned to
  int tag_ = kTagOfSender;                                         // of the messages of the operation under way
  std::map<const char*, const cuda::PinnedMemory*> kept_staging_;  // stays registered
  // Of all threads.
  std::atomic<bool> aborted_ = false, has_launched_ = false;
  std::atomic<bool> refused_direct_ = false;  // the plugin did not register GPU memory
  mutable std::mutex mutex_;
  std::deque<LaunchedCall> launched_;
  ChannelCounters counters_;
  std::optional<PlanRecord> last_plan_;
  std::string last_begun_ = "no call";
  std::deque<CallSignature> recent_calls_;
  std::optional<Break> known_break_;  // broken_ and culprit_
  bool looks_ = false;                // the service thread is to look
  std::shared_ptr<Gpu> gpu_;          // nullptr: the process has no CUDA, as far as we know
};

}  // namespace meshbed::coll
