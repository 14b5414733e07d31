#pragma once
// How a call of the runtime begins and ends.

#include "sim/cuda/abi.h"

namespace meshbed::sim::cuda {

CUresult remember(CUresult code);
/// Makes the thread's device current, if nothing is: the runtime starts the driver by itself.
CUresult begin_runtime();

template <typename Call>
CUresult in_runtime(const Call& call) {
  const CUresult begun = begin_runtime();
  return remember(begun != 0 ? begun : call());
}

}  // namespace meshbed::sim::cuda
