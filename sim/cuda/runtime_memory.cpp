// The runtime's memory: cudaMalloc, cudaMemcpy and their like, and cudaGetDeviceProperties.

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "sim/cuda/device_view.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

CUdeviceptr number_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// cuda_runtime.h's cudaMemcpyKind.
enum Kind { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kDefault };

bool is_device(const void* pointer) {
  const Driver* driver = current_driver();
  const Allocation* found = driver != nullptr ? find_allocation(*driver, number_of(pointer), 1) : nullptr;
  return found != nullptr && is_on_device(found->kind);
}

/// A side that the caller declares as a device's must be memory that CUDA knows, including pinned memory; one that the
/// caller declares as the host's must not be a device's.
CUresult check_side(const char* name, const void* address, bool is_devices) {
  const Driver& driver = *current_driver();
  const bool is_known = find_allocation(driver, number_of(address), 1) != nullptr;
  if (is_devices ? is_known : !is_device(address)) return kSuccess;
  return complain(kInvalidValue, fmt::format("the {} of a copy, 0x{:x}, is declared as {} memory and is {}: error 1",
                                             name, number_of(address), is_devices ? "device" : "host",
                                             is_known ? "a device's" : describe_address(driver, number_of(address))));
}

CUresult check_kind(const void* target, const void* source, std::size_t size_bytes, int kind) {
  if (kind < kHostToHost || kind > kDefault) return kInvalidMemcpyDirection;
  if (kind == kDefault || size_bytes == 0 || current_driver() == nullptr) return kSuccess;
  const bool to_host = kind == kHostToHost || kind == kDeviceToHost;
  const bool from_host = kind == kHostToHost || kind == kHostToDevice;
  const CUresult wrong = check_side("target", target, !to_host);
  return wrong != kSuccess ? wrong : check_side("source", source, !from_host);
}

CUDA_MEMCPY2D rectangle(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                        std::size_t width, std::size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.source_kind = copy.target_kind = kMemoryUnified;
  copy.source_device = number_of(source);
  copy.source_pitch = source_pitch;
  copy.target_device = number_of(target);
  copy.target_pitch = target_pitch;
  copy.width_bytes = width;
  copy.height = height;
  return copy;
}

/// Places in CUDA 13.0's struct cudaDeviceProp; tests/cuda compares them with NVIDIA's header.
struct Field {
  std::size_t offset;
  int attribute;  // cuDeviceGetAttribute's
};
constexpr std::size_t kPropertiesBytes = 1008, kTotalMemory = 288;

}  // namespace

CUresult cudaMemGetInfo(std::size_t* left, std::size_t* total) {
  return in_runtime([&] { return cuMemGetInfo_v2(left, total); });
}

// The runtime returns null for 0 bytes; in the driver it is an error.
CUresult cudaMalloc(void** address, std::size_t size) {
  return in_runtime([&]() -> CUresult {
    if (address == nullptr) return kInvalidValue;
    CUdeviceptr found = 0;
    const CUresult error = size == 0 ? kSuccess : cuMemAlloc_v2(&found, size);
    if (error == kSuccess) *address = reinterpret_cast<void*>(found);
    return error;
  });
}

CUresult cudaMallocPitch(void** address, std::size_t* pitch, std::size_t width, std::size_t height) {
  return in_runtime([&]() -> CUresult {
    if (address == nullptr) return kInvalidValue;
    CUdeviceptr found = 0;
    const CUresult error = cuMemAllocPitch_v2(&found, pitch, width, height, 4);
    if (error == kSuccess) *address = reinterpret_cast<void*>(found);
    return error;
  });
}

CUresult cudaFree(void* address) {
  return in_runtime([&] { return cuMemFree_v2(number_of(address)); });
}
CUresult cudaMallocHost(void** address, std::size_t size) {
  return in_runtime([&] { return cuMemHostAlloc(address, size, 0); });
}
CUresult cudaHostAlloc(void** address, std::size_t size, unsigned flags) {
  return in_runtime([&] { return cuMemHostAlloc(address, size, flags); });
}
CUresult cudaFreeHost(void* address) {
  return in_runtime([&] { return address == nullptr ? kSuccess : cuMemFreeHost(address); });
}
CUresult cudaHostRegister(void* address, std::size_t size, unsigned flags) {
  return in_runtime([&] { return cuMemHostRegister_v2(address, size, flags); });
}
CUresult cudaHostUnregister(void* address) {
  return in_runtime([&] { return cuMemHostUnregister(address); });
}
CUresult cudaHostGetDevicePointer(void** device, void* address, unsigned flags) {
  return in_runtime(
      [&] { return cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(device), address, flags); });
}
CUresult cudaHostGetFlags(unsigned* flags, void* address) {
  return in_runtime([&] { return cuMemHostGetFlags(flags, address); });
}
CUresult cudaMallocManaged(void** address, std::size_t size, unsigned flags) {
  return in_runtime([&] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(address), size, flags); });
}
CUresult cudaMallocAsync(void** address, std::size_t size, Stream* stream) {
  return in_runtime([&] { return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(address), size, stream); });
}
CUresult cudaFreeAsync(void* address, Stream* stream) {
  return in_runtime([&] { return cuMemFreeAsync(number_of(address), stream); });
}

CUresult cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return in_runtime([&]() -> CUresult {
    constexpr int kUnregistered = 0, kHost = 1, kDevice = 2, kManaged = 3;
    if (attributes == nullptr) return kInvalidValue;
    *attributes = {.type = kUnregistered,
                   .device = -2,
                   .device_pointer = nullptr,
                   .host_pointer = const_cast<void*>(address),
                   .reserved = {}};
    const Allocation* found = find_allocation(*current_driver(), number_of(address), 1);
    if (found == nullptr) return kSuccess;
    attributes->device = found->ordinal;
    attributes->device_pointer = const_cast<void*>(address);
    if (is_on_device(found->kind)) {
      attributes->type = kDevice;
      attributes->host_pointer = nullptr;
    } else {
      attributes->type = found->kind == MemoryKind::kManaged ? kManaged : kHost;
    }
    return kSuccess;
  });
}

CUresult cudaMemcpy(void* target, const void* source, std::size_t size, int kind) {
  return in_runtime([&] {
    const CUresult wrong = check_kind(target, source, size, kind);
    return wrong != kSuccess ? wrong : cuMemcpy(number_of(target), number_of(source), size);
  });
}
CUresult cudaMemcpyAsync(void* target, const void* source, std::size_t size, int kind, Stream* stream) {
  return in_runtime([&] {
    const CUresult wrong = check_kind(target, source, size, kind);
    return wrong != kSuccess ? wrong : cuMemcpyAsync(number_of(target), number_of(source), size, stream);
  });
}
CUresult cudaMemcpy2D(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                      std::size_t width, std::size_t height, int kind) {
  return in_runtime([&] {
    const CUresult wrong = check_kind(target, source, width * height, kind);
    const CUDA_MEMCPY2D copy = rectangle(target, target_pitch, source, source_pitch, width, height);
    return wrong != kSuccess ? wrong : cuMemcpy2DUnaligned_v2(&copy);
  });
}
CUresult cudaMemcpy2DAsync(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                           std::size_t width, std::size_t height, int kind, Stream* stream) {
  return in_runtime([&] {
    const CUresult wrong = check_kind(target, source, width * height, kind);
    const CUDA_MEMCPY2D copy = rectangle(target, target_pitch, source, source_pitch, width, height);
    return wrong != kSuccess ? wrong : cuMemcpy2DAsync_v2(&copy, stream);
  });
}
CUresult cudaMemset(void* target, int value, std::size_t size) {
  return in_runtime([&] { return cuMemsetD8_v2(number_of(target), static_cast<unsigned char>(value), size); });
}
CUresult cudaMemsetAsync(void* target, int value, std::size_t size, Stream* stream) {
  return in_runtime(
      [&] { return cuMemsetD8Async(number_of(target), static_cast<unsigned char>(value), size, stream); });
}

CUresult cudaMemset2D(void* target, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return in_runtime(
      [&] { return cuMemsetD2D8_v2(number_of(target), pitch, static_cast<unsigned char>(value), width, height); });
}
CUresult cudaMemset2DAsync(void* target, std::size_t pitch, int value, std::size_t width, std::size_t height,
                           Stream* stream) {
  return in_runtime([&] {
    return cuMemsetD2D8Async(number_of(target), pitch, static_cast<unsigned char>(value), width, height, stream);
  });
}
namespace {

/// `fill_rows(address, rows)` for rows that stand at one pitch: all of them where the slices do, else slice by slice.
template <typename FillRows>
CUresult fill_slices(const cudaPitchedPtr& target, const cudaExtent& extent, const FillRows& fill_rows) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return kSuccess;
  const CUdeviceptr first = number_of(target.pointer);
  std::size_t rows = 0;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return kInvalidValue;
  if (extent.depth == 1 || extent.height == target.height) return fill_rows(first, rows);
  // Rows of the next slice would be written.
  if (extent.height > target.height || extent.width > target.pitch) return kInvalidValue;
  for (std::size_t slice = 0; slice < extent.depth; ++slice) {
    if (const CUresult error = fill_rows(first + slice * target.pitch * target.height, extent.height)) return error;
  }
  return kSuccess;
}

}  // namespace

CUresult cudaMemset3D(cudaPitchedPtr target, int value, cudaExtent extent) {
  return in_runtime([&] {
    return fill_slices(target, extent, [&](CUdeviceptr address, std::size_t rows) {
      return cuMemsetD2D8_v2(address, target.pitch, static_cast<unsigned char>(value), extent.width, rows);
    });
  });
}
CUresult cudaMemset3DAsync(cudaPitchedPtr target, int value, cudaExtent extent, Stream* stream) {
  return in_runtime([&] {
    return fill_slices(target, extent, [&](CUdeviceptr address, std::size_t rows) {
      return cuMemsetD2D8Async(address, target.pitch, static_cast<unsigned char>(value), extent.width, rows, stream);
    });
  });
}
CUresult cudaMemAdvise(const void* address, std::size_t size, int advice, CUmemLocation location) {
  return in_runtime([&] { return cuMemAdvise_v2(number_of(address), size, advice, location); });
}
CUresult cudaMemPrefetchAsync(const void* address, std::size_t size, CUmemLocation location, unsigned flags,
                              Stream* stream) {
  return in_runtime([&] { return cuMemPrefetchAsync_v2(number_of(address), size, location, flags, stream); });
}
CUresult cudaStreamAttachMemAsync(Stream* stream, void* address, std::size_t length, unsigned flags) {
  return in_runtime([&] { return cuStreamAttachMemAsync(stream, number_of(address), length, flags); });
}

CUresult cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
  return in_runtime([&]() -> CUresult {
    Box box;
    if (copy == nullptr) return kInvalidValue;
    if (const CUresult error = box_of(*copy, box)) return error;
    return copy_box(box, nullptr, true);
  });
}
CUresult cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, Stream* stream) {
  return in_runtime([&]() -> CUresult {
    Box box;
    if (copy == nullptr) return kInvalidValue;
    if (const CUresult error = box_of(*copy, box)) return error;
    return copy_box(box, stream, false);
  });
}
CUresult cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  return in_runtime([&]() -> CUresult {
    if (pitched == nullptr) return kInvalidValue;
    CUdeviceptr found = 0;
    std::size_t pitch = 0, rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return kOutOfMemory;
    const CUresult error = cuMemAllocPitch_v2(&found, &pitch, extent.width, rows, 4);
    if (error != kSuccess) return error;
    *pitched = {
        .pointer = reinterpret_cast<void*>(found), .pitch = pitch, .width = extent.width, .height = extent.height};
    return kSuccess;
  });
}
// Addresses are of one space: a copy between devices is a copy.
CUresult cudaMemcpyPeer(void* target, int, const void* source, int, std::size_t size) {
  return cudaMemcpy(target, source, size, kDefault);
}
CUresult cudaMemcpyPeerAsync(void* target, int, const void* source, int, std::size_t size, Stream* stream) {
  return cudaMemcpyAsync(target, source, size, kDefault, stream);
}

CUresult cudaGetDeviceProperties(void* properties, int device) {
  return in_runtime([&]() -> CUresult {
    // Sizes and counts of 4 bytes; what is not listed is 0, as for a feature that the device does not have.
    constexpr Field kIntegers[] = {
        {296, 8},    // sharedMemPerBlock
        {304, 12},   // regsPerBlock
        {308, 10},   // warpSize
        {312, 11},   // memPitch
        {320, 1},    // maxThreadsPerBlock
        {324, 2},    // maxThreadsDim[0]
        {328, 3},    // maxThreadsDim[1]
        {332, 4},    // maxThreadsDim[2]
        {336, 5},    // maxGridSize[0]
        {340, 6},    // maxGridSize[1]
        {344, 7},    // maxGridSize[2]
        {352, 9},    // totalConstMem
        {360, 75},   // major
        {364, 76},   // minor
        {384, 16},   // multiProcessorCount
        {388, 18},   // integrated
        {392, 19},   // canMapHostMemory
        {560, 31},   // concurrentKernels
        {568, 33},   // pciBusID
        {584, 40},   // asyncEngineCount
        {588, 41},   // unifiedAddressing
        {596, 38},   // l2CacheSize
        {604, 39},   // maxThreadsPerMultiProcessor
        {608, 78},   // streamPrioritiesSupported
        {624, 81},   // sharedMemPerMultiprocessor
        {632, 82},   // regsPerMultiprocessor
        {636, 83},   // managedMemory
        {668, 95},   // cooperativeLaunch
        {672, 97},   // sharedMemPerBlockOptin
        {688, 106},  // maxBlocksPerMultiProcessor
        {704, 99},   // hostRegisterSupported
        {720, 115},  // memoryPoolsSupported
        {664, 91},   // canUseHostPointerForRegisteredMem
    };
    if (properties == nullptr) return kInvalidValue;
    auto* bytes = static_cast<char*>(properties);
    std::memset(bytes, 0, kPropertiesBytes);
    std::size_t total = 0;
    if (const CUresult error = cuDeviceTotalMem_v2(&total, device)) return error;
    if (const CUresult error = cuDeviceGetName(bytes, 256, device)) return error;
    if (const CUresult error = cuDeviceGetUuid_v2(reinterpret_cast<CUuuid*>(bytes + 256), device)) return error;
    for (const Field& field : kIntegers) {
      int value = 0;
      if (const CUresult error = cuDeviceGetAttribute(&value, field.attribute, device)) return error;
      std::memcpy(bytes + field.offset, &value, sizeof(value));
    }
    std::memcpy(bytes + kTotalMemory, &total, sizeof(total));
    return kSuccess;
  });
}

}  // namespace meshbed::sim::cuda
