#include "plugin/coll/run/gpu.h"

#include <algorithm>
#include <atomic>

#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/loan.h"
#include "plugin/coll/run/recorded_call.h"
#include "plugin/coll/store/environment.h"
#include "plugin/cuda/constants.h"

namespace meshbed::coll {
namespace {

constexpr char kSumsVariable[] = "MESHBED_GPU_SUMS";
constexpr char kDirectVariable[] = "MESHBED_GPU_DIRECT";

/// `meaning`: of 1 and of 0.
Result<bool> flag(const char* name, const char* standard, const char* meaning) {
  const std::string wanted = variable(name).value_or(standard);
  if (wanted == "0" || wanted == "1") return wanted == "1";
  return Error{ErrorCode::kInvalidArgument, Scope::kJob,
               std::string(name) + " is \"" + wanted + "\"; set " + meaning + ", or unset it"};
}

}  // namespace

Result<std::shared_ptr<Gpu>> Gpu::open() {
  const auto driver = cuda::Driver::open();
  if (!driver) return driver.error();
  const auto sums = flag(kSumsVariable, "0", "1 (GPUs reduce what lies in their memory), 0 (the processor does)");
  if (!sums) return sums.error();
  const auto direct = flag(kDirectVariable, "1",
                           "1 (adapters read and write GPU memory where the net plugin registers it), "
                           "0 (it is copied through pinned memory)");
  if (!direct) return direct.error();
  return std::shared_ptr<Gpu>(new Gpu(*driver, *sums, *direct));
}

Result<const GpuAccess*> Gpu::access_to(const void* data, int support) {
  const auto context = direct_ ? context_behind(data) : Result<cuda::CUcontext>(nullptr);
  if (!context) return context.error();
  if (*context == nullptr) return nullptr;
  const auto capable = driver_.is_gpu_direct(data);
  if (!capable) return capable.error();
  if (!*capable) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = accesses_.find(*context);
  if (found == accesses_.end()) {
    const auto pointer = driver_.look_at(data);
    if (!pointer) return pointer.error();
    const auto exports = driver_.attribute(pointer->device, cuda::kDeviceDmaBuf);
    if (!exports) return exports.error();
    const GpuAccess access{.driver = driver_,
                           .context = *context,
                           .by_dma_buf = *exports != 0 && (support & nccl::kPtrDmaBuf) != 0,
                           .by_address = (support & nccl::kPtrCuda) != 0};
    found = accesses_.emplace(*context, access).first;
  }
  const GpuAccess& access = found->second;
  return access.by_dma_buf || access.by_address ? &access : nullptr;
}

Result<void> Gpu::load_sums() {
  if (!sums_) return ok();
  const auto context = driver_.current();
  if (!context || *context == nullptr) return ok();  // the first operation shows whose they are
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto reduce = reduce_in(*context);
  return reduce ? ok() : Result<void>(reduce.error());
}

/// What reduces in that context, loaded when it is first asked for; the lock is held.
Result<const GpuReduce*> Gpu::reduce_in(cuda::CUcontext context) {
  auto reduce = reduces_.find(context);
  if (reduce == reduces_.end()) {
    const cuda::Current current(driver_, context);
    if (!current.outcome()) return current.outcome().error();
    const cuda::RelaxedCapture relaxed(driver_);
    auto loaded = GpuReduce::load(driver_);
    if (!loaded) return loaded.error();
    reduce = reduces_.emplace(context, std::move(*loaded)).first;
  }
  return &reduce->second;
}

Result<void> Gpu::prepare_sums(const Operation& operation) {
  if (!sums_ || operation.input_bytes == 0) return ok();
  const auto context = context_behind(operation.input);
  if (!context) return context.error();
  if (*context == nullptr) return ok();
  const SumKey key{*context, operation.type, operation.op};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sum_kernels_.count(key) > 0) return ok();
  const auto reduce = reduce_in(*context);
  if (!reduce) return reduce.error();
  const auto kernels = (*reduce)->kernels(operation.type, operation.op);
  if (!kernels) return kernels.error();
  sum_kernels_.emplace(key, *kernels);
  return ok();
}

std::optional<GpuReduceKernels> Gpu::sum_kernels(cuda::CUcontext context, DataType type, ReduceOp op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sum_kernels_.find({context, type, op});
  return found != sum_kernels_.end() ? std::optional(found->second) : std::nullopt;
}

Result<std::shared_ptr<char>> Gpu::pinned(cuda::CUcontext context, std::uint64_t size_bytes) const {
  const cuda::Current current(driver_, context);
  if (!current.outcome()) return current.outcome().error();
  auto block = PinnedBlock::take(driver_, size_bytes);
  if (!block) return block.error();
  if (block->device_address() != cuda::address_of(block->data())) {
    return Error{ErrorCode::kUnsupported, Scope::kDevice,
                 std::string("the GPU finds pinned memory elsewhere than the host does: unset ") + kSumsVariable};
  }
  const auto owner = std::make_shared<PinnedBlock>(std::move(*block));
  return std::shared_ptr<char>(owner, owner->data());
}

void Gpu::settle(cuda::CUcontext context) {
  const auto stream = streams_.find(context);
  if (stream == streams_.end()) return;
  const cuda::Current current(driver_, context);
  (void)stream->second.synchronize();  // where the context is lost there is nothing to wait for
}

Result<cuda::CUcontext> Gpu::context_behind(const void* data) {
  if (data == nullptr) return cuda::CUcontext{};
  const auto pointer = driver_.look_at(data);
  if (!pointer) return pointer.error();
  if (!pointer->hidden_from_host()) return cuda::CUcontext{};
  if (pointer->context != nullptr) return pointer->context;
  // Memory of pools and mapped memory belong to a device, not to a context.
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& primary = primaries_[pointer->device];
  if (primary == nullptr) {
    const auto retained = driver_.retain_primary(pointer->device);
    if (!retained) return retained.error();
    primary = *retained;
  }
  return primary;
}

Result<const PinnedBlock*> Gpu::staging(cuda::CUcontext context, std::uint64_t size_bytes) {
  if (staging_.empty() || staging_.back().size_bytes() < size_bytes) {
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

Result<cuda::CUcontext> Gpu::context_of(cuda::CUstream stream) const {
  auto context = stream != nullptr ? cuda::context_of(driver_, stream) : driver_.current();
  if (context && *context == nullptr) {
    return Error{ErrorCode::kInvalidArgument, Scope::kRequest,
                 "the stream is NULL, and the calling thread has no CUDA context"};
  }
  return context;
}

Result<bool> Gpu::are_recording(const std::vector<cuda::CUstream>& streams) const {
  std::size_t recording = 0;
  for (const cuda::CUstream stream : streams) {
    const auto context = context_of(stream);
    if (!context) return context.error();
    const cuda::Current current(driver_, *context);
    const auto records = cuda::is_recording(driver_, stream);
    if (!records) return records.error();
    recording += *records ? 1 : 0;
  }
  if (recording == 0 || recording == streams.size()) return recording > 0;
  return Error{ErrorCode::kInvalidArgument, Scope::kRequest,
               "of the group's " + std::to_string(streams.size()) + " streams " + std::to_string(recording) +
                   " record a graph: all have to, or none"};
}

Result<PinnedWord> Gpu::word_of_recorded(const std::vector<cuda::CUstream>& streams) const {
  const auto context = context_of(streams.front());
  if (!context) return context.error();
  const cuda::Current current(driver_, *context);
  if (!current.outcome()) return current.outcome().error();
  return PinnedPool::of_process().take_word(driver_);
}

Result<PinnedBlock> Gpu::pinned_for(const std::vector<cuda::CUstream>& streams, Loan& loan, bool is_recorded) const {
  if (loan.is_empty()) return PinnedBlock();
  const auto context = context_of(streams.front());
  if (!context) return context.error();
  const cuda::Current current(driver_, *context);
  if (!current.outcome()) return current.outcome().error();
  auto block = PinnedBlock::take(driver_, loan.size_bytes(), is_recorded ? PinnedPool::Streams() : streams);
  if (block) loan.take(*block);
  return block;
}

Result<void> Gpu::copy_in_stream(const std::vector<GpuCopy>& copies, cuda::CUstream stream) const {
  Result<void> done;
  for (const GpuCopy& copy : copies) {
    if (copy.stream == stream && done) done = cuda::copy(driver_, stream, copy.target, copy.source, copy.size_bytes);
  }
  return done;
}

Result<void> Gpu::record(const std::vector<cuda::CUstream>& streams, RecordedCall& call, const Loan& loan) const {
  const cuda::CUstream first = streams.front();
  // `one` goes on when what `other` has been given so far has ended.
  const auto put_behind = [&](cuda::CUstream one, cuda::CUstream other) -> Result<void> {
    const auto context = context_of(other);
    if (!context) return context.error();
    const cuda::Current current(driver_, *context);
    const auto event = cuda::Event::create(driver_);
    if (!event) return event.error();
    auto done = event->record(other);
    return done ? cuda::wait_for_event(driver_, one, *event) : done;
  };
  const auto copy = [&](const std::vector<GpuCopy>& copies, cuda::CUstream stream) -> Result<void> {
    const auto context = context_of(stream);
    if (!context) return context.error();
    const cuda::Current current(driver_, *context);
    return copy_in_stream(copies, stream);
  };
  Result<void> done;
  for (std::size_t i = 0; i < streams.size() && done; ++i) done = copy(loan.in(), streams[i]);
  for (std::size_t i = 1; i < streams.size() && done; ++i) done = put_behind(first, streams[i]);
  if (done) done = cuda::call_host(driver_, first, &RecordedCall::launch, &call);
  if (done) done = cuda::hold_until(driver_, first, call.word().address, RecordedCall::kEnded);
  for (std::size_t i = 1; i < streams.size() && done; ++i) done = put_behind(streams[i], first);
  for (std::size_t i = 0; i < streams.size() && done; ++i) done = copy(loan.out(), streams[i]);
  return done;
}

Result<std::shared_ptr<StreamOrder>> Gpu::enter(const std::vector<cuda::CUstream>& streams, std::shared_ptr<Gpu> self,
                                                const Loan& loan, PinnedBlock staging) {
  auto order = std::make_shared<StreamOrder>();
  order->gpu_ = std::move(self);
  order->staging_ = staging.memory();
  std::vector<cuda::Event> ends;
  const bool lends = !loan.is_empty();
  for (const cuda::CUstream stream : streams) {
    const auto context = context_of(stream);
    if (!context) return context.error();
    const cuda::Current current(driver_, *context);
    if (!current.outcome()) return current.outcome().error();
    auto event = cuda::Event::create(driver_);
    if (!event) return event.error();
    order->places_.push_back({*context, std::move(*event)});
    if (lends) {
      auto end = cuda::Event::create(PinnedPool::of_process().lasting(driver_));
      if (!end) return end.error();
      ends.push_back(std::move(*end));
    }
    if (word_.data() != nullptr) continue;
    auto word = PinnedBlock::take(driver_, sizeof(std::uint32_t));
    if (!word) return word.error();
    word_ = std::move(*word);
    entered_ = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word_.data())).load();
  }
  // From here on the streams are changed: an error is the call's own failure, and releases them in its turn.
  order->number_ = ++entered_;
  order->word_ = reinterpret_cast<std::uint32_t*>(word_.data());
  const auto in_each = [&](const auto& put) {
    for (std::size_t i = 0; i < streams.size() && order->entered_; ++i) {
      const cuda::Current current(driver_, order->places_[i].context);
      order->entered_ = current.outcome();
      if (order->entered_) order->entered_ = put(i);
    }
  };
  // One after the other in all streams: what one of them waits for must not stand behind another one that is held.
  in_each([&](std::size_t i) {
    Result<void> done;
    for (const cuda::Event& before : staging.before()) {
      if (done) done = cuda::wait_for_event(driver_, streams[i], before);
    }
    if (done) done = copy_in_stream(loan.in(), streams[i]);
    return done ? order->places_[i].before.record(streams[i]) : done;
  });
  in_each([&](std::size_t i) { return cuda::hold_until(driver_, streams[i], word_.device_address(), order->number_); });
  if (!lends) return order;
  in_each([&](std::size_t i) {
    auto done = copy_in_stream(loan.out(), streams[i]);
    return done ? ends[i].record(streams[i]) : done;
  });
  // If a part of it could not be put into the streams, the end of their use is unknown.
  if (order->entered_) {
    staging.give_back_after(std::move(ends), streams);
  } else {
    staging.give_up();
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
  if (!come) return come;
  come_ = *come;
  gives_way_ = !come_ && has_launched_;
  return come_ || gives_way_;
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
