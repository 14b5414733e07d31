#pragma once
// Graph: work of a stream that was recorded, to be put into a stream again and again by one call; owned. The context
// that is current when it is recorded is its own.

#include <functional>
#include <utility>

#include "plugin/cuda/stream.h"

namespace meshbed::cuda {

class Graph {
 public:
  /// Records the work that `give` puts into the stream, which does not run it now. Errors: the driver's; those of
  /// `give`.
  static Result<Graph> record(const Driver& driver, const Stream& stream, const std::function<Result<void>()>& give);
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept { swap(other); }
  Graph& operator=(Graph&& other) noexcept {
    swap(other);
    return *this;
  }

  Result<void> launch(const Stream& stream) const;

 private:
  void swap(Graph& other) {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(executable_, other.executable_);
  }
  const Driver* driver_ = nullptr;
  CUcontext context_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace meshbed::cuda
