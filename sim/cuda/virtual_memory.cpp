// Virtual memory: addresses reserved apart from the memory that is mapped there later (cuMemAddressReserve,
// cuMemCreate, cuMemMap). A reservation is a range of addresses twice, once for programs (no access) and once for the
// hardware, so that memory mapped side by side is contiguous for both.

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20U;
constexpr int kPosixDescriptor = 1;  // cuda.h's CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

bool is_whole(std::uint64_t size_bytes) { return size_bytes > 0 && size_bytes % kGranularity == 0; }

/// A range of addresses without access rights.
char* reserve(std::uint64_t size_bytes, std::uint64_t alignment) {
  if (size_bytes + alignment < size_bytes) return nullptr;
  void* range = ::mmap(nullptr, size_bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uint64_t>(range);
  const std::uint64_t aligned = (begin + alignment - 1) / alignment * alignment;
  if (aligned > begin) ::munmap(range, aligned - begin);
  if (const std::uint64_t behind = begin + alignment - aligned; behind > 0) {
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
  if (found->second.references > 0 || found->second.maps > 0) return;
  driver.counters.allocated_bytes -= found->second.memory->buffer->size_bytes;
  driver.physical.erase(found);
}

/// A handle of the process's that it has not released.
Physical* find_physical(Driver& driver, CUmemGenericAllocationHandle handle) {
  const auto found = driver.physical.find(handle);
  return found != driver.physical.end() && found->second.references > 0 ? &found->second : nullptr;
}

CUmemGenericAllocationHandle add_physical(Driver& driver, std::shared_ptr<PhysicalMemory> memory, CUdevice ordinal) {
  const CUmemGenericAllocationHandle handle = system().next_id++;
  driver.counters.allocated_bytes += memory->buffer->size_bytes;
  driver.physical[handle] = {.memory = std::move(memory), .ordinal = ordinal};
  return handle;
}

bool is_mapped(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes) {
  const auto next = driver.allocations.lower_bound(address);
  return (next != driver.allocations.end() && next->first < address + size_bytes) ||
         find_allocation(driver, address, 1) != nullptr;
}

/// The range is that of one mapping, or of several side by side.
bool is_mapped_whole(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes) {
  std::uint64_t mapped_bytes = 0;
  for (auto next = driver.allocations.find(address);
       mapped_bytes < size_bytes && next != driver.allocations.end() && next->first == address + mapped_bytes &&
       next->second.kind == MemoryKind::kMapped;
       ++next) {
    mapped_bytes += next->second.size_bytes;
  }
  return size_bytes > 0 && mapped_bytes == size_bytes;
}

/// Ends one mapping; its addresses stay reserved.
CUresult unmap(Driver& driver, const Allocation& mapping) {
  const CUmemGenericAllocationHandle handle = mapping.id;
  const std::uint64_t size_bytes = mapping.size_bytes;
  char* hardware = mapping.bytes;
  host().release(*mapping.buffer);
  ++driver.allocation_changes;
  driver.allocations.erase(mapping.address);
  if (::mmap(hardware, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    return kOutOfMemory;
  }
  --driver.physical.at(handle).maps;
  forget_if_unused(driver, handle);
  return kSuccess;
}

/// Memory that a process of this machine has exported, on the GPU of the same number; nullptr: the descriptor is of
/// something else.
CUresult open_memory(Driver& driver, int descriptor, std::shared_ptr<PhysicalMemory>& memory) {
  std::uint64_t index = 0;
  std::shared_ptr<Buffer> bytes;
  try {
    bytes = host().import_memory(descriptor, index);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  if (bytes == nullptr) return kSuccess;
  for (const auto& [handle, one] : driver.physical) {
    if (one.memory->buffer == bytes) memory = one.memory;
  }
  if (memory != nullptr) return kSuccess;
  CUdevice ordinal = 0;
  Device* device = find_device(driver, ordinal);
  while (device != nullptr && static_cast<std::uint64_t>(device->index) != index)
    device = find_device(driver, ++ordinal);
  if (device == nullptr) {
    host().release(*bytes);
    return kInvalidDevice;
  }
  const CUmemAllocationProp properties{
      .type = 1, .handle_types = kPosixDescriptor, .location = {1, ordinal}, .windows = nullptr, .flags = {}};
  memory = std::make_shared<PhysicalMemory>(*device, std::move(bytes), properties);
  return kSuccess;
}

}  // namespace

PhysicalMemory::PhysicalMemory(Device& of, std::shared_ptr<Buffer> bytes, const CUmemAllocationProp& wanted)
    : device(of), buffer(std::move(bytes)), properties(wanted), system_lives(system().lives) {
  device.used_bytes += buffer->size_bytes;
}
PhysicalMemory::~PhysicalMemory() {
  if (system_lives.expired()) return;
  device.used_bytes -= buffer->size_bytes;
  host().release(*buffer);
}

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
  const bool is_power = (alignment & (alignment - 1)) == 0;  // or 0, which leaves it to the driver
  if (address == nullptr || !is_whole(size) || flags != 0 || !is_power) return kInvalidValue;
  char* program = reserve(size, std::max<std::uint64_t>(alignment, kGranularity));
  char* hardware = program != nullptr ? reserve(size, kGranularity) : nullptr;
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
  const bool is_shareable = properties->handle_types == kPosixDescriptor;
  if (properties->location.type != kOnDevice || (properties->handle_types != 0 && !is_shareable)) {
    return refuse("cuMemCreate of memory that is not a device's own, or is shared by other than a descriptor");
  }
  const int ordinal = properties->location.id;
  Device* found = find_device(*caller.driver, ordinal);
  if (found == nullptr) return kInvalidDevice;
  Device& device = *found;
  if (size > device.model->memory_bytes - device.used_bytes) return kOutOfMemory;
  std::shared_ptr<Buffer> bytes;
  try {
    bytes = is_shareable
                ? host().allocate_shareable(caller.driver->process, size, static_cast<std::uint64_t>(device.index))
                : host().allocate(caller.driver->process, size);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  *handle =
      add_physical(*caller.driver, std::make_shared<PhysicalMemory>(device, std::move(bytes), *properties), ordinal);
  return kSuccess;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Physical* found = find_physical(*caller.driver, handle);
  if (found == nullptr) return kInvalidValue;
  --found->references;
  forget_if_unused(*caller.driver, handle);
  return kSuccess;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Driver& driver = *caller.driver;
  Physical* physical = find_physical(driver, handle);
  if (physical == nullptr) return kInvalidValue;
  const std::shared_ptr<Buffer>& memory = physical->memory->buffer;
  if (flags != 0 || offset != 0 || size != memory->size_bytes) return kInvalidValue;
  std::uint64_t base = 0;
  const Reservation* reservation = find_reservation(driver, address, size, base);
  if (reservation == nullptr || address % kGranularity != 0 || is_mapped(driver, address, size)) return kInvalidValue;
  // mremap(2) of 0 bytes: the same shared memory, a second time.
  char* hardware = reservation->hardware + (address - base);
  if (::mremap(memory->bytes, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, hardware) == MAP_FAILED) return kOutOfMemory;
  ++physical->maps;
  add_allocation(driver, {.kind = MemoryKind::kMapped,
                          .address = address,
                          .size_bytes = size,
                          .bytes = hardware,
                          .device = &physical->memory->device,
                          .ordinal = physical->ordinal,
                          .flags = 0,  // no access until cuMemSetAccess
                          .id = handle,
                          .buffer = host().map(memory, address)});
  return kSuccess;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Driver& driver = *caller.driver;
  if (!is_mapped_whole(driver, address, size)) return kInvalidValue;
  wait_for_devices(driver, nullptr, "cuMemUnmap, which waits for all contexts");
  if (!is_mapped_whole(driver, address, size)) return kInvalidValue;  // another thread was here meanwhile
  for (auto found = driver.allocations.find(address);
       found != driver.allocations.end() && found->first < address + size;
       found = driver.allocations.lower_bound(address)) {
    const CUresult error = unmap(driver, found->second);
    if (error != kSuccess) return error;
  }
  return kSuccess;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count) {
  constexpr int kOnDevice = 1, kReadWrite = 3, kNoAccess = 0;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  auto& allocations = caller.driver->allocations;
  if (access == nullptr || count == 0 || !is_mapped_whole(*caller.driver, address, size)) return kInvalidValue;
  const auto begin = allocations.find(address), end = allocations.lower_bound(address + size);
  for (std::size_t index = 0; index < count; ++index) {
    const CUmemAccessDesc& wanted = access[index];
    if (wanted.location.type != kOnDevice || (wanted.flags != kReadWrite && wanted.flags != kNoAccess)) {
      return refuse("cuMemSetAccess with other than read and write, or nothing, by a device");
    }
    if (find_device(*caller.driver, wanted.location.id) == nullptr) return kInvalidDevice;
    // Devices have no path to one another here.
    const bool reaches = std::all_of(
        begin, end, [&wanted](const auto& mapping) { return mapping.second.ordinal == wanted.location.id; });
    if (!reaches && wanted.flags != kNoAccess) return kInvalidDevice;
  }
  for (std::size_t index = 0; index < count; ++index) {
    for (auto mapping = begin; mapping != end; ++mapping) {
      if (mapping->second.ordinal != access[index].location.id) continue;
      mapping->second.flags = static_cast<unsigned>(access[index].flags);
    }
  }
  return kSuccess;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  constexpr int kOnDevice = 1;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const Allocation* found = find_allocation(*caller.driver, address, 1);
  if (flags == nullptr || location == nullptr || found == nullptr) return kInvalidValue;
  if (found->kind != MemoryKind::kMapped) return kInvalidValue;
  if (location->type != kOnDevice) return refuse("cuMemGetAccess of something that is no device");
  if (find_device(*caller.driver, location->id) == nullptr) return kInvalidDevice;
  *flags = location->id == found->ordinal ? found->flags : 0;
  return kSuccess;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const Allocation* found = find_allocation(*caller.driver, reinterpret_cast<std::uint64_t>(address), 1);
  if (handle == nullptr || found == nullptr || found->kind != MemoryKind::kMapped) return kInvalidValue;
  ++caller.driver->physical.at(found->id).references;  // one that was released is a handle again
  *handle = found->id;
  return kSuccess;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const Physical* found = find_physical(*caller.driver, handle);
  if (properties == nullptr || found == nullptr) return kInvalidValue;
  *properties = found->memory->properties;
  properties->location.id = found->ordinal;  // as this process counts
  properties->flags[0] = 0;                  // nothing is compressed, also on request
  return kSuccess;
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle, int type,
                                      unsigned long long flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const Physical* found = find_physical(*caller.driver, handle);
  if (shareable == nullptr || found == nullptr || flags != 0) return kInvalidValue;
  if (type != kPosixDescriptor) return refuse("cuMemExportToShareableHandle of other than a descriptor");
  if (found->memory->properties.handle_types != kPosixDescriptor) return kInvalidValue;  // as it was made
  const int descriptor = host().has_neighbours() ? host().export_object(caller.driver->process, found->memory)
                                                 : host().export_memory(*found->memory->buffer);
  if (descriptor < 0) return kOperatingSystem;
  *static_cast<int*>(shareable) = descriptor;
  return kSuccess;
}

// The descriptor is passed as the pointer itself, as documented for this type.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable, int type) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (handle == nullptr) return kInvalidValue;
  if (type != kPosixDescriptor) return refuse("cuMemImportFromShareableHandle of other than a descriptor");
  const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  std::shared_ptr<PhysicalMemory> memory;
  if (!host().has_neighbours()) {
    if (const CUresult error = open_memory(*caller.driver, descriptor, memory)) return error;
  } else {
    memory = std::static_pointer_cast<PhysicalMemory>(host().find_object(caller.driver->process, descriptor));
  }
  if (memory == nullptr) return kInvalidValue;
  const CUdevice ordinal = ordinal_of(*caller.driver, memory->device);
  if (find_device(*caller.driver, ordinal) != &memory->device) return kInvalidDevice;
  *handle = add_physical(*caller.driver, memory, ordinal);
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
