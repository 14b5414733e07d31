// Copies and fills: cuMemcpy*, cuMemset*.
//
// A copy takes place at its end, as a whole. Pageable host memory follows CUDA's documentation ("API synchronization
// behavior"): what goes to the device is taken when the call comes, what comes from it is there when the call returns.

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "sim/cuda/device_view.h"
#include "sim/cuda/ptx/vector/single_access.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// One side of a copy.
struct Side {
  char* bytes = nullptr;  // nullptr: not the caller's
  bool device = false;
  bool pinned = false;
  std::shared_ptr<Buffer> memory;
};

bool was_freed(const Driver& driver, std::uint64_t address) {
  return std::any_of(driver.freed.begin(), driver.freed.end(),
                     [&](const Freed& gone) { return address - gone.address < gone.size_bytes; });
}

/// Whether the process has anything there: other memory may stand where some was freed.
bool is_mapped(std::uint64_t address) {
  char byte = 0;
  iovec here{.iov_base = &byte, .iov_len = 1}, there{.iov_base = reinterpret_cast<void*>(address), .iov_len = 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

/// `wanted` is a kMemory... kind: the caller's kind of the address.
Side side_at(const Driver& driver, std::uint64_t address, std::uint64_t span, unsigned wanted) {
  Side side;
  const Allocation* found = find_allocation(driver, address, 1);
  if (found == nullptr) {
    // Not CUDA's: pageable memory, unless some GPU has it.
    if (wanted == kMemoryDevice || address == 0 || host().is_device_memory(address)) return side;
    if (was_freed(driver, address) && !is_mapped(address)) return side;
    side.bytes = reinterpret_cast<char*>(address);
    return side;
  }
  side.device = is_on_device(found->kind);
  side.pinned = !side.device;
  if (wanted == kMemoryHost && side.device) return side;
  side.memory = found->buffer;
  side.bytes = bytes_at(driver, address, span);
  return side;
}

struct Wanted {
  std::uint64_t target = 0, source = 0;
  unsigned target_kind = kMemoryUnified, source_kind = kMemoryUnified;
  std::size_t width = 0, height = 1, target_pitch = 0, source_pitch = 0;
  std::size_t depth = 1, target_slice = 0, source_slice = 0;
};

/// A product or a sum that no memory has stays the largest number.
std::uint64_t times(std::uint64_t one, std::uint64_t other) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(one, other, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}
std::uint64_t plus(std::uint64_t one, std::uint64_t other) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(one, other, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

std::uint64_t span_of(const Wanted& wanted, std::size_t pitch, std::size_t slice) {
  return plus(plus(times(wanted.depth - 1, slice), times(wanted.height - 1, pitch)), wanted.width);
}

Wanted wanted_of(const Box& box) {
  const std::size_t target_pitch = box.target_pitch != 0 ? box.target_pitch : box.width;
  const std::size_t source_pitch = box.source_pitch != 0 ? box.source_pitch : box.width;
  return {.target = box.target,
          .source = box.source,
          .width = box.width,
          .height = box.height,
          .target_pitch = target_pitch,
          .source_pitch = source_pitch,
          .depth = box.depth,
          .target_slice = times(target_pitch, box.target_height != 0 ? box.target_height : box.height),
          .source_slice = times(source_pitch, box.source_height != 0 ? box.source_height : box.height)};
}

enum class Waits { kAsNeeded, kAlways };

/// False: not all of it is the program's.
bool describe_copy(const Driver& driver, const Wanted& wanted, Copy& copy) {
  const Side target =
      side_at(driver, wanted.target, span_of(wanted, wanted.target_pitch, wanted.target_slice), wanted.target_kind);
  const Side source =
      side_at(driver, wanted.source, span_of(wanted, wanted.source_pitch, wanted.source_slice), wanted.source_kind);
  if (target.bytes == nullptr || source.bytes == nullptr) {
    const bool is_target = target.bytes == nullptr;
    const std::uint64_t address = is_target ? wanted.target : wanted.source;
    complain(kInvalidValue, fmt::format("the {} of a copy, 0x{:x}, is {}: error 1", is_target ? "target" : "source",
                                        address, describe_address(driver, address)));
    return false;
  }
  const bool pageable = !(target.device || target.pinned) || !(source.device || source.pinned);
  copy = {.target = target.bytes,
          .source = source.bytes,
          .width_bytes = wanted.width,
          .height = wanted.height,
          .target_pitch = wanted.target_pitch,
          .source_pitch = wanted.source_pitch,
          .depth = wanted.depth,
          .target_slice = wanted.target_slice,
          .source_slice = wanted.source_slice,
          .target_address = wanted.target,
          .source_address = wanted.source,
          .target_memory = target.memory,
          .source_memory = source.memory};
  if (target.device != source.device) {
    copy.engine = target.device ? Engine::kIn : Engine::kOut;
    copy.kind = pageable ? models::CopyKind::kPageable : models::CopyKind::kPinned;
  }
  copy.between_hosts = !target.device && !source.device;
  return true;
}

/// What the call waits for: cuMemcpy between device memories does not wait, everything else of it does.
CUresult copy_in_stream(const Caller& caller, const Wanted& wanted, Stream* handle, Waits waits) {
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (wanted.width == 0 || wanted.height == 0 || wanted.depth == 0) return kSuccess;
  Copy copy;
  if (!describe_copy(*caller.driver, wanted, copy)) return kInvalidValue;
  const bool pageable = copy.kind == models::CopyKind::kPageable || copy.between_hosts;
  const bool to_device_from_pageable = pageable && copy.engine == Engine::kIn;
  // A captured copy reads and writes host memory whenever its graph runs.
  const bool captured = stream->capture != nullptr;
  if (to_device_from_pageable && waits == Waits::kAsNeeded && !captured) {
    copy.staged = std::make_shared<std::vector<char>>(wanted.width * wanted.height * wanted.depth);
    char* next = copy.staged->data();
    for (std::size_t slice = 0; slice < wanted.depth; ++slice) {
      for (std::size_t row = 0; row < wanted.height; ++row, next += wanted.width) {
        std::memcpy(next, copy.source + slice * wanted.source_slice + row * wanted.source_pitch, wanted.width);
      }
    }
  }
  if (waits == Waits::kAlways) {
    if (const CUresult error = refuse_in_capture(*stream)) return error;
  }
  WorkRef work;
  const bool inside = copy.engine == Engine::kInside && !copy.between_hosts;
  const bool must_wait = (waits == Waits::kAlways && !inside) ||
                         (waits == Waits::kAsNeeded && pageable && !to_device_from_pageable && !captured);
  if (const CUresult error = submit(*stream, std::move(copy), 0, &work)) return error;
  if (must_wait) wait_for(work, waits == Waits::kAlways ? "cuMemcpy" : "cuMemcpyAsync to pageable memory");
  return caller.context->failure;
}

CUresult flat(std::uint64_t target, unsigned target_kind, std::uint64_t source, unsigned source_kind, std::size_t size,
              Stream* stream, Waits waits) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  return copy_in_stream(caller,
                        {.target = target,
                         .source = source,
                         .target_kind = target_kind,
                         .source_kind = source_kind,
                         .width = size,
                         .target_pitch = size,
                         .source_pitch = size},
                        stream, waits);
}

CUresult volume(const CUDA_MEMCPY3D* copy, Stream* stream, Waits waits) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Box box;
  if (copy == nullptr) return kInvalidValue;
  if (const CUresult error = box_of(*copy, box)) return error;
  const auto memory = [](unsigned kind) { return kind == kMemoryArray ? kMemoryDevice : kind; };
  Wanted wanted = wanted_of(box);
  wanted.target_kind = memory(copy->target.kind);
  wanted.source_kind = memory(copy->source.kind);
  return copy_in_stream(caller, wanted, stream, waits);
}

CUresult rectangle(const CUDA_MEMCPY2D* copy, Stream* stream, Waits waits) {
  if (copy == nullptr) return volume(nullptr, stream, waits);
  CUDA_MEMCPY3D slice{};
  slice.source = {copy->source_x_bytes,
                  copy->source_y,
                  0,
                  0,
                  copy->source_kind,
                  copy->source_host,
                  copy->source_device,
                  copy->source_array,
                  nullptr,
                  copy->source_pitch,
                  0};
  slice.target = {copy->target_x_bytes,
                  copy->target_y,
                  0,
                  0,
                  copy->target_kind,
                  copy->target_host,
                  copy->target_device,
                  copy->target_array,
                  nullptr,
                  copy->target_pitch,
                  0};
  slice.width_bytes = copy->width_bytes;
  slice.height = copy->height;
  slice.depth = 1;
  return volume(&slice, stream, waits);
}

struct Area {
  std::size_t element_bytes = 1, width = 0, height = 1, pitch = 0;
};

CUresult fill(CUdeviceptr target, std::uint32_t value, const Area& area, Stream* handle) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (area.width == 0 || area.height == 0) return kSuccess;
  if (area.height > 1 && area.pitch < times(area.element_bytes, area.width)) return kInvalidValue;
  Fill made;
  const CUresult error =
      make_fill(caller, target, value, area.element_bytes, area.width, area.height, area.pitch, made);
  return error != kSuccess ? error : submit(*stream, std::move(made));
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

/// A thread of the host, or a kernel, may look at the target meanwhile: its last 16 bytes come after all others, as the
/// last bytes of a write to PCIe do, and a number that is copied alone comes whole.
void copy_row(char* to, const char* from, std::size_t bytes) {
  constexpr std::size_t kWhole = 16;
  if (to < from + bytes && from < to + bytes) {
    std::memmove(to, from, bytes);
    return;
  }
  const std::size_t tail = bytes <= kWhole ? 0
                                           : (reinterpret_cast<std::uintptr_t>(to) + bytes - 1) / kWhole * kWhole -
                                                 reinterpret_cast<std::uintptr_t>(to);
  if (tail > 0) std::memcpy(to, from, tail);
  std::atomic_thread_fence(std::memory_order_release);
  ptx::copy_once(to + tail, from + tail, bytes - tail);
}

}  // namespace

void copy_bytes(const Copy& copy) {
  const char* from = copy.staged != nullptr ? copy.staged->data() : copy.source;
  const std::size_t pitch = copy.staged != nullptr ? copy.width_bytes : copy.source_pitch;
  const std::size_t from_slice = copy.staged != nullptr ? copy.width_bytes * copy.height : copy.source_slice;
  for (std::size_t slice = 0; slice < copy.depth; ++slice) {
    for (std::size_t row = 0; row < copy.height; ++row) {
      copy_row(copy.target + slice * copy.target_slice + row * copy.target_pitch,
               from + slice * from_slice + row * pitch, copy.width_bytes);
    }
  }
}

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, std::size_t size) {
  return flat(target, kMemoryUnified, source, kMemoryUnified, size, nullptr, Waits::kAlways);
}
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, std::size_t size, Stream* stream) {
  return flat(target, kMemoryUnified, source, kMemoryUnified, size, stream, Waits::kAsNeeded);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, std::size_t size) {
  return flat(target, kMemoryDevice, address_of(source), kMemoryHost, size, nullptr, Waits::kAlways);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, std::size_t size, Stream* stream) {
  return flat(target, kMemoryDevice, address_of(source), kMemoryHost, size, stream, Waits::kAsNeeded);
}
CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, std::size_t size) {
  return flat(address_of(target), kMemoryHost, source, kMemoryDevice, size, nullptr, Waits::kAlways);
}
CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, std::size_t size, Stream* stream) {
  return flat(address_of(target), kMemoryHost, source, kMemoryDevice, size, stream, Waits::kAsNeeded);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, std::size_t size) {
  return flat(target, kMemoryDevice, source, kMemoryDevice, size, nullptr, Waits::kAlways);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, std::size_t size, Stream* stream) {
  return flat(target, kMemoryDevice, source, kMemoryDevice, size, stream, Waits::kAsNeeded);
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) { return rectangle(copy, nullptr, Waits::kAlways); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) { return rectangle(copy, nullptr, Waits::kAlways); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, Stream* stream) {
  return rectangle(copy, stream, Waits::kAsNeeded);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) { return volume(copy, nullptr, Waits::kAlways); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, Stream* stream) {
  return volume(copy, stream, Waits::kAsNeeded);
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, std::size_t number) {
  return fill(target, value, {.element_bytes = 1, .width = number}, nullptr);
}
CUresult cuMemsetD16_v2(CUdeviceptr target, unsigned short value, std::size_t number) {
  return fill(target, value, {.element_bytes = 2, .width = number}, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned value, std::size_t number) {
  return fill(target, value, {.element_bytes = 4, .width = number}, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, std::size_t number, Stream* stream) {
  return fill(target, value, {.element_bytes = 1, .width = number}, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, std::size_t number, Stream* stream) {
  return fill(target, value, {.element_bytes = 2, .width = number}, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, std::size_t number, Stream* stream) {
  return fill(target, value, {.element_bytes = 4, .width = number}, stream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr target, std::size_t pitch, unsigned char value, std::size_t width,
                         std::size_t height) {
  return fill(target, value, {.width = width, .height = height, .pitch = pitch}, nullptr);
}
CUresult cuMemsetD2D8Async(CUdeviceptr target, std::size_t pitch, unsigned char value, std::size_t width,
                           std::size_t height, Stream* stream) {
  return fill(target, value, {.width = width, .height = height, .pitch = pitch}, stream);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr target, std::size_t pitch, unsigned value, std::size_t width,
                          std::size_t height) {
  return fill(target, value, {.element_bytes = 4, .width = width, .height = height, .pitch = pitch}, nullptr);
}

CUresult box_of(const CUDA_MEMCPY3D& copy, Box& box) {
  const Driver* driver = current_driver();
  if (driver == nullptr) return kNoDevice;
  const auto place = [&](const CUDA_MEMCPY3D::Side& side, std::size_t& pitch, std::size_t& height,
                         CUdeviceptr& address) -> CUresult {
    if (side.level != 0) return kInvalidValue;
    if (side.kind == kMemoryArray) {
      const Array* array = driver->arrays.find(static_cast<Array*>(side.array));
      const Region region{side.x_bytes, side.y, side.z, copy.width_bytes, copy.height, copy.depth};
      if (array == nullptr || !holds(*array, region)) return kInvalidValue;
      pitch = array->row_bytes();
      height = array->height;
      address = address_in(*array, side.x_bytes, side.y, side.z);
      return kSuccess;
    }
    const bool known = side.kind == kMemoryHost || side.kind == kMemoryDevice || side.kind == kMemoryUnified;
    pitch = side.pitch != 0 ? side.pitch : copy.width_bytes;
    height = side.height != 0 ? side.height : copy.height;
    if (!known || plus(side.x_bytes, copy.width_bytes) > pitch) return kInvalidValue;
    if (side.height != 0 && plus(side.y, copy.height) > side.height) return kInvalidValue;
    const std::uint64_t base = side.kind == kMemoryHost ? address_of(side.host) : side.device;
    address = base + side.x_bytes + (side.z * height + side.y) * pitch;
    return kSuccess;
  };
  box = {.width = copy.width_bytes, .height = copy.height, .depth = copy.depth};
  if (const CUresult error = place(copy.target, box.target_pitch, box.target_height, box.target)) return error;
  return place(copy.source, box.source_pitch, box.source_height, box.source);
}

CUresult copy_box(const Box& box, Stream* handle, bool waits) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  const Wanted wanted = wanted_of(box);
  if (wanted.width > wanted.target_pitch || wanted.width > wanted.source_pitch) return kInvalidValue;
  return copy_in_stream(caller, wanted, handle, waits ? Waits::kAlways : Waits::kAsNeeded);
}

CUresult make_copy(const Caller& caller, const Box& box, Copy& copy) {
  if (box.width == 0 || box.height == 0 || box.depth == 0) return kInvalidValue;
  return describe_copy(*caller.driver, wanted_of(box), copy) ? kSuccess : kInvalidValue;
}

CUresult make_fill(const Caller& caller, CUdeviceptr target, std::uint32_t value, std::size_t element_bytes,
                   std::size_t width, std::size_t height, std::size_t pitch, Fill& fill) {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4) return kInvalidValue;
  if (width == 0 || height == 0 || target % element_bytes != 0) return kInvalidValue;
  const std::uint64_t span = plus(times(height - 1, pitch), times(width, element_bytes));
  const Side side = side_at(*caller.driver, target, span, kMemoryUnified);
  if (side.bytes == nullptr || !(side.device || side.pinned)) return kInvalidValue;
  fill = {.target = side.bytes,
          .value = value,
          .element_bytes = element_bytes,
          .count = width,
          .rows = height,
          .pitch = pitch,
          .address = target,
          .memory = side.memory};
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
