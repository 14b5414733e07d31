// Memory and events that one process gives to another one on its node by a handle of 64 bytes (cuIpc*). Only a
// simulation has several processes here; a program that runs alone has no other process to share with, and is refused.
//
// Rules of CUDA 13.0's driver API ("Memory Management", cuIpc*): a handle is not opened where it was made; memory is
// opened in the context of the GPU that has it; the same context opens it again at the same address, and has it until
// it was closed as often. A violation is logged: memory that is freed while another process has it open.

#include <cstring>

#include "plugin/base/log.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// What a handle holds.
struct Exported {
  char magic[8] = {};
  std::uint64_t id = 0;
  std::int64_t node = 0;
};
static_assert(sizeof(Exported) <= sizeof(CUipcHandle));
constexpr char kMemory[8] = "mbd-mem", kEvent[8] = "mbd-evt";

CUipcHandle handle_for(const char (&magic)[8], std::uint64_t id, const Driver& driver) {
  Exported exported{.id = id, .node = host().node_of(driver.process)};
  std::memcpy(exported.magic, magic, sizeof(magic));
  CUipcHandle handle{};
  std::memcpy(handle.bytes, &exported, sizeof(exported));
  return handle;
}

/// The content of a handle of that kind and of this node; other handles are named in a warning if a program could
/// expect them to work.
CUresult read_handle(const CUipcHandle& handle, const char (&magic)[8], const Driver& driver, Exported& exported) {
  std::memcpy(&exported, handle.bytes, sizeof(exported));
  if (std::memcmp(exported.magic, magic, sizeof(magic)) != 0 || exported.id == 0) return kInvalidHandle;
  const int own = host().node_of(driver.process);
  if (exported.node == own) return kSuccess;
  MESHBED_WARN("cuIpcOpen...Handle on node %d of a handle of node %d: it reaches no further than its node", own,
               static_cast<int>(exported.node));
  return kInvalidHandle;
}

/// Calls see(driver) for each process of this node, including this one, until one call returns true.
template <typename See>
bool any_on_node(const Driver& driver, const See& see) {
  const int node = host().node_of(driver.process);
  for (const auto& [process, other] : system().drivers) {
    if (host().node_of(process) == node && see(*other)) return true;
  }
  return false;
}

/// The owner of the memory; nullptr: it has none any more.
Driver* find_exporter(const Driver& driver, std::uint64_t id, Allocation*& memory) {
  Driver* exporter = nullptr;
  any_on_node(driver, [&](Driver& other) {
    for (auto& [address, allocation] : other.allocations) {
      if (allocation.id != id || !allocation.exported) continue;
      memory = &allocation;
      exporter = &other;
      return true;
    }
    return false;
  });
  return exporter;
}

Driver* find_exporter(const Driver& driver, std::uint64_t id, const Event*& event) {
  Driver* exporter = nullptr;
  any_on_node(driver, [&](Driver& other) {
    const bool has_it = other.events.any([&](const Event& one) {
      event = &one;
      return one.id == id;
    });
    if (has_it) exporter = &other;
    return has_it;
  });
  return exporter;
}

}  // namespace

void name_importer(const Allocation& exported) {
  for (const auto& [process, driver] : system().drivers) {
    const auto found = driver->allocations.find(exported.address);
    if (found == driver->allocations.end() || found->second.kind != MemoryKind::kImported) continue;
    MESHBED_WARN(
        "memory of %llu bytes is freed while another process has it open (cuIpcOpenMemHandle): what that one "
        "does there is undefined in CUDA",
        static_cast<unsigned long long>(exported.size_bytes));
    return;
  }
}

CUresult cuIpcGetMemHandle(CUipcHandle* handle, CUdeviceptr address) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (!host().has_neighbours()) return refuse("cuIpcGetMemHandle");
  const auto found = caller.driver->allocations.find(address);
  if (handle == nullptr || found == caller.driver->allocations.end()) return kInvalidValue;
  if (!can_be_exported(found->second)) return kInvalidValue;
  found->second.exported = true;
  *handle = handle_for(kMemory, found->second.id, *caller.driver);
  return kSuccess;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcHandle handle, unsigned flags) {
  constexpr unsigned kLazyPeerAccess = 1;  // the only value, as documented
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (!host().has_neighbours()) return refuse("cuIpcOpenMemHandle");
  if (address == nullptr || flags != kLazyPeerAccess) return kInvalidValue;
  Exported exported;
  if (const CUresult error = read_handle(handle, kMemory, *caller.driver, exported)) return error;
  Allocation* memory = nullptr;
  const Driver* exporter = find_exporter(*caller.driver, exported.id, memory);
  if (exporter == nullptr) return kInvalidHandle;
  if (exporter == caller.driver) return kInvalidContext;
  if (memory->device != caller.context->device) return kPeerAccessUnsupported;  // devices have no path here
  const auto known = caller.driver->allocations.find(memory->address);
  if (known != caller.driver->allocations.end()) {
    if (known->second.context != caller.context) return kInvalidContext;
    ++known->second.opened;
  } else {
    // Processes of a simulation share addresses, so that it can have the one that it has elsewhere.
    add_allocation(*caller.driver, {.kind = MemoryKind::kImported,
                                    .address = memory->address,
                                    .size_bytes = memory->size_bytes,
                                    .bytes = memory->bytes,
                                    .device = memory->device,
                                    .context = caller.context,
                                    .ordinal = caller.context->ordinal,
                                    .id = system().next_id++,
                                    .buffer = memory->buffer,
                                    .opened = 1});
  }
  *address = memory->address;
  return kSuccess;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcHandle handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (!host().has_neighbours()) return refuse("cuIpcCloseMemHandle");
  const auto found = caller.driver->allocations.find(address);
  if (found == caller.driver->allocations.end() || found->second.kind != MemoryKind::kImported) return kInvalidValue;
  if (found->second.opened > 1) {
    --found->second.opened;
    return kSuccess;
  }
  // Nothing of this process's may still be under way there.
  wait_for_all(*caller.context, "cuIpcCloseMemHandle, which waits for the whole context");
  ++caller.driver->counters.implicit_device_syncs;
  free_allocation(*caller.driver, address);
  return kSuccess;
}

CUresult cuIpcGetEventHandle(CUipcHandle* handle, Event* event) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (!host().has_neighbours()) return refuse("cuIpcGetEventHandle");
  const Event* found = caller.driver->events.find(event);
  if (found == nullptr || found->id == 0) return kInvalidHandle;
  if (handle == nullptr) return kInvalidValue;
  *handle = handle_for(kEvent, found->id, *caller.driver);
  return kSuccess;
}

CUresult cuIpcOpenEventHandle(Event** event, CUipcHandle handle) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (!host().has_neighbours()) return refuse("cuIpcOpenEventHandle");
  if (event == nullptr) return kInvalidValue;
  Exported exported;
  if (const CUresult error = read_handle(handle, kEvent, *caller.driver, exported)) return error;
  const Event* original = nullptr;
  const Driver* exporter = find_exporter(*caller.driver, exported.id, original);
  if (exporter == nullptr) return kInvalidHandle;
  if (exporter == caller.driver) return kInvalidContext;
  auto made = std::make_unique<Event>();
  made->context = caller.context;
  made->flags = original->flags;
  made->shared = original->shared;
  *event = caller.driver->events.add(std::move(made));
  return kSuccess;
}

CUresult cudaIpcGetMemHandle(CUipcHandle* handle, void* address) {
  return in_runtime([&] { return cuIpcGetMemHandle(handle, reinterpret_cast<CUdeviceptr>(address)); });
}
CUresult cudaIpcOpenMemHandle(void** address, CUipcHandle handle, unsigned flags) {
  return in_runtime([&]() -> CUresult {
    CUdeviceptr opened = 0;
    if (address == nullptr) return kInvalidValue;
    const CUresult error = cuIpcOpenMemHandle_v2(&opened, handle, flags);
    if (error == kSuccess) *address = reinterpret_cast<void*>(opened);
    return error;
  });
}
CUresult cudaIpcCloseMemHandle(void* address) {
  return in_runtime([&] { return cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(address)); });
}
CUresult cudaIpcGetEventHandle(CUipcHandle* handle, Event* event) {
  return in_runtime([&] { return cuIpcGetEventHandle(handle, event); });
}
CUresult cudaIpcOpenEventHandle(Event** event, CUipcHandle handle) {
  return in_runtime([&] { return cuIpcOpenEventHandle(event, handle); });
}

}  // namespace meshbed::sim::cuda
