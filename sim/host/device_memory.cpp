#include "sim/host/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "sim/host/host_state.h"

namespace meshbed::sim {
namespace {

class DmaBufFile : public File {
 public:
  DmaBufFile(Process& owner, DmaBuf exported) : File(owner), buffer(std::move(exported)) {}
  short events() const override { return POLLIN | POLLOUT; }  // no fences are pending, dma-buf.rst
  off_t seek(off_t offset, int whence) override {
    // Linux dma_buf_llseek: only to the ends, which returns the size.
    if (offset != 0 || whence == SEEK_CUR) return -EINVAL;
    return whence == SEEK_END ? static_cast<off_t>(buffer.size_bytes) : 0;
  }
  std::string describe() const override { return "a dma-buf"; }
  bool can_be_passed() const override { return true; }

  DmaBuf buffer;
};

}  // namespace

DeviceBuffer::DeviceBuffer(Process& process, std::uint64_t wanted_bytes) : owner(process) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  size_bytes = (wanted_bytes + page_bytes - 1) / page_bytes * page_bytes;
  const int memory = ::memfd_create("device memory", MFD_CLOEXEC);
  if (memory < 0 || ::ftruncate(memory, static_cast<off_t>(size_bytes)) != 0) {
    if (memory >= 0) ::close(memory);
    throw std::bad_alloc();
  }
  void* hardware = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  void* program = ::mmap(nullptr, size_bytes, PROT_NONE, MAP_SHARED, memory, 0);
  ::close(memory);
  if (hardware != MAP_FAILED) bytes = static_cast<char*>(hardware);
  if (program != MAP_FAILED) address = reinterpret_cast<std::uint64_t>(program);
  if (hardware == MAP_FAILED || program == MAP_FAILED) {
    if (bytes != nullptr) ::munmap(bytes, size_bytes);
    if (address != 0) ::munmap(program, size_bytes);
    throw std::bad_alloc();
  }
}

DeviceBuffer::~DeviceBuffer() {
  ::munmap(bytes, size_bytes);
  ::munmap(reinterpret_cast<void*>(address), size_bytes);
}

std::shared_ptr<DeviceBuffer> allocate_device_memory(Process& owner, std::uint64_t size_bytes) {
  auto buffer = std::make_shared<DeviceBuffer>(owner, size_bytes);
  host().device_buffers[buffer->address] = buffer;
  return buffer;
}

void free_device_memory(const DeviceBuffer& buffer) { host().device_buffers.erase(buffer.address); }

std::shared_ptr<DeviceBuffer> find_device_memory(std::uint64_t address, std::uint64_t length) {
  const auto& buffers = host().device_buffers;
  auto next = buffers.upper_bound(address);
  if (next == buffers.begin()) return nullptr;
  const auto& buffer = (--next)->second;
  const std::uint64_t offset = address - buffer->address;
  return offset <= buffer->size_bytes && length <= buffer->size_bytes - offset ? buffer : nullptr;
}

int export_dma_buf(const DmaBuf& buffer) {
  Process& owner = buffer.memory->owner;
  return state_of(owner).descriptors.add(std::make_shared<DmaBufFile>(owner, buffer), true);
}

int find_dma_buf(Process& process, int descriptor, DmaBuf& buffer) {
  const auto file = state_of(process).descriptors.find(descriptor);
  if (file == nullptr) return EBADF;
  const auto* exported = dynamic_cast<const DmaBufFile*>(file.get());
  if (exported == nullptr) return EINVAL;
  buffer = exported->buffer;
  return 0;
}

}  // namespace meshbed::sim
