// Memory that processes of one machine share, each of which has simulated GPUs of its own: the bytes are one file's.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "sim/cuda/process/process_host.h"
#include "sim/cuda/process/shared_buffer.h"

namespace meshbed::sim::cuda {

namespace {

/// At the end of the file, behind the memory itself.
struct Trailer {
  char magic[16] = {};
  std::uint64_t size_bytes = 0, tag = 0;
};
constexpr char kMagic[16] = "meshbed memory";

bool read_trailer(int file, const struct ::stat& status, Trailer& trailer) {
  if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(sizeof(Trailer))) return false;
  const off_t at = status.st_size - static_cast<off_t>(sizeof(Trailer));
  if (::pread(file, &trailer, sizeof trailer, at) != static_cast<ssize_t>(sizeof trailer)) return false;
  return std::memcmp(trailer.magic, kMagic, sizeof kMagic) == 0 && trailer.size_bytes == static_cast<std::uint64_t>(at);
}

}  // namespace

std::shared_ptr<SharedBuffer> map_buffer(std::uint64_t size_bytes, int file) {
  auto buffer = std::make_shared<SharedBuffer>();
  const int kind = file < 0 ? MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
  void* bytes = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, kind, file, 0);
  if (bytes == MAP_FAILED) return nullptr;
  void* address = ::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    ::munmap(bytes, size_bytes);
    return nullptr;
  }
  buffer->address = reinterpret_cast<std::uint64_t>(address);
  buffer->size_bytes = size_bytes;
  buffer->bytes = static_cast<char*>(bytes);
  return buffer;
}

std::shared_ptr<Buffer> ProcessHost::add_buffer(std::uint64_t size_bytes, int file) {
  const std::shared_ptr<SharedBuffer> buffer = map_buffer(size_bytes, file);
  if (buffer == nullptr) {
    if (file >= 0) ::close(file);
    throw std::bad_alloc();
  }
  buffer->file = file;
  memory_[buffer->address] = size_bytes;
  struct ::stat status {};
  if (file >= 0 && ::fstat(file, &status) == 0) shared_[{status.st_dev, status.st_ino}] = buffer;
  return buffer;
}

std::shared_ptr<Buffer> ProcessHost::allocate_shareable(ProcessKey, std::uint64_t size_bytes, std::uint64_t tag) {
  Trailer trailer{.size_bytes = size_bytes, .tag = tag};
  std::memcpy(trailer.magic, kMagic, sizeof kMagic);
  const int file = ::memfd_create("meshbed device memory", MFD_CLOEXEC);
  if (file < 0) throw std::bad_alloc();
  const auto wanted = static_cast<ssize_t>(sizeof trailer);
  if (::pwrite(file, &trailer, sizeof trailer, static_cast<off_t>(size_bytes)) != wanted) {
    ::close(file);
    throw std::bad_alloc();
  }
  return add_buffer(size_bytes, file);
}

int ProcessHost::export_memory(const Buffer& memory) {
  const auto* shared = dynamic_cast<const SharedBuffer*>(&memory);
  return shared != nullptr && shared->file >= 0 ? ::fcntl(shared->file, F_DUPFD_CLOEXEC, 0) : -1;
}

std::shared_ptr<Buffer> ProcessHost::import_memory(int descriptor, std::uint64_t& tag) {
  struct ::stat status {};
  Trailer trailer;
  if (::fstat(descriptor, &status) != 0 || !read_trailer(descriptor, status, trailer)) return nullptr;
  tag = trailer.tag;
  std::erase_if(shared_, [](const auto& one) { return one.second.expired(); });
  if (const auto known = shared_.find({status.st_dev, status.st_ino}); known != shared_.end())
    return known->second.lock();
  const int file = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  return file >= 0 ? add_buffer(trailer.size_bytes, file) : nullptr;
}

}  // namespace meshbed::sim::cuda
