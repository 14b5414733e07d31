#pragma once
// The simulated CUDA of this process: what the drop-ins libcuda.so.1 and libcudart.so.13 find in a program that
// `meshbed cuda run` started, and what tests open by hand.

#include "sim/cuda/backend.h"
#include "sim/cuda/process/process_host.h"
#include "sim/cuda/process/variables.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

/// One at a time. Throws std::runtime_error where there is no model of a GPU.
ProcessHost& open_process(const GpuNames& gpus, ProcessOptions options);
/// What its programs had is gone. Its driver's threads, if any, wait for the end of the process.
void close_process();

/// Every call of them takes the turn (process_host.h).
const DriverTable& process_driver_table();
const RuntimeTable& process_runtime_table();
const NvmlTable& process_nvml_table();

}  // namespace meshbed::sim::cuda
