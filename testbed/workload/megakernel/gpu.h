#pragma once
// RingGpu: one rank's megakernel on its GPU, where messages are in GPU memory ([workload] memory = "gpu"): the ring of
// plugin/ring/gpu, the memories that slots name, and the proxy on the host that moves data between them and the net
// plugin.
//
//   ring, flags, FIFO   pinned memory, which lanes reach over the link
//   spaces              the GPU's memory; each has an image in the host's, which the net plugin has registered
//   a PUT               its trigger comes through the FIFO; the proxy copies its bytes into the image, and sends them
//   an arrival          lands in the image; the proxy copies it into the GPU's memory, then raises the flag
//
// Two threads of the rank use it, host and proxy, each with a stream of its own; each enters the context first.

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "plugin/ring/gpu/gpu_ring.h"
#include "plugin/ring/telemetry/telemetry.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

/// The kernel's REDUCE for the engine's type and operation; nullopt: not supported.
std::optional<ring::GpuElement> gpu_element_of(coll::DataType type);
std::optional<ring::GpuReduction> gpu_reduction_of(coll::ReduceOp op);

class RingGpu final : public RingProxyUser {
 public:
  struct Setting {
    RankHost& host;
    const coll::SlotProgram& program;
    RingSpaces& images;
    RingTrace& trace;
    int device = 0;  // of this rank's node, modulo the number of devices
    ring::Word slots = 0, lanes = 0;
    ring::GpuElement element = ring::GpuElement::kFloat32;
    ring::GpuReduction reduction = ring::GpuReduction::kSum;
  };
  /// kUnsupported with the reason if the rank has no CUDA. The context is current in the calling thread afterwards.
  static Result<std::unique_ptr<RingGpu>> make(const Setting& setting);
  RingGpu(const RingGpu&) = delete;
  RingGpu& operator=(const RingGpu&) = delete;

  /// While the result exists, the calling thread may use the ring.
  std::unique_ptr<cuda::Current> enter() const;

  // The host's thread.
  Result<void> launch() { return ring_->launch(); }
  /// Between a space and its image.
  Result<void> give(coll::Space space);
  Result<void> take(coll::Space space);
  Result<void> publish(ring::Word slot, const ring::MeshSlot& what);
  /// Records slots that have become DONE since the last call. Returns their number.
  ring::Word see_done();
  /// The first published slot that is not DONE.
  std::string waiting_text() const;
  /// Sends SHUTDOWN and waits until the kernel has ended. Abandoned: satisfies all waits of its lanes.
  Result<void> end(bool abandoned);
  ring::Word done_count() const { return ring_->control()[ring::control_word::kDoneCount]; }
  /// The telemetry's counters of the ring.
  ring::RuntimeCounters counters() const;

  // The proxy's thread.
  /// Takes the triggers that the lanes have put into the FIFO. True if there were any.
  Result<bool> pass();

  void use(RingProxy& proxy) override { proxy_ = &proxy; }
  void see_completion(ring::Word connection) override;
  void see_room() override {}
  void at(Picoseconds when_ps, std::function<void()> act) override;
  void posted(ring::Word) override {}
  void arrived(ring::Word connection) override;
  RingParts* parts() const override { return nullptr; }

 private:
  RingGpu(const cuda::Driver& driver, const Setting& setting, cuda::CUcontext context)
      : driver_(driver), setting_(setting), context_(context), current_(driver_, context) {}
  Result<void> prepare();
  Result<void> copy(const cuda::Stream& stream, coll::Area area, std::uint64_t size_bytes, bool to_gpu);
  void note(RingEventKind kind, ring::Word slot, ring::Word opcode);

  const cuda::Driver driver_;
  const Setting setting_;
  const cuda::CUcontext context_;
  const cuda::Current current_;  // on the rank's own thread, while this lives
  cuda::Stream host_stream_, proxy_stream_;
  std::array<cuda::DeviceMemory, coll::kSpaces> spaces_;
  std::unique_ptr<ring::GpuRing> ring_;  // last: its kernel works on the spaces
  std::optional<ring::ProxyQueueConsumer<ring::FifoScheme>> triggers_;
  RingProxy* proxy_ = nullptr;
  std::vector<std::uint64_t> arrived_;  // by connection: messages so far
  std::vector<ring::Word> published_;   // by slot: its opcode until it was seen to be DONE; 0: none
  std::optional<Error> failure_;        // of a proxy call that cannot return an error
};

}  // namespace meshbed::testbed
