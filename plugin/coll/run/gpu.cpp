#include "plugin/coll/run/gpu.h"

#include <algorithm>
#include <atomic>

namespace meshbed::coll {

Result<std::shared_ptr<Gpu>> Gpu::open() {
  const auto driver = cuda::Driver::open();
  if (!driver) return driver.error();
  return std::shared_ptr<Gpu>(new Gpu(*driver));
}

Result<cuda::CUcontext> Gpu::context_behind(const void* data) {
  if (data == nullptr) return cuda::CUcontext{};
  const auto pointer = driver_.look_at(data);
  if (!pointer) return pointer.error();
  if (!pointer->hidden_from_host()) return cuda::CUcontext{};
  if (pointer->context != nullptr) return pointer->context;
  // Memory of pools and mapped memory belong to a device, not to a context.
  auto& primary = primaries_[pointer->device];
  if (primary == nullptr) {
    const auto retained = driver_.retain_primary(pointer->device);
    if (!retained) return retained.error();
    primary = *retained;
  }
  return primary;
}

Result<const PinnedBlock*> Gpu::staging(cuda::CUcontext context, std::uint64_t size_bytes, bool* grown) {
  *grown = staging_.empty() || staging_.back().size_bytes() < size_bytes;
  if (*grown) {
    const cuda::Current current(driver_, context);
    if (!current.outcome()) return current.outcome().error();
    // At least twice the last one, so that the earlier ones together are no more than this one.
    const std::uint64_t least = staging_.empty() ? 0 : 2 * staging_.back().size_bytes();
    auto block = PinnedBlock::take(driver_, std::max(size_bytes, least));
    if (!block) return block.error();
    staging_.push_back(std::move(*block));
  }
  return &staging_.back();
}

Result<const cuda::Stream*> Gpu::stream_in(cuda::CUcontext context) {
  const auto found = streams_.find(context);
  if (found != streams_.end()) return &found->second;
  auto made = cuda::Stream::create(driver_);
  if (!made) return made.error();
  return &streams_.emplace(context, std::move(*made)).first->second;
}

Result<std::shared_ptr<StreamOrder>> Gpu::enter(const std::vector<cuda::CUstream>& streams, std::shared_ptr<Gpu> self) {
  auto order = std::make_shared<StreamOrder>();
  order->gpu_ = std::move(self);
  for (const cuda::CUstream stream : streams) {
    // A stream's own context; that of a default stream is whichever is current.
    const auto context = stream != nullptr ? cuda::context_of(driver_, stream) : driver_.current();
    if (!context) return context.error();
    if (*context == nullptr) {
      return Error{ErrorCode::kInvalidArgument, Scope::kRequest,
                   "the stream is NULL, and the calling thread has no CUDA context"};
    }
    const cuda::Current current(driver_, *context);
    if (!current.outcome()) return current.outcome().error();
    const auto recording = cuda::is_recording(driver_, stream);
    if (!recording) return recording.error();
    if (*recording) {
      return Error{ErrorCode::kUnsupported, Scope::kRequest,
                   "the stream records a graph: a call of the engine cannot be part of one yet"};
    }
    auto event = cuda::Event::create(driver_);
    if (!event) return event.error();
    order->places_.push_back({*context, std::move(*event)});
    if (word_.data() != nullptr) continue;
    auto word = PinnedBlock::take(driver_, sizeof(std::uint32_t));
    if (!word) return word.error();
    word_ = std::move(*word);
    entered_ = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word_.data())).load();
  }
  // From here the streams are touched: what goes wrong is the call's own failure, and releases them in its turn.
  order->number_ = ++entered_;
  order->word_ = reinterpret_cast<std::uint32_t*>(word_.data());
  for (std::size_t i = 0; i < streams.size() && order->entered_; ++i) {
    const cuda::Current current(driver_, order->places_[i].context);
    order->entered_ = current.outcome();
    if (order->entered_) order->entered_ = order->places_[i].before.record(streams[i]);
    if (order->entered_) {
      order->entered_ = cuda::hold_until(driver_, streams[i], word_.device_address(), order->number_);
    }
  }
  return order;
}

Result<bool> StreamOrder::has_come() {
  if (!entered_) return entered_.error();
  while (!places_.empty()) {
    const Place& last = places_.back();
    const cuda::Current current(gpu_->driver(), last.context);
    if (!current.outcome()) return current.outcome().error();
    const auto come = last.before.has_come();
    if (!come || !*come) return come;
    places_.pop_back();
  }
  return true;
}

void StreamOrder::release() { std::atomic_ref<std::uint32_t>(*word_).store(number_, std::memory_order_release); }

Result<bool> StreamTurn::advance() {
  if (aborted_) return Error{ErrorCode::kClosed, Scope::kJob, "aborted before its stream came to it"};
  const auto come = order_.has_come();
  if (come) come_ = *come;
  return come;
}

Result<bool> CopyRun::advance() {
  const cuda::Current current(gpu_.driver(), copies_.front().context);
  if (!current.outcome()) return current.outcome().error();
  if (!begun_) return begin();
  const auto come = end_.has_come();
  if (come) ended_ = *come;
  return come;
}

Result<bool> CopyRun::begin() {
  const auto stream = gpu_.stream_in(copies_.front().context);
  if (!stream) return stream.error();
  for (const GpuCopy& copy : copies_) {
    stream_ = *stream;
    if (auto done = stream_->copy(copy.target, copy.source, copy.size_bytes); !done) return done.error();
    counters_.copied_bytes += copy.size_bytes;
  }
  auto event = cuda::Event::create(gpu_.driver());
  if (!event) return event.error();
  end_ = std::move(*event);
  if (auto done = end_.record(stream_->handle()); !done) return done.error();
  begun_ = true;
  return true;
}

void CopyRun::settle() const {
  if (stream_ == nullptr || ended_) return;
  const cuda::Current current(gpu_.driver(), copies_.front().context);
  // Our own stream waits for nothing but its copies; where the context is lost there are none.
  (void)stream_->synchronize();
}

}  // namespace meshbed::coll
