#pragma once
// The engine's reductions on the GPU that this process finds, for meshbed bench reduce --gpu: both operands in the
// GPU's memory, or received data in pinned memory, which the kernel reads over the link. Times are the GPU's own,
// between events before and after one launch; for a simulated GPU they come from its model.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "plugin/coll/plan/datatype.h"

namespace meshbed::testbed {

/// {"gpu": its name, "times": where they come from, "rows": [...]}. A row's gigabytes_per_s are of all bytes that the
/// GPU's memory reads and writes, or, from pinned memory, of those that pass the link; share_of_copy is that against a
/// copy of the driver's between the same memories. `device`: as the driver counts. Throws std::runtime_error where
/// there is no such GPU.
nlohmann::json measure_gpu_reductions(int device, const std::vector<coll::DataType>& types, std::uint64_t bytes,
                                      int repetitions);

}  // namespace meshbed::testbed
