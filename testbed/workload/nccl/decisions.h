#pragma once
// NCCL's decisions as written by the profiler plugin (plugin/profiler): one rank's JSON, and those of all ranks.

#include <cstdint>
#include <string>
#include <vector>

#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// One rank's; calls that differ in peers and roots alone are of one choice. Throws nlohmann::json::exception for
/// another text.
std::vector<NcclDecision> read_decisions(const std::string& text);
/// Adds another rank's: `calls` is of the rank that made most.
void add_decisions(std::vector<NcclDecision>* all, std::vector<NcclDecision> more);

struct NcclDatatype {
  const char* name;  // nccl-tests': "float"
  std::uint64_t bytes;
};
/// By ncclDataType_t; nullptr: NCCL v2.30.7-1 has none of that number.
const NcclDatatype* nccl_datatype(int number);

}  // namespace meshbed::testbed
