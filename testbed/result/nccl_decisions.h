#pragma once
// What NCCL decided, as its profiler announced it.

#include "testbed/result/document.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed::document {

Section nccl_section_shape();
/// The library, and a row for each operation, type and size. Without values if no rank loaded one.
Section nccl_section(const LoadedNccl& nccl);

}  // namespace meshbed::testbed::document
