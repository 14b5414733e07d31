#include "cli/world/emulated_gpus.h"

#include <filesystem>

#include "cli/common/files.h"
#include "models/gpu_profile.h"
#include "sim/cuda/process/variables.h"

namespace meshbed::cli {

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

}  // namespace meshbed::cli
