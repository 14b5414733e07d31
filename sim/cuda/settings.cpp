// What a program may ask for and the model has no use of, answered as the driver would: limits, preferences, hints.

#include <algorithm>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// cuda.h's CUlimit.
enum Limit : int { kStackSize, kPrintfSize, kHeapSize, kSyncDepth, kPendingLaunches, kFetchGranularity, kPersistingL2 };

}  // namespace

CUresult cuCtxGetLimit(std::size_t* value, int limit) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (value == nullptr) return kInvalidValue;
  const auto set = caller.context->limits.find(limit);
  if (set != caller.context->limits.end()) {
    *value = set->second;
    return kSuccess;
  }
  switch (limit) {
    case kStackSize:
      *value = 1024;
      return kSuccess;
    case kPrintfSize:
      *value = 1024 * 1024;
      return kSuccess;
    case kHeapSize:
      *value = 8 * 1024 * 1024;
      return kSuccess;
    case kFetchGranularity:
      *value = 64;
      return kSuccess;
    case kPersistingL2:
      *value = 0;
      return kSuccess;
    case kSyncDepth:
    case kPendingLaunches:  // of kernels that launch kernels
      return refuse("cuCtxGetLimit of limit " + std::to_string(limit));
    default:
      return kInvalidValue;
  }
}

// Stacks are as deep as a kernel needs, and what is printed is kept whole.
CUresult cuCtxSetLimit(int limit, std::size_t value) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (limit < kStackSize || limit > kPersistingL2) return kInvalidValue;
  if (limit == kSyncDepth || limit == kPendingLaunches)
    return refuse("cuCtxSetLimit of limit " + std::to_string(limit));
  caller.context->limits[limit] = value;
  return kSuccess;
}

CUresult cuCtxGetCacheConfig(int* config) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (config == nullptr) return kInvalidValue;
  *config = 0;  // no preference: shared memory and cache are apart
  return kSuccess;
}

CUresult cuCtxSetCacheConfig(int config) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  return config < 0 || config > 3 ? kInvalidValue : kSuccess;
}

CUresult cuFuncSetCacheConfig(Kernel* function, int config) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (function == nullptr) return kInvalidHandle;
  return config < 0 || config > 3 ? kInvalidValue : kSuccess;
}

// Banks of shared memory have 4 bytes on every device since compute capability 5.0, and cannot be set; by CUDA's
// documentation the call then has no effect.
namespace {
constexpr int kBanksOfFourBytes = 1, kLastBanks = 2;  // CU_SHARED_MEM_CONFIG_*
CUresult check_banks(CUresult error, int config) {
  if (error != kSuccess) return error;
  return config < 0 || config > kLastBanks ? kInvalidValue : kSuccess;
}
}  // namespace
CUresult cuCtxGetSharedMemConfig(int* config) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (config == nullptr) return kInvalidValue;
  *config = kBanksOfFourBytes;
  return kSuccess;
}
CUresult cuCtxSetSharedMemConfig(int config) { return check_banks(enter_context().error, config); }
CUresult cuFuncSetSharedMemConfig(Kernel* function, int config) {
  const CUresult error = enter_context().error;
  return check_banks(error == kSuccess && function == nullptr ? kInvalidHandle : error, config);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, Kernel* function, int blocks, int threads) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (bytes == nullptr || function == nullptr || blocks < 1 || threads < 1) return kInvalidValue;
  const models::GpuModel& model = *caller.context->device->model;
  const std::uint64_t fixed = function->info != nullptr ? function->info->static_shared_bytes : 0;
  // 1 KiB of each block's is the system's.
  const std::uint64_t each = model.shared_bytes_per_sm / static_cast<std::uint64_t>(blocks);
  const std::uint64_t taken = fixed + 1024;
  *bytes = std::min<std::uint64_t>(each > taken ? each - taken : 0, model.shared_bytes_per_block - fixed);
  return kSuccess;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Kernel* function, void* shared_of_block,
                                          std::size_t shared, int most) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (grid == nullptr || block == nullptr || function == nullptr) return kInvalidValue;
  const models::GpuModel& model = *caller.context->device->model;
  const int limit = function->info != nullptr ? static_cast<int>(function->info->max_threads) : 1024;
  const auto needs = reinterpret_cast<std::size_t (*)(int threads)>(shared_of_block);
  int best = 0;
  for (int threads = most > 0 ? std::min(most, limit) : limit; threads > 0; threads -= 32) {
    const std::size_t bytes = needs != nullptr ? needs(threads) : shared;
    const int held = resident_blocks_of(model, function->info, threads, bytes);
    if (held * threads <= best) continue;
    best = held * threads;
    *block = threads;
    *grid = held * model.sms;
  }
  return best > 0 ? kSuccess : kInvalidValue;
}

// No profiler looks.
CUresult cuProfilerStart() {
  return complain(enter_context().error,
                  "cuProfilerStart and cuProfilerStop do nothing here: for the device's work use meshbed cuda run "
                  "--summary and --perfetto-out");
}
CUresult cuProfilerStop() { return enter_context().error; }

}  // namespace meshbed::sim::cuda
