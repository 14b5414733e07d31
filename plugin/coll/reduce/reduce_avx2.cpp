#include "plugin/coll/reduce/reduce_kernels.h"
#include "plugin/coll/reduce/reduce_levels.h"

#if defined(__x86_64__)
namespace meshbed::coll {

ReduceKernels avx2_kernels(DataType type, ReduceOp op) { return find_kernels(type, op); }

}  // namespace meshbed::coll
#endif
