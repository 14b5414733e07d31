// Device memory for adapters: dma-bufs (cuMemGetHandleForAddressRange). In a simulated cluster the descriptor is the
// process's, and ibv_reg_dmabuf_mr accepts it if the adapter's driver supports dma-bufs; bytes that are written there
// become visible with the delay of sim/verbs/posted_writes.h. A program that runs alone has no adapter, and is refused.

#include <unistd.h>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t size, int type,
                                       unsigned long long flags) {
  constexpr int kDmaBuf = 1;
  constexpr unsigned long long kByPcie = 1;  // as every adapter here reaches a GPU
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (!host().has_neighbours()) return refuse("cuMemGetHandleForAddressRange");
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (handle == nullptr || type != kDmaBuf || (flags & ~kByPcie) != 0) return kInvalidValue;
  if (size == 0 || size % page_bytes != 0 || address % page_bytes != 0) return kInvalidValue;
  const Allocation* found = find_allocation(*caller.driver, address, 1);
  if (found == nullptr) return kInvalidValue;
  if (found->kind != MemoryKind::kDevice && found->kind != MemoryKind::kMapped) {
    return refuse("cuMemGetHandleForAddressRange of memory that is not the process's on a device");
  }
  // An allocation is followed by nothing in its last page.
  const std::uint64_t offset_bytes = address - found->address;
  if (size > found->buffer->size_bytes - offset_bytes) {
    if (bytes_at(*caller.driver, address, size) == nullptr) return kInvalidValue;
    return refuse("cuMemGetHandleForAddressRange of several mappings");
  }
  const int descriptor = host().export_dma_buf(caller.driver->process, *found->buffer, offset_bytes, size);
  if (descriptor < 0) return refuse("cuMemGetHandleForAddressRange of another process's memory");
  *static_cast<int*>(handle) = descriptor;
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
