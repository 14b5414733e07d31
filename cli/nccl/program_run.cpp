#include "cli/nccl/program_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/nccl/library.h"
#include "testbed/base/environment.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed {

namespace fs = std::filesystem;

std::vector<std::string> cluster_overrides(const ProgramRun& run) {
  // NCCL looks for libnccl-net-mesh.so and libnccl-profiler-meshbed.so.
  std::vector<std::string> all{"environment.NCCL_NET_PLUGIN=mesh", "environment.NCCL_PROFILER_PLUGIN=meshbed"};
  if (!run.gpu.empty()) all.insert(all.end(), {"topology.gpus=1", "topology.gpu_model=" + run.gpu});
  all.insert(all.end(), run.overrides.begin(), run.overrides.end());
  return all;
}

void require_library_and_scenario(const std::string& command, const ProgramRun& run) {
  if (run.library.empty()) throw std::runtime_error(command + ": --nccl LIBRARY: which libnccl.so?");
  if (run.scenario.empty()) throw std::runtime_error(command + ": --scenario FILE: on which cluster?");
}

void require_gpus_that_fit(const std::string& command, const ProgramRun& run) {
  const NcclLibrary library = inspect_nccl(run.library);
  if (const auto obstacles = obstacles_of(library); !obstacles.empty()) {
    throw std::runtime_error(fmt::format("{}: {}: {}", command, run.library, obstacles.front()));
  }
  const std::vector<NcclOnGpu> gpus = nccl_on_gpus(library);
  for (const models::Node& node : read_scenario(run.scenario, cluster_overrides(run)).cluster.nodes) {
    if (node.gpus.empty() || node.gpus.front().model.empty()) {
      throw std::runtime_error(
          fmt::format("{}: {} has no GPU of a model, and NCCL needs one for each rank: --gpu H100 gives every node one",
                      command, node.name));
    }
    const auto of_model = std::find_if(gpus.begin(), gpus.end(),
                                       [&](const NcclOnGpu& gpu) { return gpu.gpu == node.gpus.front().model; });
    if (of_model != gpus.end() && !of_model->obstacle.empty()) {
      throw std::runtime_error(fmt::format("{}: {}: {}", command, run.library, of_model->obstacle));
    }
  }
}

std::string library_path(const std::string& library) {
  const BuiltFiles files = built_files();
  std::string folders = fs::absolute(library).parent_path().string();
  for (const std::string& file : {files.net_plugin, files.mpi}) folders += ":" + fs::path(file).parent_path().string();
  if (const auto own = from_environment("LD_LIBRARY_PATH")) folders += ":" + *own;
  return folders;
}

Arguments simulated_words(const ProgramRun& run) {
  Arguments words{"run", run.scenario, "--no-expect"};
  const auto set = [&words](const std::string& text) { words.insert(words.end(), {"--set", text}); };
  const auto quoted = [](const auto& value) { return json_text(nlohmann::json(value)); };
  for (const std::string& text : cluster_overrides(run)) set(text);
  for (const std::string& fault : run.faults) words.insert(words.end(), {"--fault", fault});
  set("workload.kind=program");
  set("workload.program=" + quoted(fs::absolute(run.program).string()));
  set("workload.arguments=" + quoted(run.arguments));
  set("workload.nccl=" + quoted(run.library == kDropInNccl ? run.library : fs::absolute(run.library).string()));
  words.insert(words.end(), {"--results", run.results});
  return words;
}

}  // namespace meshbed::testbed
