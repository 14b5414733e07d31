#pragma once
// How a call of the runtime begins and ends.

#include <cstddef>
#include <vector>

#include "sim/cuda/abi.h"

namespace meshbed::sim::cuda {

CUresult remember(CUresult code);
/// Makes the thread's device current, if nothing is: the runtime starts the driver by itself.
CUresult begin_runtime();

/// A thread's configurations of <<< >>>, until the kernel's stub reads them.
using CallConfigurations = std::vector<cudaLaunchConfig>;
void push_configuration(CallConfigurations& stack, dim3 grid, dim3 block, std::size_t shared, Stream* stream);
/// False: there is none.
bool pop_configuration(CallConfigurations& stack, dim3* grid, dim3* block, std::size_t* shared, void* stream);

template <typename Call>
CUresult in_runtime(const Call& call) {
  const CUresult begun = begin_runtime();
  return remember(begun != 0 ? begun : call());
}

}  // namespace meshbed::sim::cuda
