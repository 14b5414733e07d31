#include "plugin/coll/transport/memory.h"

#include <algorithm>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::coll {

void MemoryTable::keep(void* data, std::uint64_t size_bytes) {
  regions_.push_back({static_cast<char*>(data), size_bytes, false, {}});
}

bool MemoryTable::drop(const void* data) {
  const auto found = std::find_if(regions_.begin(), regions_.end(),
                                  [&](const Region& region) { return !region.temporary && region.begin == data; });
  if (found == regions_.end()) return false;
  deregister(*found);
  regions_.erase(found);
  return true;
}

Result<void*> MemoryTable::handle_of(void* comm, void* data, std::uint64_t size_bytes) {
  Region* region = find(data, size_bytes);
  if (region == nullptr) {
    regions_.push_back({static_cast<char*>(data), size_bytes, true, {}});
    region = &regions_.back();
  }
  for (const auto& [owner, handle] : region->handles) {
    if (owner == comm) return handle;
  }
  const std::uint64_t warns = warn_count();
  void* handle = nullptr;
  const int code = net_.register_memory(comm, region->begin, region->size_bytes, &handle);
  if (code != nccl::kNcclSuccess) {
    return Error{ErrorCode::kRemote, Scope::kDevice,
                 "cannot register " + counted(region->size_bytes, "byte") + ": " + explain_net_error(code, warns)};
  }
  region->handles.emplace_back(comm, handle);
  return handle;
}

MemoryTable::Region* MemoryTable::find(const void* data, std::uint64_t size_bytes) {
  const char* begin = static_cast<const char*>(data);
  for (Region& region : regions_) {
    if (begin >= region.begin && begin + size_bytes <= region.begin + region.size_bytes) return &region;
  }
  return nullptr;
}

void MemoryTable::deregister(Region& region) {
  for (const auto& [comm, handle] : region.handles) {
    if (net_.deregister_memory(comm, handle) != nccl::kNcclSuccess) {
      MESHBED_WARN("deregMr failed; the net plugin keeps %llu bytes",
                   static_cast<unsigned long long>(region.size_bytes));
    }
  }
  region.handles.clear();
}

void MemoryTable::drop_temporary() {
  for (Region& region : regions_) {
    if (region.temporary) deregister(region);
  }
  regions_.erase(
      std::remove_if(regions_.begin(), regions_.end(), [](const Region& region) { return region.temporary; }),
      regions_.end());
}

void MemoryTable::drop_all() {
  for (Region& region : regions_) deregister(region);
  regions_.clear();
}

}  // namespace meshbed::coll
