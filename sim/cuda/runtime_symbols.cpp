// The runtime's variables, functions and settings: cudaMemcpyToSymbol, cudaFuncGetAttributes, cudaDeviceSetLimit and
// their like.

#include <algorithm>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// The address of `offset` in the variable behind a host address, where `size` bytes from there are the variable's.
CUresult place_of(const void* symbol, std::size_t size, std::size_t offset, void*& place) {
  Variable variable;
  if (const CUresult error = find_symbol(symbol, variable)) return error;
  if (offset > variable.bytes || size > variable.bytes - offset) return kInvalidValue;
  place = reinterpret_cast<void*>(variable.address + offset);
  return kSuccess;
}

/// The kernel behind a host function, for `use(kernel)`, which does not run it.
template <typename Use>
CUresult with_kernel(const void* function, const Use& use) {
  return in_runtime([&]() -> CUresult {
    Kernel* kernel = nullptr;
    if (const CUresult error = kernel_of(function, kernel, KernelUse::kIsAskedAbout)) return error;
    return use(kernel);
  });
}

}  // namespace

CUresult cudaGetSymbolAddress(void** address, const void* symbol) {
  return in_runtime([&]() -> CUresult {
    if (address == nullptr) return kInvalidValue;
    return place_of(symbol, 0, 0, *address);
  });
}

CUresult cudaGetSymbolSize(std::size_t* size, const void* symbol) {
  return in_runtime([&]() -> CUresult {
    Variable variable;
    if (size == nullptr) return kInvalidValue;
    if (const CUresult error = find_symbol(symbol, variable)) return error;
    *size = variable.bytes;
    return kSuccess;
  });
}

CUresult cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t size, std::size_t offset, int kind) {
  void* place = nullptr;
  const CUresult error = in_runtime([&] { return place_of(symbol, size, offset, place); });
  return error != kSuccess ? error : cudaMemcpy(place, source, size, kind);
}
CUresult cudaMemcpyFromSymbol(void* target, const void* symbol, std::size_t size, std::size_t offset, int kind) {
  void* place = nullptr;
  const CUresult error = in_runtime([&] { return place_of(symbol, size, offset, place); });
  return error != kSuccess ? error : cudaMemcpy(target, place, size, kind);
}
CUresult cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t size, std::size_t offset, int kind,
                                 Stream* stream) {
  void* place = nullptr;
  const CUresult error = in_runtime([&] { return place_of(symbol, size, offset, place); });
  return error != kSuccess ? error : cudaMemcpyAsync(place, source, size, kind, stream);
}
CUresult cudaMemcpyFromSymbolAsync(void* target, const void* symbol, std::size_t size, std::size_t offset, int kind,
                                   Stream* stream) {
  void* place = nullptr;
  const CUresult error = in_runtime([&] { return place_of(symbol, size, offset, place); });
  return error != kSuccess ? error : cudaMemcpyAsync(target, place, size, kind, stream);
}

CUresult cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return with_kernel(function, [&](Kernel* kernel) -> CUresult {
    if (attributes == nullptr) return kInvalidValue;
    // In the order of CUfunction_attribute.
    int values[16] = {};
    for (int attribute = 0; attribute < 16; ++attribute) {
      if (const CUresult error = cuFuncGetAttribute(&values[attribute], attribute, kernel)) return error;
    }
    *attributes = {};
    attributes->threads_max = values[0];
    attributes->shared_bytes = static_cast<std::size_t>(values[1]);
    attributes->const_bytes = static_cast<std::size_t>(values[2]);
    attributes->local_bytes = static_cast<std::size_t>(values[3]);
    attributes->registers = values[4];
    attributes->ptx_version = values[5];
    attributes->binary_version = values[6];
    attributes->cache_mode = values[7];
    attributes->dynamic_shared_bytes_max = values[8];
    attributes->carveout = values[9];
    attributes->cluster_must_be_set = values[10];
    std::copy_n(values + 11, 3, attributes->cluster);
    attributes->non_portable_cluster = values[14];
    attributes->cluster_policy = values[15];
    return kSuccess;
  });
}

CUresult cudaFuncSetAttribute(const void* function, int attribute, int value) {
  return with_kernel(function, [&](Kernel* kernel) { return cuFuncSetAttribute(kernel, attribute, value); });
}
CUresult cudaFuncSetCacheConfig(const void* function, int config) {
  return with_kernel(function, [&](Kernel* kernel) { return cuFuncSetCacheConfig(kernel, config); });
}
CUresult cudaFuncGetName(const char** name, const void* function) {
  return with_kernel(function, [&](Kernel* kernel) { return cuFuncGetName(name, kernel); });
}
CUresult cudaFuncGetParamInfo(const void* function, std::size_t index, std::size_t* offset, std::size_t* size) {
  return with_kernel(function, [&](Kernel* kernel) { return cuFuncGetParamInfo(kernel, index, offset, size); });
}
CUresult cudaFuncSetSharedMemConfig(const void* function, int config) {
  return with_kernel(function, [&](Kernel* kernel) { return cuFuncSetSharedMemConfig(kernel, config); });
}
CUresult cudaGetFuncBySymbol(Kernel** kernel, const void* function) {
  return in_runtime([&] { return kernel != nullptr ? kernel_of(function, *kernel) : kInvalidValue; });
}
CUresult cudaGetKernel(Kernel** kernel, const void* function) { return cudaGetFuncBySymbol(kernel, function); }

CUresult cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function, int blocks, int threads) {
  return with_kernel(function, [&](Kernel* kernel) {
    return cuOccupancyAvailableDynamicSMemPerBlock(bytes, kernel, blocks, threads);
  });
}

// --- settings of the device ---
CUresult cudaDeviceGetLimit(std::size_t* value, int limit) {
  return in_runtime([&] { return cuCtxGetLimit(value, limit); });
}
CUresult cudaDeviceSetLimit(int limit, std::size_t value) {
  return in_runtime([&] { return cuCtxSetLimit(limit, value); });
}
CUresult cudaDeviceGetSharedMemConfig(int* config) {
  return in_runtime([&] { return cuCtxGetSharedMemConfig(config); });
}
CUresult cudaDeviceSetSharedMemConfig(int config) {
  return in_runtime([&] { return cuCtxSetSharedMemConfig(config); });
}
CUresult cudaDeviceGetCacheConfig(int* config) {
  return in_runtime([&] { return cuCtxGetCacheConfig(config); });
}
CUresult cudaDeviceSetCacheConfig(int config) {
  return in_runtime([&] { return cuCtxSetCacheConfig(config); });
}
CUresult cudaGetDeviceFlags(unsigned* flags) {
  return in_runtime([&] { return cuCtxGetFlags(flags); });
}
CUresult cudaSetDeviceFlags(unsigned flags) {
  return in_runtime([&] {
    int device = 0;
    const CUresult error = cudaGetDevice(&device);
    return error != kSuccess ? error : cuDevicePrimaryCtxSetFlags_v2(device, flags);
  });
}
CUresult cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
// All devices are of one kind.
CUresult cudaChooseDevice(int* device, const void* properties) {
  return in_runtime([&] {
    if (device == nullptr || properties == nullptr) return kInvalidValue;
    *device = 0;
    return kSuccess;
  });
}
CUresult cudaSetValidDevices(int* devices, int count) {
  return in_runtime([&]() -> CUresult {
    for (int index = 0; index < count; ++index) {
      if (devices == nullptr || find_device(*current_driver(), devices[index]) == nullptr) return kInvalidDevice;
    }
    return kSuccess;
  });
}
CUresult cudaProfilerStart() {
  return in_runtime([] { return cuProfilerStart(); });
}
CUresult cudaProfilerStop() {
  return in_runtime([] { return cuProfilerStop(); });
}

// --- pools ---
CUresult cudaDeviceGetDefaultMemPool(Pool** pool, int device) {
  return in_runtime([&] { return cuDeviceGetDefaultMemPool(pool, device); });
}
CUresult cudaDeviceGetMemPool(Pool** pool, int device) {
  return in_runtime([&] { return cuDeviceGetMemPool(pool, device); });
}
CUresult cudaDeviceSetMemPool(int device, Pool* pool) {
  return in_runtime([&] { return cuDeviceSetMemPool(device, pool); });
}
CUresult cudaMemPoolCreate(Pool** pool, const CUmemPoolProps* properties) {
  return in_runtime([&] { return cuMemPoolCreate(pool, properties); });
}
CUresult cudaMemPoolDestroy(Pool* pool) {
  return in_runtime([&] { return cuMemPoolDestroy(pool); });
}
CUresult cudaMemPoolTrimTo(Pool* pool, std::size_t kept) {
  return in_runtime([&] { return cuMemPoolTrimTo(pool, kept); });
}
CUresult cudaMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
  return in_runtime([&] { return cuMemPoolSetAttribute(pool, attribute, value); });
}
CUresult cudaMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
  return in_runtime([&] { return cuMemPoolGetAttribute(pool, attribute, value); });
}
CUresult cudaMallocFromPoolAsync(void** address, std::size_t size, Pool* pool, Stream* stream) {
  return in_runtime(
      [&] { return cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(address), size, pool, stream); });
}

// --- streams that are recorded ---
CUresult cudaStreamGetCaptureInfo(Stream* stream, int* status, unsigned long long* id, Graph** graph,
                                  const GraphNode*** nodes, const void** edges, std::size_t* count) {
  return in_runtime([&] { return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, edges, count); });
}
CUresult cudaThreadExchangeStreamCaptureMode(int* mode) {
  return in_runtime([&] { return cuThreadExchangeStreamCaptureMode(mode); });
}
CUresult cudaStreamGetId(Stream* stream, unsigned long long* id) {
  return in_runtime([&] { return cuStreamGetId(stream, id); });
}
CUresult cudaStreamGetDevice(Stream* stream, int* device) {
  return in_runtime([&] { return cuStreamGetDevice(stream, device); });
}

}  // namespace meshbed::sim::cuda
