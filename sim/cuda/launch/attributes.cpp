// Launches with attributes: cuLaunchKernelEx, clusters of blocks, and how many of them fit. CUDA 13.0's driver API,
// CUlaunchAttributeID and "Occupancy"; CUDA C++ Programming Guide 13.0, "Thread Block Clusters".

#include <fmt/format.h>

#include <algorithm>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr unsigned kPortableClusterBlocks = 8, kMostClusterBlocks = 16;
constexpr int kFirstMajorWithClusters = 9;

unsigned blocks_of(const unsigned* cluster) { return cluster[0] * cluster[1] * cluster[2]; }

unsigned most_cluster_blocks(const Kernel& kernel) {
  unsigned most = kernel.allows_non_portable_clusters ? kMostClusterBlocks : kPortableClusterBlocks;
  if (kernel.info != nullptr && kernel.info->max_cluster_blocks != 0)
    most = std::min(most, kernel.info->max_cluster_blocks);
  return most;
}

/// Blocks of a launch of that shape on the whole device at once.
std::uint64_t held_blocks(const models::GpuModel& model, const KernelLaunch& launch) {
  return static_cast<std::uint64_t>(std::max(launch.shape.resident_blocks, 0)) * static_cast<std::uint64_t>(model.sms);
}

bool read_attribute(const LaunchAttribute& attribute, LaunchOptions& options, CUresult& error) {
  switch (attribute.id) {
    case kAttributeIgnore:
    case kAttributePriority:  // among kernels that wait for SMs the first one is first
    // It may begin before the kernel before it has ended, and need not: griddepcontrol.wait then has nothing to wait
    // for.
    case kAttributeProgrammaticSerialization:
    case kAttributeAccessPolicy:  // of caches, which are not modelled
    case kAttributeSynchronization:
    case kAttributeDomainMap:  // memory is one domain
    case kAttributeDomain:
    // Hints: where a cluster's blocks are put, which of two sizes a cluster has, and what shared memory is left to the
    // cache, or links to other GPUs.
    case kAttributePreferredCluster:
    case kAttributeCarveout:
    case kAttributeNvlinkScheduling:
      return true;
    case kAttributeClusterPolicy: {
      constexpr int kLastPolicy = 2;  // default, spread, balance
      if (attribute.value.integer < 0 || attribute.value.integer > kLastPolicy) error = kInvalidValue;
      return true;
    }
    case kAttributeCooperative:
      options.cooperative = attribute.value.integer != 0;
      return true;
    case kAttributeClusterDimension:
      options.cluster = attribute.value.dimension;
      return true;
    case kAttributeCompletionEvent:
      options.begun = attribute.value.completion.event;
      if (options.begun == nullptr || attribute.value.completion.flags != 0) error = kInvalidValue;
      return true;
    default:
      error = refuse("launch attribute " + std::to_string(attribute.id));
      return false;
  }
}

CUresult read_options(const CUlaunchConfig& config, LaunchOptions& options) {
  CUresult error = kSuccess;
  for (unsigned index = 0; index < config.attribute_count && error == kSuccess; ++index) {
    read_attribute(config.attributes[index], options, error);
  }
  return error;
}

/// The launch's shape, for questions about it: without arguments.
CUresult shape_of(const Caller& caller, Kernel* kernel, const CUlaunchConfig* config, KernelLaunch& made) {
  if (caller.error != kSuccess) return caller.error;
  if (config == nullptr || kernel == nullptr) return kInvalidValue;
  if (config->attribute_count > 0 && config->attributes == nullptr) return kInvalidValue;
  const models::GpuModel& model = *caller.context->device->model;
  if (model.compute_major < kFirstMajorWithClusters) return kNotSupported;
  LaunchOptions options;
  if (const CUresult error = read_options(*config, options)) return error;
  made.kernel = kernel;
  made.info = kernel->info;
  made.model = &model;
  std::copy_n(config->grid, 3, made.grid);
  std::copy_n(config->block, 3, made.block);
  made.shape.resident_blocks =
      std::max(0, resident_blocks_of(model, kernel->info, made.threads(), config->shared_bytes));
  return set_cluster(made, options.cluster);
}

}  // namespace

CUresult set_cluster(KernelLaunch& launch, const unsigned* asked) {
  const Kernel& kernel = *launch.kernel;
  const auto refused = [&](CUresult code, const std::string& why) {
    return complain(code, fmt::format("kernel {}: {}: error {}", kernel.name, why, code));
  };
  unsigned required[] = {1, 1, 1};
  bool is_required = false;
  for (int axis = 0; axis < 3; ++axis) {
    const unsigned own = kernel.required_cluster[axis];
    is_required = is_required || own != 0;
    required[axis] = std::max(own, 1U);
  }
  if (kernel.info != nullptr && kernel.info->blocks_are_clusters)
    return refuse("a launch of kernel " + kernel.name + ", whose grid is counted in clusters (.blocksareclusters),");
  if (asked == nullptr && !is_required) return kSuccess;
  const unsigned* size = asked != nullptr ? asked : required;
  if (is_required && !std::equal(size, size + 3, required)) {
    return refused(kInvalidClusterSize,
                   fmt::format("a cluster of {} x {} x {} blocks, where the kernel requires {} x {} x {}", size[0],
                               size[1], size[2], required[0], required[1], required[2]));
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (size[axis] == 0 || launch.grid[axis] % size[axis] != 0) {
      return refused(kInvalidValue, fmt::format("{} blocks along axis {} cannot be in clusters of {}",
                                                launch.grid[axis], "xyz"[axis], size[axis]));
    }
  }
  const unsigned blocks = blocks_of(size);
  const models::GpuModel& model = *launch.model;
  if (blocks > 1 && model.compute_major < kFirstMajorWithClusters) {
    return refused(kNotSupported, fmt::format("a cluster of {} blocks on {}, whose compute capability is {}.{}; "
                                              "clusters begin with 9.0",
                                              blocks, model.name, model.compute_major, model.compute_minor));
  }
  if (blocks > most_cluster_blocks(kernel)) {
    return refused(kInvalidClusterSize,
                   fmt::format("a cluster of {} blocks, where {} are allowed (16 with the kernel's attribute "
                               "NON_PORTABLE_CLUSTER_SIZE_ALLOWED)",
                               blocks, most_cluster_blocks(kernel)));
  }
  if (blocks > held_blocks(model, launch)) return kLaunchOutOfResources;
  std::copy_n(size, 3, launch.cluster);
  launch.has_cluster = true;
  return kSuccess;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, Kernel* function, void** arguments, void** extra) {
  if (config == nullptr || (config->attribute_count > 0 && config->attributes == nullptr)) return kInvalidValue;
  LaunchOptions options;
  if (const CUresult error = read_options(*config, options)) return error;
  return launch_with(function, config->grid, config->block, config->shared_bytes, config->stream, arguments, extra,
                     options);
}

// Where a cluster's blocks are put is not modelled: each SM holds as many as of a kernel without clusters, and the
// clusters share the whole device, whereas a GPU has one within a group of its SMs.
CUresult cuOccupancyMaxActiveClusters(int* clusters, Kernel* function, const CUlaunchConfig* config) {
  KernelLaunch made;
  const Caller caller = enter_context();
  if (const CUresult error = shape_of(caller, function, config, made)) return error;
  if (clusters == nullptr) return kInvalidValue;
  *clusters = static_cast<int>(held_blocks(*made.model, made) / blocks_of(made.cluster));
  return kSuccess;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, Kernel* function, const CUlaunchConfig* config) {
  KernelLaunch made;
  const Caller caller = enter_context();
  // The size that the launch may ask for is what is sought.
  CUlaunchConfig without{};
  if (config != nullptr) without = *config;
  without.attribute_count = 0;
  if (const CUresult error = shape_of(caller, function, config != nullptr ? &without : nullptr, made)) return error;
  if (blocks == nullptr) return kInvalidValue;
  if (made.has_cluster) {
    *blocks = static_cast<int>(blocks_of(made.cluster));
    return kSuccess;
  }
  const std::uint64_t held = held_blocks(*made.model, made);
  *blocks = static_cast<int>(std::min<std::uint64_t>(most_cluster_blocks(*function), held));
  return *blocks > 0 ? kSuccess : kInvalidValue;
}

namespace {

template <typename Call>
CUresult in_driver(const void* function, const cudaLaunchConfig* config, const Call& call) {
  return in_runtime([&]() -> CUresult {
    if (config == nullptr) return kInvalidValue;
    Kernel* kernel = nullptr;
    if (const CUresult error = kernel_of(function, kernel)) return error;
    const CUlaunchConfig same{.grid = {config->grid.x, config->grid.y, config->grid.z},
                              .block = {config->block.x, config->block.y, config->block.z},
                              .shared_bytes = static_cast<unsigned>(config->shared_bytes),
                              .stream = config->stream,
                              .attributes = config->attributes,
                              .attribute_count = config->attribute_count};
    return call(kernel, same);
  });
}

}  // namespace

CUresult cudaLaunchKernelExC(const cudaLaunchConfig* config, const void* function, void** arguments) {
  return in_driver(function, config, [&](Kernel* kernel, const CUlaunchConfig& same) {
    return cuLaunchKernelEx(&same, kernel, arguments, nullptr);
  });
}

CUresult cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig* config) {
  return in_driver(function, config, [&](Kernel* kernel, const CUlaunchConfig& same) {
    return cuOccupancyMaxActiveClusters(clusters, kernel, &same);
  });
}

CUresult cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function, const cudaLaunchConfig* config) {
  return in_driver(function, config, [&](Kernel* kernel, const CUlaunchConfig& same) {
    return cuOccupancyMaxPotentialClusterSize(blocks, kernel, &same);
  });
}

}  // namespace meshbed::sim::cuda
