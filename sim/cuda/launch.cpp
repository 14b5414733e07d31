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

CUresult pack_values(KernelLaunch& launch, std::uint32_t bytes, void** arguments, void** extra) {
  const std::vector<ptx::Parameter>& parameters = launch.parameters();
  launch.values.resize(bytes);
  if (parameters.empty()) return kSuccess;
  if ((arguments == nullptr) == (extra == nullptr)) return kInvalidValue;
  if (extra != nullptr) {
    const void* buffer = nullptr;
    std::size_t size_bytes = 0;
    if (const CUresult error = packed_arguments(extra, buffer, size_bytes)) return error;
    // A shorter buffer is taken as it is: what it leaves out has no value on a GPU, and is 0 here.
    std::memcpy(launch.values.data(), buffer, std::min<std::size_t>(size_bytes, bytes));
    return kSuccess;
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (arguments[index] == nullptr) return kInvalidValue;
    std::memcpy(launch.values.data() + parameters[index].offset, arguments[index], parameters[index].bytes);
  }
  return kSuccess;
}

CUresult check_shape(const models::GpuModel& model, const Kernel& kernel, const unsigned* grid, const unsigned* block,
                     unsigned shared_bytes) {
  const std::uint64_t fixed = kernel.info != nullptr ? kernel.info->static_shared_bytes : 0;
  if (!possible(model, grid, block, static_cast<unsigned>(shared_bytes + fixed))) return kInvalidConfiguration;
  if (kernel.info == nullptr) return kSuccess;
  const unsigned threads = block[0] * block[1] * block[2];
  const auto& required = kernel.info->required_block;
  const bool other = required[0] != 0 && (block[0] != required[0] || block[1] != std::max(required[1], 1U) ||
                                          block[2] != std::max(required[2], 1U));
  if (other || threads > kernel.info->max_threads) return kInvalidConfiguration;
  // More than 48 KiB have to be asked for with cuFuncSetAttribute.
  return shared_bytes > static_cast<unsigned>(kernel.dynamic_shared_bytes_max) ? kInvalidValue : kSuccess;
}

}  // namespace

void pack_parameters(std::span<const unsigned> sizes, Interpreter& code) {
  constexpr std::uint32_t kMostAlignment = 16;
  std::uint32_t at = 0;
  for (const unsigned size : sizes) {
    std::uint32_t alignment = 1;
    while (alignment < kMostAlignment && size % (alignment * 2) == 0 && size > 0) alignment *= 2;
    at = (at + alignment - 1) / alignment * alignment;
    code.parameters.push_back({.offset = at, .bytes = size, .align = alignment});
    at += size;
  }
  code.parameter_bytes = at;
}

int resident_blocks_of(const models::GpuModel& model, const ptx::KernelInfo* kernel, int threads,
                       std::uint64_t dynamic_shared) {
  if (kernel == nullptr) return models::resident_blocks(model, threads, dynamic_shared);
  const int registers = std::min(static_cast<int>(kernel->registers), models::most_registers(model, threads));
  return models::resident_blocks(model, threads, dynamic_shared + kernel->static_shared_bytes, registers);
}

models::GridShape shape_on(const models::GpuModel& model, const KernelLaunch& launch) {
  if (launch.model == &model) return launch.shape;
  return {
      .blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2],
      .resident_blocks = std::max(1, resident_blocks_of(model, launch.info, launch.threads(), launch.shared_bytes))};
}

CUresult driver_code_of(CUresult error) { return error == kInvalidConfiguration ? kInvalidValue : error; }

CUresult prepare_launch(const Caller& caller, Kernel* kernel, const unsigned* grid, const unsigned* block,
                        unsigned shared_bytes, void** arguments, void** extra, KernelLaunch& made) {
  if (kernel == nullptr) return kInvalidHandle;
  const models::GpuModel& model = *caller.context->device->model;
  if (const CUresult error = check_shape(model, *kernel, grid, block, shared_bytes)) {
    const std::string asked =
        fmt::format("kernel {}: {} x {} x {} blocks of {} x {} x {} threads with {} bytes of dynamic shared memory",
                    kernel->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes);
    return complain(error, error == kInvalidConfiguration
                               ? asked + " cannot be launched on " + model.name
                               : fmt::format("{}, where {} are allowed until the attribute "
                                             "MAX_DYNAMIC_SHARED_SIZE_BYTES of the kernel is raised",
                                             asked, kernel->dynamic_shared_bytes_max));
  }
  made.model = &model;
  made.kernel = kernel;
  made.info = kernel->info;
  made.module = kernel->module->code;
  made.code = find_interpreter(*caller.driver, kernel->name);
  std::copy_n(grid, 3, made.grid);
  std::copy_n(block, 3, made.block);
  made.shared_bytes = shared_bytes;
  made.shape = {.blocks = std::uint64_t{grid[0]} * grid[1] * grid[2],
                .resident_blocks = resident_blocks_of(model, kernel->info, made.threads(), shared_bytes)};
  if (made.shape.resident_blocks == 0) return kLaunchOutOfResources;
  if (const CUresult error = set_cluster(made, nullptr)) return error;
  if (made.code != nullptr) return pack_values(made, made.code->parameter_bytes, arguments, extra);
  if (kernel->info == nullptr) {
    refuse("a launch of kernel " + kernel->name + ", whose image has no PTX, and which has no host function,");
    return kNoKernelImage;
  }
  made.variables = kernel->module->variables;
  return pack_values(made, kernel->info->parameter_bytes, arguments, extra);
}

CUresult launch(const Caller& caller, Stream* handle, KernelLaunch&& made, const LaunchOptions& options) {
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  const models::GpuModel& model = *caller.context->device->model;
  if (options.cluster != nullptr) {
    if (const CUresult error = set_cluster(made, options.cluster)) return error;
  }
  Event* const begun = options.begun != nullptr ? caller.driver->events.find(options.begun) : nullptr;
  if (begun == nullptr && options.begun != nullptr) return kInvalidHandle;
  const bool is_usable = begun == nullptr || ((begun->flags & kEventDisableTiming) != 0 && begun->shared == nullptr);
  if (!is_usable) return kInvalidValue;  // as documented
  if (options.cooperative) {
    const auto [blocks, held] = made.shape;
    if (blocks > static_cast<std::uint64_t>(held) * static_cast<std::uint64_t>(model.sms)) {
      return complain(kCooperativeLaunchTooLarge,
                      fmt::format("kernel {}: a cooperative launch of {} blocks, where {} have its {} SMs for "
                                  "themselves at once: error 720",
                                  made.name(), blocks, held * model.sms, model.sms));
    }
    made.cooperative = true;
  }
  if (stream->capture != nullptr) {
    const CUresult error = submit(*stream, std::move(made));
    // A node that begins when this one has begun is one that begins when it has ended, too.
    return error == kSuccess && begun != nullptr ? cuEventRecord(options.begun, handle) : error;
  }
  host().sleep(model.launch_call_ps);
  stream = find_stream_with_room(caller, handle);  // another thread may have destroyed it meanwhile
  if (stream == nullptr) return kInvalidHandle;
  WorkRef work;
  const CUresult error = submit(*stream, std::move(made), model.launch_delay_ps, &work);
  if (error != kSuccess || options.begun == nullptr) return error;
  Event* const event = caller.driver->events.find(options.begun);
  if (event == nullptr) return kSuccess;  // another thread has destroyed it meanwhile
  event->capture = nullptr;
  event->last() = work->begun = make_work(*stream->context, Marker{}, 0);
  return kSuccess;
}

CUresult launch_with(Kernel* function, const unsigned* grid, const unsigned* block, unsigned shared, Stream* stream,
                     void** arguments, void** extra, const LaunchOptions& options) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  KernelLaunch made;
  if (const CUresult error = prepare_launch(caller, function, grid, block, shared, arguments, extra, made)) {
    return driver_code_of(error);
  }
  const Stream* const own = find_stream(caller, stream);
  const Context* const context = function->module->context;
  if (own != nullptr && context != nullptr && own->context != context) return kInvalidHandle;
  return launch(caller, stream, std::move(made), options);
}

CUresult cuLaunchKernel(Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, Stream* stream, void** arguments,
                        void** extra) {
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  return launch_with(function, grid, block, shared, stream, arguments, extra, {});
}

CUresult cuLaunchCooperativeKernel(Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   Stream* stream, void** arguments) {
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  return launch_with(function, grid, block, shared, stream, arguments, nullptr, {.cooperative = true});
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
  kClusterMustBeSet,
  kClusterWidth,
  kClusterHeight,
  kClusterDepth,
  kNonPortableClusters,
  kClusterPolicy,
  kLastFunctionAttribute = kClusterPolicy
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
    case kClusterMustBeSet:
      *value = info.required_cluster[0] != 0 ? 1 : 0;
      break;
    case kClusterWidth:
    case kClusterHeight:
    case kClusterDepth:
      *value = static_cast<int>(function->required_cluster[attribute - kClusterWidth]);
      break;
    case kNonPortableClusters:
      *value = function->allows_non_portable_clusters ? 1 : 0;
      break;
    case kClusterPolicy:
      *value = function->cluster_policy;
      break;
    default:  // constants and cache mode: nothing of the kernel's own
      *value = 0;
      break;
  }
  return kSuccess;
}

CUresult cuFuncSetAttribute(Kernel* function, int attribute, int value) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (function == nullptr) return kInvalidHandle;
  if (attribute >= kClusterWidth && attribute <= kClusterDepth) {
    if (value < 0) return kInvalidValue;
    if (function->info != nullptr && function->info->required_cluster[0] != 0) return kNotPermitted;  // as documented
    function->required_cluster[attribute - kClusterWidth] = static_cast<unsigned>(value);
    return kSuccess;
  }
  if (attribute == kNonPortableClusters) {
    function->allows_non_portable_clusters = value != 0;
    return kSuccess;
  }
  if (attribute == kClusterPolicy) {  // a hint: where blocks are put is not modelled
    if (value < 0 || value > 2) return kInvalidValue;
    function->cluster_policy = value;
    return kSuccess;
  }
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
  const auto code = function->info == nullptr ? find_interpreter(*caller.driver, function->name) : nullptr;
  if (function->info == nullptr && code == nullptr) {
    return refuse("cuFuncGetParamInfo of kernel " + function->name + ", whose image has no PTX,");
  }
  const auto& parameters = code != nullptr ? code->parameters : function->info->parameters;
  if (index >= parameters.size()) return kInvalidValue;
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].bytes;
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
