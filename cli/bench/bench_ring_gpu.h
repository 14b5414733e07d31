#pragma once
// ring bench --gpu: a kernel's launch against a slot of a megakernel that is resident, in one harness, on the GPU that
// this process finds: by the host's clock on a real one, by the simulated host's on a simulated one.

#include "testbed/result/document.h"

namespace meshbed::testbed {

/// "gpu". Throws std::runtime_error with the driver's reason: no driver, no such device, a kernel that does not answer.
document::Section bench_ring_on_gpu(int device, int repeats);

}  // namespace meshbed::testbed
