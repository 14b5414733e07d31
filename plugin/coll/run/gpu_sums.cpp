#include "plugin/coll/run/gpu_sums.h"

#include <utility>

#include "plugin/coll/run/gpu.h"

namespace meshbed::coll {

Result<std::uint64_t> GpuSums::begin(const GpuReduction& first, const GpuReduction& then) {
  const cuda::Current current(gpu_.driver(), context_);
  if (!current.outcome()) return current.outcome().error();
  const auto stream = gpu_.stream_in(context_);
  if (!stream) return stream.error();
  if (free_.empty()) {
    auto event = cuda::Event::create(gpu_.driver());
    if (!event) return event.error();
    free_.push_back(std::move(*event));
  }
  auto done = start(gpu_.driver(), kernels_, first, (*stream)->handle());
  if (done) done = start(gpu_.driver(), kernels_, then, (*stream)->handle());
  if (done) done = free_.back().record((*stream)->handle());
  if (!done) return done.error();
  ends_.push_back(std::move(free_.back()));
  free_.pop_back();
  return ++begun_;
}

Result<bool> GpuSums::has_ended(std::uint64_t number) {
  if (ended_ >= number) return true;
  const cuda::Current current(gpu_.driver(), context_);
  if (!current.outcome()) return current.outcome().error();
  while (!ends_.empty()) {
    const auto ended = ends_.front().has_come();
    if (!ended) return ended;
    if (!*ended) break;
    free_.push_back(std::move(ends_.front()));
    ends_.pop_front();
    ++ended_;
  }
  return ended_ >= number;
}

}  // namespace meshbed::coll
