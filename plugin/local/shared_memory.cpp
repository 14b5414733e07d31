#include "plugin/local/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "plugin/local/refusal.h"

namespace meshbed::local {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<SharedMemory> map(Descriptor descriptor, std::size_t size_bytes) {
  void* begin = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.number(), 0);
  if (begin == MAP_FAILED) return refused_by_kernel("mmap of shared memory", errno);
  return SharedMemory{.descriptor = std::move(descriptor),
                      .begin = {begin, [size_bytes](void* pages) { munmap(pages, size_bytes); }}};
}

}  // namespace

Result<SharedMemory> create_shared(std::size_t size_bytes) {
  Descriptor descriptor(memfd_create("meshbed-local", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open()) return refused_by_kernel("memfd_create", errno);
  if (ftruncate(descriptor.number(), static_cast<off_t>(size_bytes)) != 0) {
    return refused_by_kernel("ftruncate of a memfd", errno);
  }
  if (fcntl(descriptor.number(), F_ADD_SEALS, kSeals) != 0) return refused_by_kernel("F_ADD_SEALS of a memfd", errno);
  return map(std::move(descriptor), size_bytes);
}

Result<SharedMemory> map_shared(Descriptor descriptor, std::size_t size_bytes) {
  struct stat status {};
  const bool whole = fstat(descriptor.number(), &status) == 0 && status.st_size == static_cast<off_t>(size_bytes) &&
                     (fcntl(descriptor.number(), F_GET_SEALS) & kSeals) == kSeals;
  if (!whole) return refuse(ErrorCode::kRemote, "the peer's shared memory is not as it should be: another version?");
  return map(std::move(descriptor), size_bytes);
}

}  // namespace meshbed::local
