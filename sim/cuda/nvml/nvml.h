#pragma once
// NVML, NVIDIA's management library, over the same GPUs: what they are and what memory they have left. All GPUs of the
// node are there; CUDA_VISIBLE_DEVICES has no effect, as with NVIDIA's. No model has links between GPUs, temperatures,
// clocks or counters: such calls are refused.

#include <cstdint>

#include "sim/cuda/nvml/nvml_abi.h"

namespace meshbed::sim::cuda {

#define MESHBED_NVML_CALL(type, name, parameters, arguments) type name parameters;
#include "sim/cuda/nvml/nvml_calls.def"
#undef MESHBED_NVML_CALL

/// One WARN a name; kNvmlNotSupported.
int refuse_nvml(const char* name);

}  // namespace meshbed::sim::cuda
