#pragma once
// The engine's reductions on the GPU that this process finds, for meshbed bench reduce --gpu: both operands in the
// GPU's memory, or received data in pinned memory, which the kernel reads over the link. Times are the GPU's own,
// between events before and after one launch; for a simulated GPU they come from its model.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/coll/plan/datatype.h"
#include "testbed/result/document.h"

namespace meshbed::testbed {

struct GpuReductions {
  std::string gpu, times;  // its name, and where its times come from
  document::Table rows;
};

/// `device`: as the driver counts. Throws std::runtime_error where there is no such GPU.
GpuReductions measure_gpu_reductions(int device, const std::vector<coll::DataType>& types, std::uint64_t bytes,
                                     int repetitions);

}  // namespace meshbed::testbed
