#include "plugin/coll/reduce_kernels.h"
#include "plugin/coll/reduce_levels.h"

#if defined(__x86_64__)
namespace meshbed::coll {

const KernelTable kAvx2Kernels = all_kernels();

}  // namespace meshbed::coll
#endif
