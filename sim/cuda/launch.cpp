// Launches: cuLaunchKernel and its like, and what a kernel's function is.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr unsigned kMostThreads = 1024, kMostZ = 64, kMostBlocksYz = 65535;

bool possible(const models::GpuModel& model, const unsigned* grid, const unsigned* block, unsigned shared_bytes) {
  for (int axis = 0; axis < 3; ++axis) {
    if (grid[axis] == 0 || block[axis] == 0) return false;
  }
  if (grid[0] > 2147483647U || grid[1] > kMostBlocksYz || grid[2] > kMostBlocksYz) return false;
  if (block[0] > kMostThreads || block[1] > kMostThreads || block[2] > kMostZ) return false;
  const std::uint64_t threads = std::uint64_t{block[0]} * block[1] * block[2];
  return threads <= kMostThreads && shared_bytes <= model.shared_bytes_per_block;
}

/// Where each argument stands in a packed buffer; the last entry is the end.
std::vector<std::size_t> packed(const std::vector<unsigned>& sizes) {
  constexpr std::size_t kMostAlignment = 16;
  std::vector<std::size_t> offsets;
  std::size_t at = 0;
  for (const unsigned size : sizes) {
    std::size_t alignment = 1;
    while (alignment < kMostAlignment && size % (alignment * 2) == 0 && size > 0) alignment *= 2;
    at = (at + alignment - 1) / alignment * alignment;
    offsets.push_back(at);
    at += size;
  }
  offsets.push_back(at);
  return offsets;
}

/// cuda.h's CU_LAUNCH_PARAM_*: a list of pairs that ends with null.
CUresult packed_arguments(void** extra, const void*& buffer, std::size_t& size_bytes) {
  const auto kEnd = std::uintptr_t{0}, kPointer = std::uintptr_t{1}, kSize = std::uintptr_t{2};
  buffer = nullptr;
  size_bytes = 0;
  for (void** at = extra; reinterpret_cast<std::uintptr_t>(*at) != kEnd; at += 2) {
    const auto what = reinterpret_cast<std::uintptr_t>(at[0]);
    if (what == kPointer) {
      buffer = at[1];
    } else if (what == kSize) {
      size_bytes = *static_cast<const std::size_t*>(at[1]);
    } else {
      return kInvalidValue;
    }
  }
  return buffer != nullptr ? kSuccess : kInvalidValue;
}

CUresult simple_launch(Kernel* function, const unsigned* grid, const unsigned* block, unsigned shared, Stream* stream,
                       void** arguments, void** extra, bool cooperative) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  KernelLaunch made;
  if (const CUresult error = prepare_launch(caller, function, grid, block, shared, arguments, extra, made))
    return error;
  const Stream* const own = find_stream(caller, stream);
  const Context* const context = function->module->context;
  if (own != nullptr && context != nullptr && own->context != context) return kInvalidHandle;
  return launch(caller, stream, std::move(made), cooperative);
}

CUresult pack_values(const std::vector<std::size_t>& offsets, const std::vector<std::size_t>& sizes, void** arguments,
                     void** extra, std::vector<std::byte>& values) {
  if (sizes.empty()) return kSuccess;
  if ((arguments == nullptr) == (extra == nullptr)) return kInvalidValue;
  if (extra != nullptr) {
    const void* buffer = nullptr;
    std::size_t size_bytes = 0;
    if (const CUresult error = packed_arguments(extra, buffer, size_bytes)) return error;
    if (size_bytes < offsets.back() + sizes.back()) return kInvalidValue;
    std::memcpy(values.data(), buffer, std::min(size_bytes, values.size()));
    return kSuccess;
  }
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    if (arguments[index] == nullptr) return kInvalidValue;
    std::memcpy(values.data() + offsets[index], arguments[index], sizes[index]);
  }
  return kSuccess;
}

CUresult check_shape(const models::GpuModel& model, const Kernel& kernel, const unsigned* grid, const unsigned* block,
                     unsigned shared_bytes) {
  const std::uint64_t fixed = kernel.info != nullptr ? kernel.info->static_shared_bytes : 0;
  if (!possible(model, grid, block, static_cast<unsigned>(shared_bytes + fixed))) return kInvalidValue;
  if (kernel.info == nullptr) return kSuccess;
  const unsigned threads = block[0] * block[1] * block[2];
  const auto& required = kernel.info->required_block;
  const bool other = required[0] != 0 && (block[0] != required[0] || block[1] != std::max(required[1], 1U) ||
                                          block[2] != std::max(required[2], 1U));
  if (other || threads > kernel.info->max_threads) return kInvalidValue;
  // More than 48 KiB have to be asked for with cuFuncSetAttribute.
  return shared_bytes > static_cast<unsigned>(kernel.dynamic_shared_bytes_max) ? kInvalidValue : kSuccess;
}

}  // namespace

models::Launch shape_of(const models::GpuModel& model, const ptx::KernelInfo* kernel, int threads,
                        std::uint64_t dynamic_shared) {
  models::Launch shape{.threads_per_block = threads, .shared_bytes_per_block = dynamic_shared};
  if (kernel == nullptr) return shape;
  shape.shared_bytes_per_block += kernel->static_shared_bytes;
  shape.registers_per_thread = std::min(static_cast<int>(kernel->registers), models::most_registers(model, threads));
  return shape;
}

int resident_blocks_of(const models::GpuModel& model, const ptx::KernelInfo* kernel, int threads,
                       std::uint64_t dynamic_shared) {
  return models::resident_blocks(model, shape_of(model, kernel, threads, dynamic_shared));
}

CUresult prepare_launch(const Caller& caller, Kernel* kernel, const unsigned* grid, const unsigned* block,
                        unsigned shared_bytes, void** arguments, void** extra, KernelLaunch& made) {
  if (kernel == nullptr) return kInvalidHandle;
  const models::GpuModel& model = *caller.context->device->model;
  if (const CUresult error = check_shape(model, *kernel, grid, block, shared_bytes)) {
    return complain(
        error,
        fmt::format("kernel {}: {} x {} x {} blocks of {} x {} x {} threads with {} bytes of dynamic "
                    "shared memory cannot be launched on {}",
                    kernel->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, model.name));
  }
  if (resident_blocks_of(model, kernel->info, static_cast<int>(block[0] * block[1] * block[2]), shared_bytes) == 0) {
    return kLaunchOutOfResources;
  }
  made.name = kernel->name;
  made.kernel = kernel;
  made.code = find_interpreter(*caller.driver, kernel->name);
  std::copy_n(grid, 3, made.grid);
  std::copy_n(block, 3, made.block);
  made.shared_bytes = shared_bytes;
  std::vector<std::size_t> sizes;
  if (made.code != nullptr) {
    sizes.assign(made.code->argument_bytes.begin(), made.code->argument_bytes.end());
    made.offsets = packed(made.code->argument_bytes);
    made.values.resize(made.offsets.back());
    made.offsets.pop_back();
    return pack_values(made.offsets, sizes, arguments, extra, made.values);
  }
  if (kernel->info == nullptr) {
    refuse("a launch of kernel " + kernel->name + ", whose image has no PTX, and which has no host function,");
    return kNoKernelImage;
  }
  made.module = kernel->module->code;
  made.info = kernel->info;
  made.variables = kernel->module->variables;
  made.values.resize(kernel->info->parameter_bytes);
  for (const ptx::Parameter& parameter : kernel->info->parameters) {
    made.offsets.push_back(parameter.offset);
    sizes.push_back(parameter.bytes);
  }
  return pack_values(made.offsets, sizes, arguments, extra, made.values);
}

CUresult launch(const Caller& caller, Stream* handle, KernelLaunch made, bool cooperative) {
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  const models::GpuModel& model = *caller.context->device->model;
  if (cooperative) {
    const int threads = static_cast<int>(made.block[0] * made.block[1] * made.block[2]);
    const int held = resident_blocks_of(model, made.info, threads, made.shared_bytes);
    const std::uint64_t blocks = std::uint64_t{made.grid[0]} * made.grid[1] * made.grid[2];
    if (blocks > static_cast<std::uint64_t>(held) * static_cast<std::uint64_t>(model.sms)) {
      return complain(kCooperativeLaunchTooLarge,
                      fmt::format("kernel {}: a cooperative launch of {} blocks, where {} have its {} SMs for "
                                  "themselves at once: error 720",
                                  made.name, blocks, held * model.sms, model.sms));
    }
    made.cooperative = true;
  }
  if (stream->capture != nullptr) return submit(*stream, std::move(made));
  host().sleep(model.launch_call_ps);
  stream = find_stream(caller, handle);  // another thread may have destroyed it meanwhile
  return stream != nullptr ? submit(*stream, std::move(made), model.launch_delay_ps) : kInvalidHandle;
}

CUresult cuLaunchKernel(Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, Stream* stream, void** arguments,
                        void** extra) {
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  return simple_launch(function, grid, block, shared, stream, arguments, extra, false);
}

CUresult cuLaunchCooperativeKernel(Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   Stream* stream, void** arguments) {
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  return simple_launch(function, grid, block, shared, stream, arguments, nullptr, true);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, Kernel* function, void** arguments, void** extra) {
  if (config == nullptr || (config->attribute_count > 0 && config->attributes == nullptr)) return kInvalidValue;
  bool cooperative = false;
  for (unsigned index = 0; index < config->attribute_count; ++index) {
    const LaunchAttribute& attribute = config->attributes[index];
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
        break;
      case kAttributeCooperative:
        cooperative = attribute.value.integer != 0;
        break;
      case kAttributeClusterDimension: {
        const unsigned* size = attribute.value.dimension;
        if (size[0] * size[1] * size[2] == 1) break;
        return refuse("a launch with clusters of blocks");
      }
      default:
        return refuse("launch attribute " + std::to_string(attribute.id));
    }
  }
  return simple_launch(function, config->grid, config->block, config->shared_bytes, config->stream, arguments, extra,
                       cooperative);
}

// cuda.h's CUfunction_attribute.
namespace {
enum FunctionAttribute : int {
  kMaxThreads,
  kSharedBytes,
  kConstBytes,
  kLocalBytes,
  kRegisters,
  kPtxVersion,
  kBinaryVersion,
  kCacheMode,
  kMaxDynamicShared,
  kCarveout,
  kLastFunctionAttribute = 15
};
}  // namespace

CUresult cuFuncGetAttribute(int* value, int attribute, Kernel* function) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (value == nullptr || attribute < 0 || attribute > kLastFunctionAttribute) return kInvalidValue;
  if (function == nullptr) return kInvalidHandle;
  const models::GpuModel& model = *caller.context->device->model;
  const int version = model.compute_major * 10 + model.compute_minor;
  const ptx::KernelInfo none{};
  const ptx::KernelInfo& info = function->info != nullptr ? *function->info : none;
  switch (attribute) {
    case kMaxThreads:
      *value = static_cast<int>(std::min(info.max_threads, kMostThreads));
      break;
    case kSharedBytes:
      *value = static_cast<int>(info.static_shared_bytes);
      break;
    case kLocalBytes:
      *value = static_cast<int>(info.local_bytes);
      break;
    case kRegisters:
      *value = static_cast<int>(info.registers);
      break;
    case kPtxVersion:
    case kBinaryVersion:
      *value = version;
      break;
    case kMaxDynamicShared:
      *value = function->dynamic_shared_bytes_max;
      break;
    case kCarveout:
      *value = function->carveout;
      break;
    default:  // constants and cache mode: nothing of the kernel's own; clusters: none
      *value = 0;
      break;
  }
  return kSuccess;
}

CUresult cuFuncSetAttribute(Kernel* function, int attribute, int value) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (function == nullptr) return kInvalidHandle;
  if (attribute != kMaxDynamicShared && attribute != kCarveout) {
    return refuse("cuFuncSetAttribute of attribute " + std::to_string(attribute));
  }
  if (attribute == kCarveout) {  // a hint: the model's shared memory is apart from its cache
    if (value < -1 || value > 100) return kInvalidValue;
    function->carveout = value;
    return kSuccess;
  }
  const std::uint64_t fixed = function->info != nullptr ? function->info->static_shared_bytes : 0;
  if (value < 0 || static_cast<std::uint64_t>(value) + fixed > caller.context->device->model->shared_bytes_per_block) {
    return kInvalidValue;
  }
  function->dynamic_shared_bytes_max = value;
  return kSuccess;
}

CUresult cuFuncGetParamInfo(Kernel* function, std::size_t index, std::size_t* offset, std::size_t* size) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (function == nullptr || offset == nullptr) return kInvalidValue;
  if (function->info != nullptr) {
    const auto& parameters = function->info->parameters;
    if (index >= parameters.size()) return kInvalidValue;
    *offset = parameters[index].offset;
    if (size != nullptr) *size = parameters[index].bytes;
    return kSuccess;
  }
  const auto code = find_interpreter(*caller.driver, function->name);
  if (code == nullptr) return refuse("cuFuncGetParamInfo of kernel " + function->name + ", whose image has no PTX,");
  if (index >= code->argument_bytes.size()) return kInvalidValue;
  *offset = packed(code->argument_bytes)[index];
  if (size != nullptr) *size = code->argument_bytes[index];
  return kSuccess;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Kernel* function, int threads,
                                                              std::size_t shared, unsigned flags) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (blocks == nullptr || function == nullptr || threads < 1 || flags > 1) return kInvalidValue;
  *blocks = resident_blocks_of(*caller.context->device->model, function->info, threads, shared);
  return kSuccess;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel* function, int threads, std::size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

}  // namespace meshbed::sim::cuda
