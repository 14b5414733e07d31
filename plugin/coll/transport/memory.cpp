#include "plugin/coll/transport/memory.h"

#include <algorithm>
#include <string>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/coll/transport/plugin_log.h"
#include "plugin/cuda/memory.h"

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

Result<void*> MemoryTable::handle_of(void* comm, void* data, std::uint64_t size_bytes, const GpuAccess* gpu) {
  Region* region = find(data, size_bytes);
  if (region == nullptr) {
    regions_.push_back({static_cast<char*>(data), size_bytes, true, {}});
    region = &regions_.back();
  }
  for (const auto& [owner, handle] : region->handles) {
    if (owner == comm) return handle;
  }
  const auto handle = gpu == nullptr ? register_host(comm, *region) : register_gpu(comm, *region, *gpu);
  if (handle) region->handles.emplace_back(comm, *handle);
  return handle;
}

Result<void*> MemoryTable::register_host(void* comm, const Region& region) {
  const std::uint64_t warns = warn_count();
  void* handle = nullptr;
  const int code = net_.register_memory(comm, region.begin, region.size_bytes, &handle);
  if (code == nccl::kNcclSuccess) return handle;
  return Error{ErrorCode::kRemote, Scope::kDevice,
               "cannot register " + counted(region.size_bytes, "byte") + ": " + explain_net_error(code, warns)};
}

Result<void*> MemoryTable::register_gpu(void* comm, const Region& region, const GpuAccess& gpu) {
  const std::uint64_t warns = warn_count();
  void* handle = nullptr;
  std::string why;
  if (gpu.by_dma_buf) {
    const cuda::Current current(gpu.driver, gpu.context);
    const auto exported = current.outcome() ? cuda::export_dma_buf(gpu.driver, region.begin, region.size_bytes)
                                            : Result<cuda::DmaBuf>(current.outcome().error());
    if (exported) {
      const int code = net_.register_dma_buf(comm, region.begin, region.size_bytes, exported->offset_bytes,
                                             exported->descriptor.number(), &handle);
      if (code == nccl::kNcclSuccess) return handle;
      why = "as dma-buf: " + explain_net_error(code, warns);
    } else {
      why = exported.error().text;
    }
  }
  if (gpu.by_address) {
    const int code = net_.register_gpu_memory(comm, region.begin, region.size_bytes, &handle);
    if (code == nccl::kNcclSuccess) return handle;
    why += (why.empty() ? "by its address: " : "; by its address: ") + explain_net_error(code, warns);
  }
  refusal_ = Error{ErrorCode::kRemote, Scope::kDevice,
                   "cannot register " + counted(region.size_bytes, "byte") + " of GPU memory: " + why};
  return *refusal_;
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
