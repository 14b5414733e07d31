#pragma once
// The engine's reductions on the GPU that this process finds, for meshbed bench reduce --gpu: both operands in the
// GPU's memory, or what arrived in pinned memory, where the kernel reads it over the link. Times are the GPU's own,
// between events before and behind one launch; a simulated GPU's are its model's.

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
