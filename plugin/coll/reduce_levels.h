#pragma once
// The tables of reduce_baseline.cpp, reduce_avx2.cpp and reduce_avx512.cpp, for reduce.cpp alone.

#include "plugin/coll/reduce.h"

namespace meshbed::coll {

extern const KernelTable kBaselineKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
#endif

}  // namespace meshbed::coll
