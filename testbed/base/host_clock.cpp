#include "testbed/base/host_clock.h"

#include <dlfcn.h>

#include "plugin/base/deadline.h"

namespace meshbed::testbed {

// The simulated driver exports its host's clock (sim/cuda/meshbed_cuda.h); no other does.
HostClock::HostClock() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  simulated_ = reinterpret_cast<int (*)(long long, long long*)>(::dlsym(library, "meshbedCudaHostClock"));
  ::dlclose(library);
}

Picoseconds HostClock::now_ps() const {
  if (simulated_ == nullptr) return now_ns() * kPicosecondsPerNanosecond;
  long long now = 0;
  simulated_(0, &now);
  return now;
}

void HostClock::pause(Picoseconds look_ps) const {
  if (simulated_ == nullptr) return;
  long long now = 0;
  simulated_(look_ps, &now);
}

}  // namespace meshbed::testbed
