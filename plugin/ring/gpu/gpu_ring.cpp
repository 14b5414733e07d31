#include "plugin/ring/gpu/gpu_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/ring/abi/control.h"
#include "plugin/ring/queue/wait.h"

namespace meshbed::cuda {
const char* megakernel_ptx();
}

namespace meshbed::ring {
namespace {

constexpr Word kThreadsMost = 1024;  // of a block, on every GPU so far
constexpr std::int64_t kEnd_ms = 1000;
/// What one side writes and the other reads begins in a line of its own.
constexpr std::size_t kLineBytes = 256;

/// Places of parts in one allocation.
class Places {
 public:
  std::size_t add(std::size_t size_bytes) {
    const std::size_t at = bytes_;
    bytes_ += (size_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

const char* name_of(GpuLanes lanes) {
  switch (lanes) {
    case GpuLanes::kBlocks:
      return kBlockLanesKernel;
    case GpuLanes::kThreads:
      return kThreadLanesKernel;
    case GpuLanes::kInTurn:
      break;
  }
  return kInTurnKernel;
}

template <typename T>
T* at(char* base, std::size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

template <typename T>
Result<void> keep(T& into, Result<T> made) {
  if (!made) return made.error();
  into = std::move(made).value();
  return ok();
}

}  // namespace

Result<std::unique_ptr<GpuRing>> GpuRing::create(const cuda::Driver& driver, const GpuRingShape& shape) {
  if (shape.slots == 0 || shape.lanes == 0) return refused("a ring on a GPU has at least one slot and one lane");
  if (shape.threads == 0 || shape.threads > kThreadsMost) {
    return refused("a block has 1 to " + std::to_string(kThreadsMost) + " threads, not " +
                   std::to_string(shape.threads));
  }
  if (shape.board.ids > 0 && !std::has_single_bit(shape.depth)) {
    return refused("a FIFO's depth is a power of two, not " + std::to_string(shape.depth));
  }
  std::unique_ptr<GpuRing> ring(new GpuRing(driver, shape));
  if (const Result<void> done = ring->prepare(); !done) return done.error();
  return ring;
}

Result<void> GpuRing::prepare() {
  const auto encoded =
      encode_control(kLayout2026_05, shape_.mode, {.tenants = shape_.tenants, .observables = shape_.observables});
  if (!encoded) return encoded.error();
  Result<void> done = keep(module_, cuda::Module::load(driver_, cuda::megakernel_ptx()));
  if (done) done = keep(function_, module_.kernel(name_of(shape_.lanes_are)));
  if (done) done = keep(kernel_stream_, cuda::Stream::create(driver_));
  if (done) done = keep(copy_stream_, cuda::Stream::create(driver_));
  if (!done) return done;

  Places shared;  // the same offsets in both memories
  const std::size_t control_at = shared.add(control().size_bytes());
  const std::size_t debug_at = shared.add(debug().size_bytes());
  const std::size_t io_at = shared.add(io().size_bytes());
  shared_bytes_ = shared.bytes();
  Places places = shared;
  const std::size_t slots_at = places.add(slots().size_bytes());
  const std::size_t completed_at = places.add(sizeof(Word) * std::max<Word>(1, shape_.board.connections));
  const std::size_t triggers_at = places.add(sizeof(FifoWords) * shape_.depth);
  const std::size_t tail_at = places.add(sizeof(std::uint64_t));
  if (done = keep(pinned_, cuda::PinnedMemory::allocate(driver_, places.bytes())); !done) return done;
  Places own = shared;
  const std::size_t lanes_at = own.add(sizeof(KernelLane) * shape_.lanes);
  const std::size_t head_at = own.add(sizeof(std::uint64_t));
  if (done = keep(device_, cuda::DeviceMemory::allocate(driver_, own.bytes())); !done) return done;

  char* const host = pinned_.data();
  std::memset(host, 0, places.bytes());
  control_ = at<Word>(host, control_at);
  debug_ = at<Word>(host, debug_at);
  io_ = at<Word>(host, io_at);
  slots_ = at<Word>(host, slots_at);
  completed_ = at<Word>(host, completed_at);
  trigger_words_ = at<std::uint64_t>(host, triggers_at);
  tail_ = at<std::uint64_t>(host, tail_at);
  std::memcpy(control_, encoded->data(), encoded->size());
  const auto levels = levels_of(shape_.slots);
  std::copy(levels.begin(), levels.end(), control_ + kLayout2026_05.priority_offsets);
  // The consumer of the FIFO does not read its head: a place for that of ProxyQueueMemory.
  head_ = tail_;

  char* const pinned = reinterpret_cast<char*>(pinned_.device_address());
  char* const where = shape_.place == GpuPlace::kPinned ? pinned : device_.data();
  kernel_ = {.control = at<Word>(where, control_at),
             .control_words = static_cast<Word>(control().size()),
             .ring = at<Word>(pinned, slots_at),
             .slots = shape_.slots,
             .debug = at<Word>(where, debug_at),
             .io = shape_.has_io ? at<Word>(where, io_at) : nullptr,
             .lanes = shape_.lanes,
             .polls_most = shape_.polls_most,
             .mode = shape_.mode,
             .by_priority = shape_.by_priority,
             .enforces_quotas = shape_.enforces_quotas};
  mesh_ = {.board = shape_.board,
           .completed = at<Word>(pinned, completed_at),
           .triggers = at<std::uint64_t>(pinned, triggers_at),
           .head = at<std::uint64_t>(device_.data(), head_at),
           .tail = at<std::uint64_t>(pinned, tail_at),
           .depth = shape_.depth,
           .element = shape_.element,
           .reduction = shape_.reduction};
  std::copy(std::begin(shape_.spaces), std::end(shape_.spaces), std::begin(mesh_.spaces));
  lanes_ = at<KernelLane>(device_.data(), lanes_at);

  std::vector<KernelLane> lanes(shape_.lanes);
  for (Word index = 0; index < shape_.lanes; ++index) lanes[index].index = index;
  done = copy_stream_.fill(device_.data(), 0, own.bytes());
  if (done) done = copy_stream_.copy(lanes_, lanes.data(), sizeof(KernelLane) * lanes.size());
  if (done) done = copy_stream_.synchronize();
  if (done) done = store();
  if (!done) return done;
  const auto bytes_of = [](std::span<Word> words) {
    return MutableBytes(reinterpret_cast<std::uint8_t*>(words.data()), words.size_bytes());
  };
  const auto live = LiveRing::over(bytes_of(control()), bytes_of(slots()), kLayout2026_05);
  if (!live) return live.error();
  live_ = *live;
  return ok();
}

GpuRing::~GpuRing() {
  if (!live_) return;
  if (shut_down() && wait_for_end(kEnd_ms)) return;
  MESHBED_WARN("a megakernel has not ended %d ms after its SHUTDOWN: it keeps its memory", static_cast<int>(kEnd_ms));
  // These must not be freed while the kernel runs: the driver would wait for it.
  new cuda::Module(std::move(module_));
  new cuda::Stream(std::move(kernel_stream_));
  new cuda::PinnedMemory(std::move(pinned_));
  new cuda::DeviceMemory(std::move(device_));
}

Result<void> GpuRing::launch(Word turns, bool by_step) {
  GpuTurns steps{.lanes = lanes_, .most = turns, .by_step = by_step};
  void* arguments[] = {&kernel_, &mesh_, &steps};
  cuda::LaunchShape shape{.grid = {}, .block = {}, .stream = kernel_stream_.handle()};
  if (shape_.lanes_are == GpuLanes::kBlocks) {
    shape.grid.x = shape_.lanes;
    shape.block.x = shape_.threads;
  } else if (shape_.lanes_are == GpuLanes::kThreads) {
    shape.block.x = std::min(shape_.threads, shape_.lanes);
    shape.grid.x = (shape_.lanes + shape.block.x - 1) / shape.block.x;
  }
  return cuda::launch(driver_, function_, shape, arguments);
}

Result<void> GpuRing::wait_for_end(std::int64_t timeout_ms) {
  Result<bool> idle = false;
  wait_until(timeout_ms, 1, [&] {
    idle = has_ended();
    return !idle || *idle;
  });
  if (!idle) return idle.error();
  if (*idle) return ok();
  return waited_in_vain("the megakernel has not ended", timeout_ms);
}

Result<void> GpuRing::shut_down() {
  live_->shut_down();
  if (shape_.place == GpuPlace::kPinned) return ok();
  Word* const word = kernel_.control + control_word::kShutdown;
  Result<void> done = copy_stream_.copy(word, control_ + control_word::kShutdown, sizeof(Word));
  if (done) done = copy_stream_.synchronize();
  return done;
}

Result<void> GpuRing::copy_control(bool to_host) {
  if (shape_.place == GpuPlace::kPinned) return ok();
  char* const host = reinterpret_cast<char*>(control_);
  char* const there = device_.data();
  Result<void> done =
      to_host ? copy_stream_.copy(host, there, shared_bytes_) : copy_stream_.copy(there, host, shared_bytes_);
  if (done) done = copy_stream_.synchronize();
  return done;
}

Result<void> GpuRing::fetch() { return copy_control(true); }
Result<void> GpuRing::store() { return copy_control(false); }

ProxyQueueMemory<FifoScheme> GpuRing::triggers() const {
  return {.words = {trigger_words_, static_cast<std::size_t>(2 * shape_.depth)}, .head = head_, .tail = tail_};
}

}  // namespace meshbed::ring
