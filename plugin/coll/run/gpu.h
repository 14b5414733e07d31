#pragma once
// Gpu: a communicator's part in CUDA. It puts calls into the caller's streams, and lends operations on GPU memory host
// memory to work in.
//
// A call in a stream begins when the stream comes to it and holds what the stream is given afterwards until it has
// ended: an event before it, which the progress thread looks at, and behind that a wait for a word of pinned memory,
// which the end of the call writes. So nothing waits for a whole device, and no thread of CUDA's waits for the network.
// Calls of a communicator end in the order in which they were made: one word, counted up, serves all of its streams.
//
// Where the net plugin registers GPU memory (GPUDirect RDMA), messages of operations in streams that do not reduce,
// or that the GPU reduces, are in the caller's own, unless MESHBED_GPU_DIRECT=0; what a rank gives to itself is copied
// in its stream, before the event. Else the messages' memory is the host's: an operation on GPU memory is copied into
// pinned memory, run there, and copied back; two copies of each byte with every algorithm, and the same bits as on
// host memory. Copies of a call in a stream stand in that very stream, before the event and behind the wait. A device
// has few queues for its streams' work (measured on an H200: eight), and what stands behind a held stream in one of
// them waits for that stream: a copy by a stream of our own would wait for the call that needs it. In the caller's
// stream it waits only for calls that were made before, on every rank alike.
//
// Copies of calls in no stream are by a stream of our own, and may have to wait for calls that hold others. The
// reductions are the processor's, or with MESHBED_GPU_SUMS=1 the GPU's (gpu_sums.h): then the slots that slices arrive
// in are pinned memory, too. Memory of a GPU's that the host can follow (managed, pinned) is used as it is, by the
// processor.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/run/channel_run.h"
#include "plugin/coll/run/gpu_sums.h"
#include "plugin/coll/run/pinned_pool.h"
#include "plugin/coll/transport/memory.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/stream.h"

namespace meshbed::coll {

/// Bytes to be copied; one of the two is pinned memory.
struct GpuCopy {
  cuda::CUcontext context = nullptr;  // the GPU memory's
  cuda::CUstream stream = nullptr;    // the operation's, where it stands in one
  char* target = nullptr;
  const char* source = nullptr;
  std::uint64_t size_bytes = 0;
};

struct Operation;
class Gpu;
class Loan;
class RecordedCall;
class StreamOrder;

/// Where and with which kernels a GPU reduces for an operation.
struct GpuSumPlace {
  Gpu& gpu;
  cuda::CUcontext context = nullptr;
  GpuReduceKernels kernels;
  const char* input = nullptr;  // the caller's, in the GPU's memory

  std::shared_ptr<GpuSums> of_a_run() const { return std::make_shared<GpuSums>(gpu, context, kernels); }
};

/// Those that the operations are put into, each once.
std::vector<cuda::CUstream> streams_of(const std::vector<Operation>& operations);

class Gpu {
 public:
  /// kUnsupported where there is no CUDA to be had.
  static Result<std::shared_ptr<Gpu>> open();

  const cuda::Driver& driver() const { return driver_; }
  /// The calling thread, one of the engine's own, spoils no recording of the caller's from now on.
  void enter_thread() const { cuda::relax_recordings(driver_); }

  /// The context of memory that the host cannot follow; null: it can. Any thread.
  Result<cuda::CUcontext> context_behind(const void* data);
  /// How that memory is registered where it is a GPU's and adapters may be given it; nullptr: it is not, or they may
  /// not, or MESHBED_GPU_DIRECT=0. `support`: the net plugin's, kPtrCuda and kPtrDmaBuf. Good as long as this lives.
  Result<const GpuAccess*> access_to(const void* data, int support);
  /// Loads what reduces in the current context, where GPUs reduce: a driver waits for its device when it loads kernels,
  /// so that this is done when a communicator is made. Without a context it is done before the first operation.
  Result<void> load_sums();
  /// Finds what the operation is to be reduced with, where GPUs reduce and its memory is one's. Caller's thread, before
  /// the call holds a stream.
  Result<void> prepare_sums(const Operation& operation);
  /// What was prepared; nullopt: nothing.
  std::optional<GpuReduceKernels> sum_kernels(cuda::CUcontext context, DataType type, ReduceOp op);
  /// Pinned memory that GPUs find where the host finds it; until the last owner lets go.
  Result<std::shared_ptr<char>> pinned(cuda::CUcontext context, std::uint64_t size_bytes) const;
  /// Waits until our own stream in that context has nothing left to do.
  void settle(cuda::CUcontext context);
  /// At least so much pinned memory, for one operation in no stream after the other; service thread. The earlier ones
  /// stay until the communicator goes.
  Result<const PinnedBlock*> staging(cuda::CUcontext context, std::uint64_t size_bytes);

  /// Our own stream in that context, made when it is first wanted; progress thread.
  Result<const cuda::Stream*> stream_in(cuda::CUcontext context);

  // By the caller's thread:
  /// Whether the streams record a graph: all of them, or none.
  Result<bool> are_recording(const std::vector<cuda::CUstream>& streams) const;
  Result<PinnedWord> word_of_recorded(const std::vector<cuda::CUstream>& streams) const;
  /// What the loan needs, which it takes; for a call in those streams. `is_recorded`: it is the call's own for ever.
  Result<PinnedBlock> pinned_for(const std::vector<cuda::CUstream>& streams, Loan& loan, bool is_recorded) const;
  /// The call becomes part of the graph that the streams record, and all of them wait for it.
  Result<void> record(const std::vector<cuda::CUstream>& streams, RecordedCall& call, const Loan& loan) const;
  /// A place in the streams for the next call, none of which records. An error means that none of them was touched.
  Result<std::shared_ptr<StreamOrder>> enter(const std::vector<cuda::CUstream>& streams, std::shared_ptr<Gpu> self,
                                             const Loan& loan, PinnedBlock staging);

 private:
  using SumKey = std::tuple<cuda::CUcontext, DataType, ReduceOp>;

  Gpu(cuda::Driver driver, bool sums, bool direct) : driver_(driver), sums_(sums), direct_(direct) {}
  Result<const GpuReduce*> reduce_in(cuda::CUcontext context);
  /// A stream's own context; that of a default stream is whichever is current.
  Result<cuda::CUcontext> context_of(cuda::CUstream stream) const;
  /// Those of that stream's operations.
  Result<void> copy_in_stream(const std::vector<GpuCopy>& copies, cuda::CUstream stream) const;

  const cuda::Driver driver_;
  const bool sums_;    // GPUs reduce
  const bool direct_;  // messages may be in GPU memory
  std::mutex mutex_;   // of the next four
  std::map<cuda::CUcontext, GpuReduce> reduces_;
  std::map<SumKey, GpuReduceKernels> sum_kernels_;
  std::map<cuda::CUdevice, cuda::CUcontext> primaries_;  // for memory without a context: kept until the process ends
  std::map<cuda::CUcontext, GpuAccess> accesses_;        // of one communicator's plugin
  std::vector<PinnedBlock> staging_;                     // the last one is in use
  std::map<cuda::CUcontext, cuda::Stream> streams_;
  PinnedBlock word_;  // goes on counting where its last communicator ended: streams may look at it yet
  std::uint32_t entered_ = 0;
};

/// One call's place in the caller's streams.
class StreamOrder {
 public:
  /// Whether all streams have come to it, and what it is given has been copied.
  Result<bool> has_come();
  /// The streams go on. Once, when everything before has been let go as well; any thread.
  void release();
  /// What the call works in until then; nullptr: in the caller's own.
  const cuda::PinnedMemory* staging() const { return staging_; }

 private:
  friend class Gpu;
  struct Place {
    cuda::CUcontext context = nullptr;
    cuda::Event before;
  };
  std::shared_ptr<Gpu> gpu_;  // a call may outlive its communicator
  std::vector<Place> places_;
  Result<void> entered_;
  const cuda::PinnedMemory* staging_ = nullptr;  // the pool's, which knows when the streams come behind us
  std::uint32_t* word_ = nullptr;
  std::uint32_t number_ = 0;
};

/// Waits for the caller's streams, as a channel run does for the network.
class StreamTurn final : public ChannelRun {
 public:
  /// `aborted`: then it waits no longer; `has_launched`: nor where a graph has launched a call, which may be what
  /// stands before it in its stream.
  StreamTurn(StreamOrder& order, const std::atomic<bool>& aborted, const std::atomic<bool>& has_launched)
      : order_(order), aborted_(aborted), has_launched_(has_launched) {}
  Result<bool> advance() override;
  bool finished() const override { return come_ || gives_way_; }
  bool come() const { return come_; }
  std::string waiting_for() const override { return "the work before it in its stream"; }
  int awaited() const override { return -1; }

 private:
  StreamOrder& order_;
  const std::atomic<bool>&aborted_, &has_launched_;
  bool come_ = false, gives_way_ = false;
};

/// Copies by our own stream; those of one context are one run.
class CopyRun final : public ChannelRun {
 public:
  CopyRun(Gpu& gpu, std::vector<GpuCopy> copies) : gpu_(gpu), copies_(std::move(copies)) {}
  Result<bool> advance() override;
  bool finished() const override { return ended_; }
  std::string waiting_for() const override { return "copies between GPU memory and the host's"; }
  int awaited() const override { return -1; }
  /// Waits until none of its copies is under way. A run that did not finish has to: the memory is the caller's again.
  void settle() const;

 private:
  Result<bool> begin();

  Gpu& gpu_;
  const std::vector<GpuCopy> copies_;
  const cuda::Stream* stream_ = nullptr;  // since the first copy
  cuda::Event end_;
  bool begun_ = false, ended_ = false;
};

}  // namespace meshbed::coll
