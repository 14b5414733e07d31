// Memory that streams allocate and free: cuMemAllocAsync, cuMemPool*.
//
// An allocation is there when the call returns, before its turn in the stream comes; a free takes place at its turn.

#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

Pool* default_pool(Driver& driver, CUdevice device) {
  auto& pools = driver.default_pools;
  if (pools.empty()) {
    for (std::size_t index = 0; index < driver.devices.size(); ++index) {
      pools.push_back(std::make_unique<Pool>(Pool{.ordinal = static_cast<CUdevice>(index)}));
      driver.current_pools.push_back(pools.back().get());
    }
  }
  return pools[static_cast<std::size_t>(device)].get();
}

/// And the driver has its default pools.
CUresult with_pools(CUdevice ordinal, Caller& caller) {
  Device* device = nullptr;
  if (const CUresult error = with_device(ordinal, caller, device)) return error;
  default_pool(*caller.driver, ordinal);
  return kSuccess;
}

/// A node of the recording where memory begins (1) or ends (2).
CUresult record_memory(Stream& stream, int memory, CUdeviceptr address) {
  GraphNode node{.task = Marker{}, .memory = memory, .address = address};
  if (memory == 1) node.gives = GraphMemory::of(*stream.context->driver, address);
  return record_node(stream, std::move(node));
}

CUresult allocate(const Caller& caller, CUdeviceptr* address, std::size_t size, Pool* pool, Stream* handle) {
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (address == nullptr) return kInvalidValue;
  if (stream->capture != nullptr) {
    if (const CUresult error = allocate_for_graph(caller, size, *address)) return error;
    return record_memory(*stream, 1, *address);
  }
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  const CUresult error = allocate_device(caller, size, pool, *address);
  return error == kSuccess ? submit(*stream, Marker{}) : error;
}

}  // namespace

GraphMemory::GraphMemory(Driver& of, CUdeviceptr place)
    : driver(of), address(place), id(of.allocations.at(place).id), system_lives(system().lives) {}
std::shared_ptr<GraphMemory> GraphMemory::of(Driver& driver, CUdeviceptr place) {
  auto made = std::make_shared<GraphMemory>(driver, place);
  driver.allocations.at(place).graph_memory = made;
  return made;
}
GraphMemory::~GraphMemory() {
  if (system_lives.expired()) return;
  const auto found = driver.allocations.find(address);
  if (found == driver.allocations.end() || found->second.id != id) return;  // its context has gone
  if (found->second.given) {
    found->second.of_graph = false;
  } else {
    free_allocation(driver, address);
  }
}

CUresult allocate_for_graph(const Caller& caller, std::uint64_t size_bytes, CUdeviceptr& address) {
  const CUresult error = allocate_device(caller, size_bytes, nullptr, address);
  if (error == kSuccess) caller.driver->allocations.at(address).of_graph = true;
  return error;
}

Pool* find_pool(Driver& driver, Pool* handle) {
  const auto is_it = [handle](const auto& one) { return one.get() == handle; };
  if (std::any_of(driver.default_pools.begin(), driver.default_pools.end(), is_it)) return handle;
  return driver.pools.find(handle);
}

CUresult cuDeviceGetDefaultMemPool(Pool** pool, CUdevice device) {
  Caller caller;
  if (const CUresult error = with_pools(device, caller)) return error;
  if (pool == nullptr) return kInvalidValue;
  *pool = default_pool(*caller.driver, device);
  return kSuccess;
}

CUresult cuDeviceGetMemPool(Pool** pool, CUdevice device) {
  Caller caller;
  if (const CUresult error = with_pools(device, caller)) return error;
  if (pool == nullptr) return kInvalidValue;
  *pool = caller.driver->current_pools[static_cast<std::size_t>(device)];
  return kSuccess;
}

CUresult cuDeviceSetMemPool(CUdevice device, Pool* pool) {
  Caller caller;
  if (const CUresult error = with_pools(device, caller)) return error;
  if (find_pool(*caller.driver, pool) == nullptr || pool->ordinal != device) return kInvalidValue;
  caller.driver->current_pools[static_cast<std::size_t>(device)] = pool;
  return kSuccess;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size, Stream* stream) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  const CUdevice device = caller.context->ordinal;
  default_pool(*caller.driver, device);
  return allocate(caller, address, size, caller.driver->current_pools[static_cast<std::size_t>(device)], stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t size, Pool* pool, Stream* stream) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (find_pool(*caller.driver, pool) == nullptr) return kInvalidValue;
  return allocate(caller, address, size, pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, Stream* handle) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  const auto found = caller.driver->allocations.find(address);
  if (found == caller.driver->allocations.end() || found->second.kind != MemoryKind::kDevice) {
    return not_to_free(*caller.driver, address);
  }
  if (stream->capture != nullptr) {
    if (!found->second.of_graph) return kInvalidValue;
    const Graph* graph = stream->capture->graph.get();
    if (graph != nullptr && has_free(*graph, address)) return kInvalidValue;  // as documented: once in a graph
    return record_memory(*stream, 2, address);
  }
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  if (found->second.of_graph) {
    if (!found->second.given) return kInvalidValue;  // no launch has given it
    // Where its graph goes before, it is there until its turn comes.
    const CUresult error = submit(*stream, Action{[kept = found->second.graph_memory.lock()] {}});
    found->second.given = error != kSuccess;
    return error;
  }
  return submit(*stream, Action([driver = caller.driver, address] { free_allocation(*driver, address); }));
}

CUresult cuMemPoolCreate(Pool** pool, const CUmemPoolProps* properties) {
  constexpr int kPinned = 1, kOnDevice = 1;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (pool == nullptr || properties == nullptr || properties->type != kPinned) return kInvalidValue;
  if (properties->location.type != kOnDevice || properties->handle_types != 0) {
    return refuse("cuMemPoolCreate of memory that is not a device's own, or is to be shared");
  }
  const int ordinal = properties->location.id;
  if (find_device(*caller.driver, ordinal) == nullptr) return kInvalidDevice;
  *pool = caller.driver->pools.add(std::make_unique<Pool>(Pool{.ordinal = ordinal}));
  return kSuccess;
}

CUresult cuMemPoolDestroy(Pool* pool) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (caller.driver->pools.find(pool) == nullptr) return kInvalidValue;  // the default one stays
  for (auto& [address, allocation] : caller.driver->allocations) {
    if (allocation.pool == pool) allocation.pool = nullptr;
  }
  for (std::size_t device = 0; device < caller.driver->current_pools.size(); ++device) {
    Pool*& current = caller.driver->current_pools[device];
    if (current == pool) current = default_pool(*caller.driver, static_cast<CUdevice>(device));
  }
  caller.driver->pools.remove(pool);
  return kSuccess;
}

// The model's pools keep nothing that is not used.
CUresult cuMemPoolTrimTo(Pool* pool, std::size_t) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  return find_pool(*caller.driver, pool) != nullptr ? kSuccess : kInvalidValue;
}

CUresult cuMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
  constexpr int kLastReuse = 3, kThreshold = 4;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (find_pool(*caller.driver, pool) == nullptr || value == nullptr || attribute < 1) return kInvalidValue;
  if (attribute <= kLastReuse) return kSuccess;  // hints: nothing is reused, so that all of them hold
  if (attribute != kThreshold) return refuse("cuMemPoolSetAttribute of attribute " + std::to_string(attribute));
  std::memcpy(&pool->threshold_bytes, value, sizeof(pool->threshold_bytes));
  return kSuccess;
}

CUresult cuMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (find_pool(*caller.driver, pool) == nullptr || value == nullptr) return kInvalidValue;
  const auto write = [value](const auto& what) {
    std::memcpy(value, &what, sizeof(what));
    return kSuccess;
  };
  switch (attribute) {
    case 1:
    case 2:
    case 3:
      return write(1);
    case 4:
      return write(pool->threshold_bytes);
    case 5:
    case 7:
      return write(pool->used_bytes);  // reserved, used
    case 6:
    case 8:
      return write(pool->high_bytes);
    default:
      return refuse("cuMemPoolGetAttribute of attribute " + std::to_string(attribute));
  }
}

}  // namespace meshbed::sim::cuda
