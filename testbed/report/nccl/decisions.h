#pragma once
// What NCCL decided, as its profiler announced it: text and JSON for the report.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// The library's line, and a table: operation, type, size (nccl-tests' `size`, bytes), algorithm, protocol, channels,
/// calls of one rank. Empty where no rank has loaded one.
std::vector<std::string> nccl_lines(const LoadedNccl& nccl);
/// null where no rank has loaded one.
nlohmann::ordered_json nccl_json(const LoadedNccl& nccl);

}  // namespace meshbed::testbed
