#include "plugin/coll/run/recorded_call.h"

#include <atomic>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/coll/run/gpu.h"
#include "plugin/coll/run/loan.h"

namespace meshbed::coll {

void RecordedCall::launch(void* call) {
  auto& its = *static_cast<RecordedCall*>(call);
  std::atomic_ref<std::uint32_t>(*its.word_.at).store(0, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(its.mutex_);
  if (its.communicator_ != nullptr) {
    its.communicator_->launch(its);
    return;
  }
  MESHBED_WARN("a graph is launched that holds a %s of a communicator which was destroyed: it does nothing",
               name_of(its.operations_));
  its.end();
}

void RecordedCall::forget_communicator() {
  const std::lock_guard<std::mutex> lock(mutex_);
  communicator_ = nullptr;
}

void RecordedCall::end() const { std::atomic_ref<std::uint32_t>(*word_.at).store(kEnded, std::memory_order_release); }

/// By the caller's thread. True: the operations are part of the graph that their streams record, and nothing else.
Result<bool> Communicator::record(const std::vector<Operation>& operations, std::int64_t timeout_ms) {
  const std::vector<cuda::CUstream> streams = streams_of(operations);
  if (streams.empty()) return false;
  auto gpu = need_gpu();
  if (!gpu) return gpu.error();
  const auto recording = (*gpu)->are_recording(streams);
  if (!recording || !*recording) return recording;
  const auto word = (*gpu)->word_of_recorded(streams);
  if (!word) return word.error();
  auto loan = Loan::plan(**gpu, operations, true);
  if (!loan) return loan.error();
  auto staging = (*gpu)->pinned_for(streams, *loan, true);
  if (!staging) return staging.error();
  // The processor reduces. A graph of four calls whose kernels stood in a stream of ours never ended on an H200.
  for (Operation& operation : loan->operations()) operation.lender = nullptr;
  recorded_.push_back(new RecordedCall(*this, *loan, timeout_ms, *word, std::move(*staging)));
  auto put = (*gpu)->record(streams, *recorded_.back(), *loan);
  if (!put) return put.error();
  return true;
}

/// By a thread of CUDA's, while this communicator lives.
void Communicator::launch(RecordedCall& recorded) {
  auto call = std::make_shared<Call>(name_of(recorded.operations()), ++calls_);
  call->at_end([&recorded] { recorded.end(); });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    launched_.push_back({std::move(call), &recorded});
  }
  has_launched_ = true;
  service_->submit([this] { serve_launched(); });
}

void Communicator::serve_launched() {
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    has_launched_ = !launched_.empty();
    if (launched_.empty()) return;
    const LaunchedCall next = std::move(launched_.front());
    launched_.pop_front();
    lock.unlock();
    serve(*next.call, [&] {
      keep_staging(next.recorded->staging().memory());
      count_copies(next.recorded->copied_bytes());
      return perform(*next.call, next.recorded->operations(), Deadline::after_ms_or_never(next.recorded->timeout_ms()));
    });
  }
}

}  // namespace meshbed::coll
