#pragma once
// GpuRing: a megakernel's ring whose lanes are a GPU's: buffers that both sides reach, the persistent kernel
// (megakernel.h), and the host's side of it. Safe mode's publishing is LiveRing's, on the very same words.
//
// Ownership: a GpuRing owns its memory, its module and two streams, one for the kernel and one for copies beside
// it; the context that is current when it is made is its own and must be current for its calls. One thread uses it.
//
// A persistent kernel ends only by SHUTDOWN. A thread that waits for it before that (synchronize(), cuCtxSynchronize,
// freeing memory) waits for ever: on a GPU silently, on the simulated one with a warning that names the kernel and the
// lines at which it polls. A lane in the middle of a slot does not see SHUTDOWN before the slot has ended.

#include <cstdint>
#include <memory>
#include <optional>

#include "plugin/cuda/memory.h"
#include "plugin/cuda/module.h"
#include "plugin/cuda/stream.h"
#include "plugin/ring/gpu/megakernel.h"
#include "plugin/ring/queue/live_ring.h"
#include "plugin/ring/queue/proxy_queue.h"

namespace meshbed::ring {

/// What a lane is.
enum class GpuLanes { kBlocks, kThreads, kInTurn };

/// Where the control buffer, the debug log and the IO queue are. Slots are in pinned memory always: the host publishes.
enum class GpuPlace {
  kPinned,  // the host's memory, which both sides see: each access of a lane goes over PCIe or what is in its place
  kDevice   // the GPU's: the host looks by copies
};

struct GpuRingShape {
  Word slots = 1, lanes = 1;
  Word tenants = 1, observables = 64;
  Mode mode = Mode::kSafe;
  bool by_priority = false, enforces_quotas = false, has_io = false;
  GpuLanes lanes_are = GpuLanes::kBlocks;
  Word threads = 1;  // of a block; of kBlocks those that help with REDUCE and COPY
  GpuPlace place = GpuPlace::kPinned;
  Word polls_most = 1U << 20;
  MeshBoard board{};        // of a stream of mesh operations; no ids: none
  std::uint64_t depth = 0;  // of its FIFO to the proxy, a power of two
  GpuElement element = GpuElement::kFloat32;
  GpuReduction reduction = GpuReduction::kSum;
  char* spaces[kGpuSpacesMost] = {};  // addresses that the GPU reaches
};

class GpuRing {
 public:
  /// Errors: the driver's; what encode_control() refuses; a depth that is no power of two; more threads than a block
  /// has.
  static Result<std::unique_ptr<GpuRing>> create(const cuda::Driver& driver, const GpuRingShape& shape);
  /// Shuts the ring down and gives a kernel that runs a second to end. One that does not keeps its memory: giving it
  /// back would wait for ever.
  ~GpuRing();
  GpuRing(const GpuRing&) = delete;
  GpuRing& operator=(const GpuRing&) = delete;

  /// Starts the kernel behind what was asked for before; returns at once. `turns`: of each lane; 0: until SHUTDOWN.
  /// `by_step`: a turn is one step of the machine. A lane goes on where the launch before left it.
  Result<void> launch(Word turns = 0, bool by_step = false);
  /// Waits until the kernel has ended. Errors: the driver's, kTimeout.
  Result<void> wait_for_end(std::int64_t timeout_ms);
  /// Whether no kernel runs.
  Result<bool> has_ended() const { return kernel_stream_.is_idle(); }

  // The host's side. Of slots only: these words are in pinned memory wherever the rest is.
  Result<void> publish(const Publication& what) { return live_->publish(what); }
  Result<void> publish_within(const Publication& what, std::int64_t timeout_ms) {
    return live_->publish_within(what, timeout_ms);
  }
  /// Errors: as LiveRing's. The kernel has to run.
  Result<void> done_within(Word slot, std::int64_t timeout_ms) { return live_->done_within(slot, timeout_ms); }
  Word status_of(Word slot) const { return live_->status_of(slot); }
  /// Lanes end once they look for work.
  Result<void> shut_down();

  // Buffers as the host has them: of kDevice what fetch() brought last, and what store() takes there.
  std::span<Word> control() const { return {control_, shape_.observables + kLayout2026_05.observables}; }
  std::span<Word> slots() const { return {slots_, std::size_t{shape_.slots} * kSlotWords}; }
  std::span<Word> debug() const { return {debug_, kDebugRecordsWord + kDebugRecords * kDebugRecordWords}; }
  std::span<Word> io() const { return {io_, std::size_t{kIoEntries} * kIoEntryWords}; }
  /// Of kDevice, by a copy; else nothing is to be done.
  Result<void> fetch();
  Result<void> store();

  // Of the proxy's side of the FIFO.
  ProxyQueueMemory<FifoScheme> triggers() const;
  /// Puts of a connection that may be overwritten: the proxy counts them here.
  Word* completed(Word connection) const { return completed_ + connection; }

  const GpuRingShape& shape() const { return shape_; }

 private:
  GpuRing(const cuda::Driver& driver, const GpuRingShape& shape) : driver_(driver), shape_(shape) {}
  Result<void> prepare();
  Result<void> copy_control(bool to_host);

  const cuda::Driver& driver_;
  GpuRingShape shape_;
  cuda::Module module_;
  cuda::Stream kernel_stream_, copy_stream_;
  cuda::PinnedMemory pinned_;
  cuda::DeviceMemory device_;
  cuda::CUfunction function_ = nullptr;
  Word *control_ = nullptr, *slots_ = nullptr, *debug_ = nullptr, *io_ = nullptr, *completed_ = nullptr;
  std::uint64_t *trigger_words_ = nullptr, *head_ = nullptr, *tail_ = nullptr;
  std::size_t shared_bytes_ = 0;  // of control, debug and io, which lie together
  Kernel kernel_;
  GpuMesh mesh_;
  KernelLane* lanes_ = nullptr;
  std::optional<LiveRing> live_;
};

}  // namespace meshbed::ring
