#pragma once
// Environment of a program that `meshbed cuda run` starts.

namespace meshbed::sim::cuda {

/// GPUs' names with commas between ("H100"); empty or not set: the drop-ins have no device.
inline constexpr const char* kGpuVariable = "MESHBED_CUDA_GPU";
/// Not empty: the program's own code takes no time.
inline constexpr const char* kVirtualVariable = "MESHBED_CUDA_VIRTUAL";
/// Not empty: what the device did is printed to standard error at the end.
inline constexpr const char* kSummaryVariable = "MESHBED_CUDA_SUMMARY";
/// A file for the picture.
inline constexpr const char* kPerfettoVariable = "MESHBED_CUDA_PERFETTO";

}  // namespace meshbed::sim::cuda
