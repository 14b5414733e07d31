#pragma once
// WorkloadKind: the kinds of workloads, from one list (workloads.def). A new one is a line there, and a case of
// make_workload() (testbed/workload/workload.cpp).

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::testbed {

enum class WorkloadKind : std::uint8_t {
#define MESHBED_WORKLOAD(constant, name, runs_engine, has_iterations, gpu_memory, counts, meaning) constant,
#include "testbed/scenario/kinds/workloads.def"
#undef MESHBED_WORKLOAD
};

struct WorkloadInfo {
  WorkloadKind kind;
  const char* name;     // of scenario files and of results: "nccl-calls"
  bool runs_engine;     // the ranks call libmeshcoll, and not the net plugin itself
  bool has_iterations;  // faults may count from them
  bool gpu_memory;      // its messages may lie in memory of GPUs
  const char* counts;   // what Progress counts; empty: nothing
  const char* meaning;
};

/// In the order in which they are listed to users.
inline constexpr std::array kWorkloadKinds{
#define MESHBED_WORKLOAD(constant, name, runs_engine, has_iterations, gpu_memory, counts, meaning) \
  WorkloadInfo{WorkloadKind::constant, name, runs_engine, has_iterations, gpu_memory, counts, meaning},
#include "testbed/scenario/kinds/workloads.def"
#undef MESHBED_WORKLOAD
};

constexpr const WorkloadInfo& info_of(WorkloadKind kind) { return kWorkloadKinds[static_cast<std::uint8_t>(kind)]; }
constexpr const char* name_of(WorkloadKind kind) { return info_of(kind).name; }
constexpr bool runs_engine(WorkloadKind kind) { return info_of(kind).runs_engine; }

/// Of the kinds that have it: names_of(&WorkloadInfo::gpu_memory).
inline std::vector<std::string> names_of(bool WorkloadInfo::*what) {
  std::vector<std::string> names;
  for (const WorkloadInfo& each : kWorkloadKinds) {
    if (each.*what) names.emplace_back(each.name);
  }
  return names;
}

}  // namespace meshbed::testbed
