// The calls of programs that were compiled for a default stream of each thread's own: where such a call is given no
// stream it means the thread's (cuda.h's CU_STREAM_PER_THREAD), which waits for the context's default stream as every
// blocking stream does, and for no other thread's. CUDA C++ Programming Guide 13.0, "Per-thread Default Stream".

#include <utility>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// As long as it lives the calling thread's default stream is its own.
class PerThreadDefault {
 public:
  PerThreadDefault() {
    Driver* driver = current_driver();
    if (driver == nullptr) return;
    thread_ = &own_state(*driver);
    before_ = std::exchange(thread_->has_own_default, true);
  }
  ~PerThreadDefault() {
    if (thread_ != nullptr) thread_->has_own_default = before_;
  }
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;

 private:
  ThreadState* thread_ = nullptr;
  bool before_ = false;
};

}  // namespace

#define MESHBED_CUDA_TWIN(type, name, twin, parameters, arguments) \
  type twin parameters {                                           \
    const PerThreadDefault scope;                                  \
    return name arguments;                                         \
  }
#include "sim/cuda/per_thread/driver_twins.def"
#include "sim/cuda/per_thread/runtime_twins.def"
#undef MESHBED_CUDA_TWIN

}  // namespace meshbed::sim::cuda
