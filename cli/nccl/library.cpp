#include "cli/nccl/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>

#include "models/gpu.h"
#include "sim/cuda/image/fat_binary.h"
#include "testbed/base/elf_file.h"
#include "testbed/base/files.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kRuntime = "libcudart.so.13";

/// What the drop-ins export and refuse.
const std::set<std::string_view>& refused_here() {
  static const std::set<std::string_view> names{
#define MESHBED_CUDA_UNSUPPORTED(name) #name,
#define MESHBED_NVML_UNSUPPORTED(name) #name,
#include "sim/cuda/driver_unsupported.def"
#include "sim/cuda/nvml/nvml_unsupported.def"
#include "sim/cuda/runtime_unsupported.def"
#undef MESHBED_CUDA_UNSUPPORTED
#undef MESHBED_NVML_UNSUPPORTED
  };
  return names;
}

/// "NCCL version 2.30.7+cuda13.0", which stands there for strings(1) (init.cc, VERSION_STRING).
void read_version(const ElfFile& file, NcclLibrary& library) {
  constexpr std::string_view kBefore = "NCCL version ", kDigits = "0123456789.";
  const std::string_view bytes = file.bytes();
  for (std::size_t at = bytes.find(kBefore); at != bytes.npos; at = bytes.find(kBefore, at + 1)) {
    const std::string_view text = bytes.substr(at + kBefore.size(), 64);
    const std::string_view line = text.substr(0, text.find('\0'));
    const std::size_t end = std::min(line.find_first_not_of(kDigits), line.size());
    if (end == 0) continue;  // "NCCL version %d"
    library.version = line.substr(0, end);
    constexpr std::string_view kCuda = "+cuda";
    if (const std::size_t cuda = line.find(kCuda); cuda != line.npos) {
      library.cuda_version = line.substr(cuda + kCuda.size());
    }
    return;
  }
}

void read_device_code(const ElfFile& file, NcclLibrary& library) {
  std::map<std::uint32_t, std::size_t> texts;  // by architecture
  // The second one: of parts that the program's linker put together (nvcc -rdc=true).
  for (const char* name : {".nv_fatbin", "__nv_relfatbin"}) {
    for (const std::string_view section : file.sections(name)) {
      const auto entries = sim::cuda::read_fat_binary(std::as_bytes(std::span(section.data(), section.size())));
      if (!entries) throw std::runtime_error(fmt::format("section {}: {}", name, entries.error().text));
      for (const sim::cuda::FatEntry& entry : *entries) {
        if (!entry.is_ptx) {
          library.machine_code.insert(entry.architecture);
          continue;
        }
        ++texts[entry.architecture];
        ++library.ptx_texts;
        library.ptx_bytes += entry.payload.size();
      }
    }
  }
  // All parts of NCCL have the same architectures. A part of CUDA's that is linked in beside them (libcudadevrt) brings
  // others, for which there are no kernels.
  std::size_t most = 0;
  for (const auto& [architecture, count] : texts) most = std::max(most, count);
  for (const auto& [architecture, count] : texts) {
    if (count * 2 > most) library.ptx.insert(architecture);
  }
}

/// NCCL asks for the driver's and NVML's functions by name, and binds the runtime's.
void read_refused(const ElfFile& file, NcclLibrary& library) {
  std::set<std::string> found;
  for (const std::string_view section : file.sections(".rodata")) {
    for (std::size_t begin = 0; begin < section.size();) {
      const std::size_t end = std::min(section.find('\0', begin), section.size());
      const std::string_view text = section.substr(begin, end - begin);
      if (refused_here().count(text) > 0) found.emplace(text);
      begin = end + 1;
    }
  }
  for (const std::string& name : file.imported()) {
    if (refused_here().count(name) > 0) found.insert(name);
  }
  library.refused.assign(found.begin(), found.end());
}

std::string obstacle_on(const NcclLibrary& library, const std::string& gpu, std::uint32_t architecture) {
  const NcclSizes sizes = nccl_sizes(architecture);
  // The one that the simulated driver takes: the highest that is not above the GPU's.
  const auto above = library.ptx.upper_bound(architecture);
  const bool found = above != library.ptx.begin();
  if (found && nccl_sizes(*std::prev(above)) == sizes) return "";
  std::uint32_t wanted = architecture;
  while (wanted % 10 > 0 && nccl_sizes(wanted - 1) == sizes) --wanted;
  const std::string needs = fmt::format("{} (sm_{}) needs PTX for compute_{}; this has ", gpu, architecture, wanted);
  if (!found) return needs + architecture_names(library.ptx, "compute");
  return needs + fmt::format(
                     "compute_{}, whose kernels take other sizes of scratch memory and work than NCCL's host part "
                     "takes for this GPU",
                     *std::prev(above));
}

}  // namespace

std::string architecture_names(const std::set<std::uint32_t>& architectures, const char* prefix) {
  std::vector<std::string> names;
  for (const std::uint32_t one : architectures) names.push_back(fmt::format("{}_{}", prefix, one));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

NcclSizes nccl_sizes(std::uint32_t architecture) {
  constexpr std::uint32_t kAmpere = 80, kHopper = 90, kConsumerBlackwell = 12;
  NcclSizes sizes;
  sizes.unroll = architecture < kAmpere ? 4 : architecture / 10 == kConsumerBlackwell ? 6 : 8;
  sizes.nvls = architecture >= kHopper;
  sizes.batch_bytes = architecture < kAmpere ? 1 << 10 : architecture < kHopper ? 8 << 10 : 16 << 10;
  return sizes;
}

NcclLibrary inspect_nccl(const std::string& path) {
  const std::string bytes = read_text_file(path);
  try {
    const ElfFile file(bytes);
    if (file.exported().count("ncclCommInitRank") == 0) {
      throw std::runtime_error("it does not export ncclCommInitRank: no libnccl.so");
    }
    NcclLibrary library;
    read_version(file, library);
    if (library.version.empty()) {
      throw std::runtime_error("it exports NCCL's calls and is not NVIDIA's NCCL: it names no version of it");
    }
    read_device_code(file, library);
    for (const std::string& needed : file.needed()) {
      if (needed.rfind("libcudart.so", 0) == 0) library.cuda_runtime = needed;
      if (needed.rfind("libstdc++.so", 0) == 0) library.shared_cxx_runtime = true;
    }
    // A runtime that is linked in has the names of all functions in it.
    if (!library.cuda_runtime.empty()) read_refused(file, library);
    return library;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
  }
}

std::vector<std::string> obstacles_of(const NcclLibrary& library) {
  std::vector<std::string> obstacles;
  if (library.cuda_runtime.empty()) {
    obstacles.push_back(fmt::format(
        "the CUDA runtime is linked into it statically, and requires a genuine driver: it needs the shared one, {}",
        kRuntime));
  } else if (library.cuda_runtime != kRuntime) {
    obstacles.push_back(fmt::format("it needs {}; the simulated runtime is {}", library.cuda_runtime, kRuntime));
  }
  if (library.ptx.empty()) {
    obstacles.push_back(fmt::format("it has no PTX, which is what the simulated GPUs execute{}",
                                    library.machine_code.empty()
                                        ? ""
                                        : ": only machine code for " + architecture_names(library.machine_code, "sm")));
  }
  return obstacles;
}

std::vector<NcclOnGpu> nccl_on_gpus(const NcclLibrary& library) {
  std::vector<NcclOnGpu> list;
  for (const std::string& name : models::gpu_names()) {
    const models::GpuModel& model = *models::find_gpu(name);
    const auto architecture = static_cast<std::uint32_t>(10 * model.compute_major + model.compute_minor);
    list.push_back({name, architecture, library.ptx.empty() ? "" : obstacle_on(library, name, architecture)});
  }
  return list;
}

}  // namespace meshbed::testbed
