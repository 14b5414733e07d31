#pragma once
// Memory: what is registered with the net plugin, for which connection. Service thread only.
//
// A region the caller registered, and our staging memory, stay registered until they are dropped. A buffer that just
// comes along with an operation is registered for that operation only and dropped when the next one begins: host memory
// may be unmapped and mapped again at the same address in between, and a cached registration would then still point at
// the old pages.

#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/transport/transport.h"

namespace meshbed::coll {

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
  /// The registration of that memory on `comm`: of a kept region that holds it, or one for this operation.
  Result<void*> handle_of(void* comm, void* data, std::uint64_t size_bytes);

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

  NetTable& net_;
  std::vector<Region> regions_;  // a handful: linear search
};

}  // namespace meshbed::coll
