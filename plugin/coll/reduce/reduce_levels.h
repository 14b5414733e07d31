#pragma once
// The kernels of reduce_baseline.cpp, reduce_avx2.cpp and reduce_avx512.cpp, for reduce.cpp alone.

#include "plugin/coll/reduce/reduce.h"

namespace meshbed::coll {

ReduceKernels baseline_kernels(DataType type, ReduceOp op);
#if defined(__x86_64__)
ReduceKernels avx2_kernels(DataType type, ReduceOp op);
/// All nullptr where AVX2's are as fast.
ReduceKernels avx512_kernels(DataType type, ReduceOp op);
#endif

}  // namespace meshbed::coll
