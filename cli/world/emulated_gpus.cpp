#include "cli/world/emulated_gpus.h"

#include <filesystem>

#include "cli/common/files.h"
#include "models/gpu_profile.h"
#include "sim/cuda/process/variables.h"

namespace meshbed::cli {

std::vector<std::pair<std::string, std::string>> gpu_environment(const models::Node& node,
                                                                 const std::string& library_path) {
  std::string words;
  for (const models::Gpu& gpu : node.gpus) {
    const auto word = models::gpu_word_named(gpu.model);
    if (!word) return {};
    words += (words.empty() ? "" : ",") + *word;
  }
  const std::string folder = built_files().cuda_folder;
  if (words.empty() || !std::filesystem::exists(folder + "/libcuda.so.1")) return {};
  return {{"LD_LIBRARY_PATH", (library_path.empty() ? "" : library_path + ":") + folder},
          {sim::cuda::kGpuVariable, words}};
}

}  // namespace meshbed::cli
