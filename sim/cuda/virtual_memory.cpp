// Virtual memory: addresses reserved apart from the memory that is mapped there later (cuMemAddressReserve,
// cuMemCreate, cuMemMap). A reservation is a range of addresses twice, once for programs (no access) and once for the
// hardware, so that memory mapped side by side is contiguous for both.

#include <sys/mman.h>

#include <new>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20U;

bool is_whole(std::uint64_t size_bytes) { return size_bytes > 0 && size_bytes % kGranularity == 0; }

/// A range of addresses that nobody can access, aligned to the granularity.
char* reserve(std::uint64_t size_bytes) {
  void* range =
      ::mmap(nullptr, size_bytes + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uint64_t>(range);
  const std::uint64_t aligned = (begin + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned > begin) ::munmap(range, aligned - begin);
  if (const std::uint64_t behind = begin + kGranularity - aligned; behind > 0) {
    ::munmap(reinterpret_cast<void*>(aligned + size_bytes), behind);
  }
  return reinterpret_cast<char*>(aligned);
}

const Reservation* find_reservation(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes,
                                    std::uint64_t& base) {
  auto next = driver.reservations.upper_bound(address);
  if (next == driver.reservations.begin()) return nullptr;
  --next;
  base = next->first;
  const std::uint64_t offset = address - base;
  const bool holds = offset <= next->second.size_bytes && size_bytes <= next->second.size_bytes - offset;
  return holds ? &next->second : nullptr;
}

void forget_if_unused(Driver& driver, CUmemGenericAllocationHandle handle) {
  const auto found = driver.physical.find(handle);
  if (!found->second.released || found->second.maps > 0) return;
  found->second.device->used_bytes -= found->second.memory->size_bytes;
  driver.counters.allocated_bytes -= found->second.memory->size_bytes;
  driver.physical.erase(found);
}

bool is_mapped(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes) {
  const auto next = driver.allocations.lower_bound(address);
  return (next != driver.allocations.end() && next->first < address + size_bytes) ||
         find_allocation(driver, address, 1) != nullptr;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(std::size_t* size, const CUmemAllocationProp* properties, int) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (size == nullptr || properties == nullptr) return kInvalidValue;
  *size = kGranularity;
  return kSuccess;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (address == nullptr || !is_whole(size) || flags != 0 || alignment > kGranularity) return kInvalidValue;
  char* program = reserve(size);
  char* hardware = program != nullptr ? reserve(size) : nullptr;
  if (hardware == nullptr) {
    if (program != nullptr) ::munmap(program, size);
    return kOutOfMemory;
  }
  *address = reinterpret_cast<CUdeviceptr>(program);
  caller.driver->reservations[*address] = {.size_bytes = size, .hardware = hardware};
  return kSuccess;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const auto found = caller.driver->reservations.find(address);
  if (found == caller.driver->reservations.end() || found->second.size_bytes != size) return kInvalidValue;
  if (is_mapped(*caller.driver, address, size)) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), size);
  ::munmap(found->second.hardware, size);
  caller.driver->reservations.erase(found);
  return kSuccess;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  constexpr int kPinned = 1, kOnDevice = 1;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (handle == nullptr || properties == nullptr || !is_whole(size) || flags != 0) return kInvalidValue;
  if (properties->type != kPinned) return kInvalidValue;
  if (properties->location.type != kOnDevice || properties->handle_types != 0) {
    return refuse("cuMemCreate of memory that is not a device's own, or is to be shared");
  }
  const int ordinal = properties->location.id;
  Device* found = find_device(*caller.driver, ordinal);
  if (found == nullptr) return kInvalidDevice;
  Device& device = *found;
  if (size > device.model->memory_bytes - device.used_bytes) return kOutOfMemory;
  Physical physical{.device = &device, .ordinal = ordinal};
  try {
    physical.memory = host().allocate(caller.driver->process, size);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  device.used_bytes += size;
  caller.driver->counters.allocated_bytes += size;
  *handle = system().next_id++;
  caller.driver->physical[*handle] = std::move(physical);
  return kSuccess;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const auto found = caller.driver->physical.find(handle);
  if (found == caller.driver->physical.end() || found->second.released) return kInvalidValue;
  found->second.released = true;
  forget_if_unused(*caller.driver, handle);
  return kSuccess;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Driver& driver = *caller.driver;
  const auto physical = driver.physical.find(handle);
  if (physical == driver.physical.end() || physical->second.released) return kInvalidValue;
  if (flags != 0 || offset != 0 || size != physical->second.memory->size_bytes) return kInvalidValue;
  std::uint64_t base = 0;
  const Reservation* reservation = find_reservation(driver, address, size, base);
  if (reservation == nullptr || address % kGranularity != 0 || is_mapped(driver, address, size)) return kInvalidValue;
  // mremap(2) of 0 bytes: the same shared memory, a second time.
  char* hardware = reservation->hardware + (address - base);
  if (::mremap(physical->second.memory->bytes, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, hardware) == MAP_FAILED) {
    return kOutOfMemory;
  }
  ++physical->second.maps;
  driver.allocations[address] = {.kind = MemoryKind::kMapped,
                                 .address = address,
                                 .size_bytes = size,
                                 .bytes = hardware,
                                 .device = physical->second.device,
                                 .ordinal = physical->second.ordinal,
                                 .flags = 0,  // no access until cuMemSetAccess
                                 .id = handle,
                                 .buffer = host().map(physical->second.memory, address)};
  return kSuccess;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Driver& driver = *caller.driver;
  const auto found = driver.allocations.find(address);
  if (found == driver.allocations.end() || found->second.kind != MemoryKind::kMapped ||
      found->second.size_bytes != size) {
    return kInvalidValue;
  }
  for (const auto& context : driver.contexts) wait_for_all(*context, "cuMemUnmap, which waits for the whole context");
  ++driver.counters.implicit_device_syncs;
  const CUmemGenericAllocationHandle handle = found->second.id;
  char* hardware = found->second.bytes;
  host().release(*found->second.buffer);
  ++driver.allocation_changes;
  driver.allocations.erase(found);
  // The addresses stay reserved.
  if (::mmap(hardware, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return kOutOfMemory;
  }
  --driver.physical.at(handle).maps;
  forget_if_unused(driver, handle);
  return kSuccess;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count) {
  constexpr int kOnDevice = 1, kReadWrite = 3;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const auto is_meant = [&](const Allocation& one) {
    return one.kind == MemoryKind::kMapped && one.address >= address && one.address < address + size;
  };
  std::uint64_t mapped_bytes = 0;
  for (const auto& [begin, allocation] : caller.driver->allocations) {
    if (is_meant(allocation)) mapped_bytes += allocation.size_bytes;
  }
  if (access == nullptr || count == 0 || mapped_bytes != size) return kInvalidValue;
  for (std::size_t index = 0; index < count; ++index) {
    if (access[index].location.type != kOnDevice || access[index].flags != kReadWrite) {
      return refuse("cuMemSetAccess with other than read and write by a device");
    }
  }
  for (auto& [begin, allocation] : caller.driver->allocations) {
    if (is_meant(allocation)) allocation.flags = kReadWrite;
  }
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
