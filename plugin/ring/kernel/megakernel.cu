// The megakernel for GPUs: the machine that the interpreter steps (step.h), one lane a thread, until SHUTDOWN. Built where
// nvcc is, for sm_80, sm_90 and as PTX. What shares a slot is ordered by device-scope fences around its status, so that a
// host that writes through mapped memory and other blocks alike see what was written before it.
//
// The user's operations are none: a program that has some includes step.h and instantiates turn() with them.

#include <cuda_runtime.h>

#include "plugin/ring/kernel/step.h"

namespace meshbed::ring {

/// The words of access.h, on the device: claims and counters are atomics of the whole system.
struct DeviceWords {
  __device__ static Word load(const Word* word) { return *const_cast<const volatile Word*>(word); }
  __device__ static Word acquire(const Word* word) {
    const Word value = load(word);
    __threadfence_system();
    return value;
  }
  __device__ static void store(Word* word, Word value) { *const_cast<volatile Word*>(word) = value; }
  __device__ static void release(Word* word, Word value) {
    __threadfence_system();
    store(word, value);
  }
  __device__ static Word add(Word* word, Word value) { return atomicAdd_system(word, value); }
  __device__ static Word exchange(Word* word, Word value) { return atomicExch_system(word, value); }
  __device__ static Word swap(Word* word, Word expected, Word desired) {
    const Word before = atomicCAS_system(word, expected, desired);
    __threadfence_system();
    return before;
  }
};

}  // namespace meshbed::ring

/// Persistent: `kernel.lanes` threads over all blocks; `turns_most` bounds each lane's turns (0: until SHUTDOWN), so that
/// a ring without a SHUTDOWN slot cannot hold a GPU for ever.
extern "C" __global__ void meshbed_megakernel(meshbed::ring::Kernel kernel, unsigned long long turns_most) {
  using namespace meshbed::ring;
  const Word index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= kernel.lanes) return;
  Lane lane;
  lane.index = index;
  NoUserOperations none;
  for (unsigned long long turns = 0; turns_most == 0 || turns < turns_most; ++turns) {
    if (turn<DeviceWords>(kernel, lane, none) == Step::kStopped) return;
  }
}
