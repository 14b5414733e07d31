#pragma once
// Memory: the registrations with the net plugin, by connection. Service thread only.
//
// A region the caller registered, and our staging memory, stay registered until they are dropped. A buffer that just
// comes along with an operation is registered for that operation only and dropped when the next one begins: host memory
// may be unmapped and mapped again at the same address in between, and a cached registration would then still point at
// the old pages. A GPU's memory is dropped as soon as its operation has ended, because it cannot be freed earlier.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/transport/transport.h"
#include "plugin/cuda/driver.h"

namespace meshbed::coll {

/// How the net plugin is given the memory of one GPU: as dma-buf, by its address, or where the first fails so.
struct GpuAccess {
  const cuda::Driver& driver;
  cuda::CUcontext context = nullptr;
  bool by_dma_buf = false, by_address = false;
};

class MemoryTable {
 public:
  explicit MemoryTable(NetTable& net) : net_(net) {}
  ~MemoryTable() { drop_all(); }
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Keeps [data, data + size_bytes) registered, from its first use on a connection until drop().
  void keep(void* data, std::uint64_t size_bytes);
  /// False where no region kept begins at `data`.
  bool drop(const void* data);
  /// The registration of that memory on `comm`: of a kept region that holds it, or one for this operation. `gpu`: whose
  /// it is; nullptr: the host's.
  Result<void*> handle_of(void* comm, void* data, std::uint64_t size_bytes, const GpuAccess* gpu = nullptr);
  /// Why a GPU's memory could not be registered since it was last asked.
  std::optional<Error> take_refusal() { return std::exchange(refusal_, std::nullopt); }

  void drop_temporary();
  void drop_all();

 private:
  struct Region {
    char* begin;
    std::uint64_t size_bytes;
    bool temporary;
    std::vector<std::pair<void*, void*>> handles;  // (comm, registration): a few, one per connection that used it
  };
  Region* find(const void* data, std::uint64_t size_bytes);
  void deregister(Region& region);
  Result<void*> register_host(void* comm, const Region& region);
  Result<void*> register_gpu(void* comm, const Region& region, const GpuAccess& gpu);

  NetTable& net_;
  std::vector<Region> regions_;  // a handful: linear search
  std::optional<Error> refusal_;
};

}  // namespace meshbed::coll
