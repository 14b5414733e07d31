// Host memory that the GPU reaches: pinned, registered, managed.

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "sim/cuda/device_view.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr std::size_t kHuge = std::size_t{4} << 20U;  // two huge pages

std::uint64_t whole_pages(std::uint64_t size_bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (size_bytes + page - 1) / page * page;
}

const Allocation* find_host(const Driver& driver, void* address) {
  const Allocation* found = find_allocation(driver, reinterpret_cast<std::uint64_t>(address), 1);
  const bool is_host =
      found != nullptr && (found->kind == MemoryKind::kPinned || found->kind == MemoryKind::kRegistered);
  return is_host ? found : nullptr;
}

}  // namespace

CUresult allocate_host_memory(const Caller& caller, MemoryKind kind, std::size_t size, unsigned flags, void*& address) {
  if (size == 0) return kInvalidValue;
  void* memory = ::mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  // Programs write all of such memory at once (NCCL clears it), and a fault a page of 4 KiB costs more than that.
  if (size >= kHuge) ::madvise(memory, whole_pages(size), MADV_HUGEPAGE);
  const auto number = reinterpret_cast<std::uint64_t>(memory);
  add_allocation(*caller.driver, {.kind = kind,
                                  .address = number,
                                  .size_bytes = size,
                                  .bytes = static_cast<char*>(memory),
                                  .device = caller.context->device,
                                  .context = caller.context,
                                  .ordinal = caller.context->ordinal,
                                  .flags = flags,
                                  .id = system().next_id++});
  address = memory;
  return kSuccess;
}

void add_allocation(Driver& driver, Allocation&& allocation) {
  for (Freed& gone : driver.freed) {
    const bool overlaps = allocation.address < gone.address + gone.size_bytes &&
                          gone.address < allocation.address + allocation.size_bytes;
    gone.reused = gone.reused || overlaps;
  }
  driver.allocations[allocation.address] = std::move(allocation);
}

void free_allocation(Driver& driver, std::uint64_t address) {
  const auto found = driver.allocations.find(address);
  if (found == driver.allocations.end()) return;
  const Allocation& allocation = found->second;
  if (allocation.exported) name_importer(allocation);
  if (allocation.kind == MemoryKind::kDevice) {
    allocation.device->used_bytes -= allocation.size_bytes;
    driver.counters.allocated_bytes -= allocation.size_bytes;
    if (allocation.pool != nullptr) allocation.pool->used_bytes -= allocation.size_bytes;
    host().release(*allocation.buffer);
  } else if (allocation.kind == MemoryKind::kPinned || allocation.kind == MemoryKind::kManaged) {
    ::munmap(allocation.bytes, whole_pages(allocation.size_bytes));
  }
  constexpr std::size_t kRemembered = 256;
  driver.freed.push_front({.address = allocation.address, .size_bytes = allocation.size_bytes});
  if (driver.freed.size() > kRemembered) driver.freed.pop_back();
  ++driver.allocation_changes;
  driver.allocations.erase(found);
}

CUresult not_to_free(const Driver& driver, std::uint64_t address) {
  const Allocation* found = find_allocation(driver, address, 1);
  const std::string what = found != nullptr && found->address == address ? "memory of another kind of allocation"
                           : found != nullptr ? fmt::format("byte {} of an allocation", address - found->address)
                                              : describe_address(driver, address);
  return complain(kInvalidValue, fmt::format("what is to be freed, 0x{:x}, is {}: error 1", address, what));
}

CUresult cuMemHostAlloc(void** address, std::size_t size, unsigned flags) {
  constexpr unsigned kKnown = 7;  // portable, mapped, write-combined
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  if (address == nullptr || (flags & ~kKnown) != 0) return kInvalidValue;
  return allocate_host_memory(caller, MemoryKind::kPinned, size, flags, *address);
}

CUresult cuMemAllocHost_v2(void** address, std::size_t size) { return cuMemHostAlloc(address, size, 0); }

CUresult cuMemFreeHost(void* address) {
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  const auto found = caller.driver->allocations.find(reinterpret_cast<std::uint64_t>(address));
  if (found == caller.driver->allocations.end() || found->second.kind != MemoryKind::kPinned) {
    return not_to_free(*caller.driver, reinterpret_cast<std::uint64_t>(address));
  }
  wait_for_all(*caller.context, "cuMemFreeHost, which waits for the whole context");
  ++caller.driver->counters.implicit_device_syncs;
  free_allocation(*caller.driver, reinterpret_cast<std::uint64_t>(address));
  return kSuccess;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* address, unsigned flags) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (device == nullptr || flags != 0 || find_host(*caller.driver, address) == nullptr) return kInvalidValue;
  *device = reinterpret_cast<CUdeviceptr>(address);  // unified addresses
  return kSuccess;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* address) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  const Allocation* found = find_host(*caller.driver, address);
  if (flags == nullptr || found == nullptr) return kInvalidValue;
  *flags = found->flags;
  return kSuccess;
}

CUresult cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  constexpr unsigned kKnown = 15, kIoMemory = 4;  // portable, mapped, I/O memory, read-only
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  if (address == nullptr || size == 0 || (flags & ~kKnown) != 0) return kInvalidValue;
  if ((flags & kIoMemory) != 0) return refuse("cuMemHostRegister of I/O memory");
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  auto& allocations = caller.driver->allocations;
  const auto next = allocations.lower_bound(begin);
  const bool meets_next = next != allocations.end() && next->first < begin + size;
  if (meets_next || find_allocation(*caller.driver, begin, 1) != nullptr) return kHostMemoryAlreadyRegistered;
  add_allocation(*caller.driver, {.kind = MemoryKind::kRegistered,
                                  .address = begin,
                                  .size_bytes = size,
                                  .bytes = static_cast<char*>(address),
                                  .device = caller.context->device,
                                  .context = caller.context,
                                  .ordinal = caller.context->ordinal,
                                  .flags = flags,
                                  .id = system().next_id++});
  return kSuccess;
}

CUresult cuMemHostUnregister(void* address) {
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  const auto found = caller.driver->allocations.find(reinterpret_cast<std::uint64_t>(address));
  if (address == nullptr) return kInvalidValue;
  if (found == caller.driver->allocations.end() || found->second.kind != MemoryKind::kRegistered) {
    const Allocation* around = find_host(*caller.driver, address);
    return around != nullptr && around->kind == MemoryKind::kRegistered ? kInvalidValue : kHostMemoryNotRegistered;
  }
  wait_for_all(*caller.context, "cuMemHostUnregister, which waits for the whole context");
  ++caller.driver->counters.implicit_device_syncs;
  ++caller.driver->allocation_changes;
  caller.driver->allocations.erase(found);
  return kSuccess;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t size, unsigned flags) {
  constexpr unsigned kGlobal = 1, kHost = 2;
  const Caller caller = enter_beside_no_recording();
  if (caller.error != kSuccess) return caller.error;
  if (address == nullptr || (flags != kGlobal && flags != kHost)) return kInvalidValue;
  void* memory = nullptr;
  const CUresult error = allocate_host_memory(caller, MemoryKind::kManaged, size, flags, memory);
  if (error == kSuccess) *address = reinterpret_cast<CUdeviceptr>(memory);
  return error;
}

}  // namespace meshbed::sim::cuda
