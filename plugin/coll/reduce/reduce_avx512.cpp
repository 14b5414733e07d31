#include "plugin/coll/reduce/reduce_kernels.h"
#include "plugin/coll/reduce/reduce_levels.h"

#if defined(__x86_64__)
namespace meshbed::coll {

// The other types' are as fast with AVX2 (`meshbed bench reduce`: both as fast as the copy), and the library is loaded
// once for each simulated rank.
ReduceKernels avx512_kernels(DataType type, ReduceOp op) {
  if (type == DataType::kBfloat16) return kernels_of_type<Bfloat16>(op);
  if (type == DataType::kFloat16) return kernels_of_type<Float16>(op);
  return {};
}

}  // namespace meshbed::coll
#endif
