#include "plugin/coll/reduce_kernels.h"
#include "plugin/coll/reduce_levels.h"

namespace meshbed::coll {

const KernelTable kBaselineKernels = all_kernels();

}  // namespace meshbed::coll
