#pragma once
// ring bench --gpu: compares a kernel's launch with a slot of a resident megakernel, in one harness, on the GPU that
// this process finds: by the host's clock for a real one, by the simulated host's for a simulated one.

#include "testbed/result/document.h"

namespace meshbed::testbed {

/// "gpu". Throws std::runtime_error with the driver's reason: no driver, no such device, a kernel that does not answer.
document::Section bench_ring_on_gpu(int device, int repeats);

}  // namespace meshbed::testbed
