#include "plugin/coll/gpu/gpu_sums.h"

#include "plugin/coll/run/gpu.h"

namespace meshbed::coll {

Result<void> GpuSums::begin(const GpuReduction& first, const GpuReduction& then) {
  const cuda::Current current(gpu_.driver(), context_);
  if (!current.outcome()) return current.outcome();
  const auto stream = gpu_.stream_in(context_);
  if (!stream) return stream.error();
  if (!has_event_) {
    auto event = cuda::Event::create(gpu_.driver());
    if (!event) return event.error();
    end_ = std::move(*event);
    has_event_ = true;
  }
  auto done = start(gpu_.driver(), kernels_, first, (*stream)->handle());
  if (done) done = start(gpu_.driver(), kernels_, then, (*stream)->handle());
  if (done) done = end_.record((*stream)->handle());
  under_way_ = done.has_value();
  return done;
}

Result<bool> GpuSums::has_ended() {
  const cuda::Current current(gpu_.driver(), context_);
  if (!current.outcome()) return current.outcome().error();
  const auto ended = end_.has_come();
  if (ended && *ended) under_way_ = false;
  return ended;
}

}  // namespace meshbed::coll
