#pragma once
// Environment of a program that `meshbed cuda run` starts, and of simulations.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace meshbed::sim::cuda {

/// GPUs' names with commas between ("H100"), or whole models (models::gpu_word()); empty or not set: the drop-ins have
/// no device.
inline constexpr const char* kGpuVariable = "MESHBED_CUDA_GPU";
/// Not empty: the program's own code takes no time.
inline constexpr const char* kVirtualVariable = "MESHBED_CUDA_VIRTUAL";
/// A number: the order in which a kernel's blocks and warps take turns; 0 or not set: the plain one.
inline constexpr const char* kSeedVariable = "MESHBED_CUDA_SEED";
/// A number from 1 to 1,048,576: how many launches of a stream may be pending before a launch blocks. Not set: 1,024.
inline constexpr const char* kPendingLaunchesVariable = "MESHBED_CUDA_PENDING_LAUNCHES";
/// Not empty: what the device did is printed to standard error at the end.
inline constexpr const char* kSummaryVariable = "MESHBED_CUDA_SUMMARY";
/// A file for the picture.
inline constexpr const char* kPerfettoVariable = "MESHBED_CUDA_PERFETTO";

/// Where what was learnt of large PTX texts is kept (Host::cache_folder). CUDA_CACHE_DISABLE and CUDA_CACHE_PATH are
/// NVIDIA's own variables of the cache of its driver's compiler (CUDA C++ Programming Guide, "CUDA Environment
/// Variables"). `lookup(name)` is a variable's value; empty: not set.
template <typename Lookup>
std::string cache_folder_of(const Lookup& lookup) {
  if (lookup("CUDA_CACHE_DISABLE") == "1") return {};
  if (std::string named = lookup("CUDA_CACHE_PATH"); !named.empty()) return named;
  if (const std::string caches = lookup("XDG_CACHE_HOME"); !caches.empty()) return caches + "/meshbed/ptx";
  const std::string home = lookup("HOME");
  return home.empty() ? "" : home + "/.cache/meshbed/ptx";
}

/// The names in a value of kGpuVariable; empty ones, too.
inline std::vector<std::string> gpu_names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return names;
}

}  // namespace meshbed::sim::cuda
