#include "testbed/world/gpus.h"

#include <algorithm>
#include <filesystem>

#include "models/gpu_profile.h"
#include "sim/cuda/process/variables.h"
#include "sim/perfetto/demangled.h"
#include "testbed/base/environment.h"
#include "testbed/base/files.h"

namespace meshbed::testbed {

bool has_gpus(const models::Cluster& cluster) {
  return std::any_of(cluster.nodes.begin(), cluster.nodes.end(), [](const models::Node& node) {
    return std::any_of(node.gpus.begin(), node.gpus.end(), [](const models::Gpu& gpu) { return !gpu.model.empty(); });
  });
}

bool calls_cuda(const Scenario& scenario) {
  if (scenario.workload.kind == WorkloadKind::kReconnect) return false;
  return scenario.workload.gpu_memory ||
         (scenario.workload.kind == WorkloadKind::kProgram && has_gpus(scenario.cluster));
}

std::optional<sim::CudaFiles> cuda_files_of(const Scenario& scenario, const std::string& folder) {
  if (!calls_cuda(scenario)) return std::nullopt;
  const bool runtime = scenario.workload.kind == WorkloadKind::kProgram;
  sim::CudaFiles files = sim::cuda_files_in(folder, runtime);
  files.cache = sim::cuda::cache_folder_of([](const char* name) { return from_environment(name).value_or(""); });
  return files;
}

std::vector<std::pair<std::string, std::string>> gpu_environment(const models::Node& node,
                                                                 const std::string& library_path) {
  std::vector<std::string> names;
  for (const models::Gpu& gpu : node.gpus) names.push_back(gpu.model);
  const auto words = models::gpu_words_named(names);
  const std::string folder = built_files().cuda_folder;
  if (!words || words->empty() || !std::filesystem::exists(folder + "/libcuda.so.1")) return {};
  return {{"LD_LIBRARY_PATH", (library_path.empty() ? "" : library_path + ":") + folder},
          {sim::cuda::kGpuVariable, *words}};
}

std::vector<GpuSpan> gpu_spans(const sim::WorldCuda& gpus) {
  std::vector<GpuSpan> spans;
  for (auto& [process, span] : gpus.spans()) {
    if (process->rank < 0) continue;
    spans.push_back({.rank = process->rank,
                     .is_call = span.track == sim::cuda::kCallTrack,
                     .track = span.track,
                     .name = span.grid.empty() ? span.name : demangled(span.name),
                     .start_ps = span.begin_ps,
                     .end_ps = span.end_ps,
                     .grid = span.grid,
                     .bytes = span.bytes});
  }
  return spans;
}

}  // namespace meshbed::testbed
