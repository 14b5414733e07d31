// Device memory: cuMemAlloc and its like, and what a pointer is.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr std::size_t kPitchAlignment = 512;

/// What cuda.h's CUpointer_attribute asks; false: the simulator does not know it.
bool write_attribute(const Allocation& allocation, int attribute, std::uint64_t address, void* value) {
  const bool on_device = is_on_device(allocation.kind);
  const auto write = [value](auto what) { *static_cast<decltype(what)*>(value) = what; };
  switch (attribute) {
    case 1:
      write(allocation.context);
      return true;
    case 2:
      write(on_device || allocation.kind == MemoryKind::kManaged ? kMemoryDevice : kMemoryHost);
      return true;
    case 3:
      write(address);
      return true;
    case 4:
      write(on_device ? nullptr : reinterpret_cast<void*>(address));
      return true;
    case 6:
      write(1);
      return true;  // SYNC_MEMOPS: copies between device memories are in order
    case 7:
      write(static_cast<unsigned long long>(allocation.id));
      return true;
    case 8:
      write(allocation.kind == MemoryKind::kManaged ? 1 : 0);
      return true;
    case 9:
      write(allocation.ordinal);
      return true;
    case 10:
      write(can_be_exported(allocation) && host().has_neighbours() ? 1 : 0);
      return true;
    case 11:
      write(allocation.address);
      return true;
    case 12:
      write(static_cast<std::size_t>(allocation.size_bytes));
      return true;
    case 13:
      write(1);
      return true;
    case 15:
      write(on_device ? 1 : 0);
      return true;
    default:
      return false;
  }
}

CUresult free_and_wait(const Caller& caller, std::uint64_t address, const char* what) {
  wait_for_all(*caller.context, what);
  ++caller.driver->counters.implicit_device_syncs;
  free_allocation(*caller.driver, address);
  return kSuccess;
}

}  // namespace

bool can_be_exported(const Allocation& allocation) {
  return allocation.kind == MemoryKind::kDevice && allocation.pool == nullptr && !allocation.of_graph;
}

const Allocation* find_allocation(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes) {
  auto next = driver.allocations.upper_bound(address);
  if (next == driver.allocations.begin()) return nullptr;
  const Allocation& allocation = (--next)->second;
  const std::uint64_t offset = address - allocation.address;
  const bool holds =
      offset < std::max<std::uint64_t>(allocation.size_bytes, 1) && size_bytes <= allocation.size_bytes - offset;
  return holds ? &allocation : nullptr;
}

char* bytes_at(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes) {
  const Allocation* first = find_allocation(driver, address, 1);
  const auto can_access = [](const Allocation& one) { return one.kind != MemoryKind::kMapped || one.flags != 0; };
  if (first == nullptr || !can_access(*first) || address + size_bytes < address) return nullptr;
  char* bytes = first->bytes + (address - first->address);
  // Mappings that follow one another in a reservation do so for the hardware, too.
  for (const Allocation* part = first; address + size_bytes > part->address + part->size_bytes;) {
    const Allocation* next = find_allocation(driver, part->address + part->size_bytes, 1);
    if (next == nullptr || next->bytes != part->bytes + part->size_bytes || next->kind != part->kind) return nullptr;
    if (part->kind != MemoryKind::kMapped || !can_access(*next)) return nullptr;
    part = next;
  }
  return bytes;
}

CUresult allocate_device(const Caller& caller, std::uint64_t size_bytes, Pool* pool, CUdeviceptr& address) {
  Device& device = *caller.context->device;
  if (size_bytes == 0) return kInvalidValue;
  if (size_bytes > device.model->memory_bytes - device.used_bytes) return kOutOfMemory;
  Allocation allocation{.kind = MemoryKind::kDevice,
                        .size_bytes = size_bytes,
                        .device = &device,
                        .context = caller.context,
                        .ordinal = caller.context->ordinal,
                        .id = system().next_id++,
                        .pool = pool};
  try {
    allocation.buffer = host().allocate(caller.driver->process, size_bytes);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  allocation.address = address = allocation.buffer->address;
  allocation.bytes = allocation.buffer->bytes;
  device.used_bytes += size_bytes;
  caller.driver->counters.allocated_bytes += size_bytes;
  if (pool != nullptr) {
    pool->used_bytes += size_bytes;
    pool->high_bytes = std::max(pool->high_bytes, pool->used_bytes);
  }
  add_allocation(*caller.driver, std::move(allocation));
  return kSuccess;
}

CUresult cuMemGetInfo_v2(std::size_t* left, std::size_t* total) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (left == nullptr || total == nullptr) return kInvalidValue;
  const Device& device = *caller.context->device;
  *total = device.model->memory_bytes;
  *left = device.model->memory_bytes - device.used_bytes;
  return kSuccess;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t size) {
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  return address != nullptr ? allocate_device(caller, size, nullptr, *address) : kInvalidValue;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t height,
                            unsigned element) {
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  if (address == nullptr || pitch == nullptr || width == 0 || height == 0) return kInvalidValue;
  if (element != 4 && element != 8 && element != 16) return kInvalidValue;
  if (width > SIZE_MAX - kPitchAlignment) return kInvalidValue;
  const std::uint64_t most = caller.context->device->model->memory_bytes;
  if (width > most || height > most / width) return kOutOfMemory;  // and no product below is too large for its number
  const std::size_t row = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  const CUresult error = allocate_device(caller, row * height, nullptr, *address);
  if (error == kSuccess) *pitch = row;
  return error;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  if (address == 0) return kSuccess;
  const auto found = caller.driver->allocations.find(address);
  const bool is_there = found != caller.driver->allocations.end();
  const MemoryKind kind = is_there ? found->second.kind : MemoryKind::kPinned;
  if (kind != MemoryKind::kDevice && kind != MemoryKind::kManaged) return not_to_free(*caller.driver, address);
  if (found->second.of_graph) {
    if (!found->second.given) return kInvalidValue;  // no launch has given it
    const std::shared_ptr<GraphMemory> kept = found->second.graph_memory.lock();
    wait_for_all(*caller.context, "cuMemFree, which waits for the whole context");
    const auto still = caller.driver->allocations.find(address);
    if (still != caller.driver->allocations.end()) still->second.given = false;
    return kSuccess;
  }
  return free_and_wait(caller, address, "cuMemFree, which waits for the whole context");
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  const Allocation* found = find_allocation(*caller.driver, address, 1);
  if (found == nullptr) return kNotFound;
  if (base != nullptr) *base = found->address;
  if (size != nullptr) *size = found->size_bytes;
  return kSuccess;
}

CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (value == nullptr) return kInvalidValue;
  const Allocation* found = find_allocation(*caller.driver, address, 1);
  if (found == nullptr) return kInvalidValue;
  return write_attribute(*found, attribute, address, value)
             ? kSuccess
             : refuse("cuPointerGetAttribute of attribute " + std::to_string(attribute));
}

// As documented: a pointer that is not CUDA's has 0 for every attribute, and that is no error.
CUresult cuPointerGetAttributes(unsigned count, int* attributes, void** values, CUdeviceptr address) {
  constexpr int kContext = 1, kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kManaged = 8, kOrdinal = 9;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (attributes == nullptr || values == nullptr || count == 0) return kInvalidValue;
  const Allocation* found = find_allocation(*caller.driver, address, 1);
  for (unsigned index = 0; index < count; ++index) {
    const int attribute = attributes[index];
    if (found != nullptr) {
      if (write_attribute(*found, attribute, address, values[index])) continue;
      return refuse("cuPointerGetAttributes of attribute " + std::to_string(attribute));
    }
    if (attribute == kContext || attribute == kDevicePointer || attribute == kHostPointer) {
      std::memset(values[index], 0, sizeof(void*));
    } else if (attribute == kMemoryType || attribute == kManaged) {
      std::memset(values[index], 0, sizeof(int));
    } else if (attribute == kOrdinal) {
      constexpr int kNone = -2;
      std::memcpy(values[index], &kNone, sizeof(kNone));
    } else {
      return refuse("cuPointerGetAttributes of attribute " + std::to_string(attribute) + " of a foreign pointer");
    }
  }
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
