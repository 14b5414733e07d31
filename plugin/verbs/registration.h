#pragma once
// Registered memory: buffers that a connection owns, and a cache for those that a user registers.
//
// The same pointer is registered on many connections of a device (NCCL: three times a connection), so the cache shares
// one page-aligned ibv_mr among all that it covers and counts them. Memory is deregistered with its last user: so an
// address that is freed and allocated again refers to the new memory, if the user deregisters before freeing, which
// NCCL does.
//
// Relaxed ordering, which lets the adapter's PCIe writes pass one another, is asked for where the device has it, as
// NCCL's own transport does. What holds with it: a completion is written without that bit and passes no write before
// it, so host memory is whole when the completion is there (PCI Express Base Specification, 2.4.1). One write of the
// adapter is never torn, so LL's 8-byte pairs of data and flag, and LL128's lines of 128 bytes, stay whole; neither
// protocol relies on an order between them. GPU memory needs a flush, with or without it: see
// plugin/net/link/flusher.h.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::verbs {

struct MrDeleter {
  void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
};
using MrPointer = std::unique_ptr<ibv_mr, MrDeleter>;

/// Another driver's memory, as a descriptor that any driver may import: Linux Documentation/driver-api/dma-buf.rst.
struct DmaBuf {
  int descriptor = -1;  // the caller's
  std::uint64_t offset_bytes = 0;
};

/// A descriptor of our own; -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  static Descriptor duplicate_of(int number);
  int number() const { return number_; }

 private:
  int number_ = -1;
};

/// One ibv_mr over [start, end), whole pages unless it is of a dma-buf; keys are valid for every address within.
struct Registration {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  bool of_dma_buf = false;
  std::uint64_t offset_bytes = 0;  // of `start` in the dma-buf
  Descriptor dma_buf;              // where it was to be kept
  MrPointer mr;
  unsigned users = 0;  // guarded by the cache's mutex

  std::uint32_t lkey() const { return mr->lkey; }
  std::uint32_t rkey() const { return mr->rkey; }
  bool covers(const void* address, std::size_t size_bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= start && at <= end && size_bytes <= end - at;
  }
};

/// Per device; any thread. Must outlive what it handed out.
class RegistrationCache {
 public:
  RegistrationCache(ibv_pd* pd, bool relaxed_ordering) : pd_(pd), relaxed_ordering_(relaxed_ordering) {}

  /// Registers [address, address + size_bytes), or shares a registration that covers it. Errors carry errno and what
  /// to check (ENOMEM: the locked-memory limit).
  Result<Registration*> acquire(void* address, std::size_t size_bytes);
  /// As above, of memory that `source` stands for and that is called [address, address + size_bytes) in work requests.
  /// `keep`: a descriptor of it lives as long as the registration, so that other devices can register it too.
  Result<Registration*> acquire(void* address, std::size_t size_bytes, const DmaBuf& source, bool keep);
  void release(Registration* registration);
  std::size_t size() const;

 private:
  Registration* share(std::uintptr_t start, std::uintptr_t end, bool of_dma_buf);
  Result<MrPointer> register_pages(std::uintptr_t start, std::size_t size_bytes);
  Result<MrPointer> register_dma_buf(std::uintptr_t start, std::size_t size_bytes, const DmaBuf& source);

  ibv_pd* pd_;
  bool relaxed_ordering_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Registration>> registrations_;
};

/// Whether the device's driver registers dma-bufs at all.
bool knows_dma_buf(ibv_pd* pd);

/// Zeroed, page-aligned memory that a connection owns and both ends write into. Never relaxed ordering: its readers
/// poll it.
class RegisteredBuffer {
 public:
  static Result<RegisteredBuffer> create(ibv_pd* pd, std::size_t size_bytes);

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  bool exists() const { return memory_ != nullptr; }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_.get()); }
  std::uint32_t lkey() const { return mr_->lkey; }
  std::uint32_t rkey() const { return mr_->rkey; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  MrPointer mr_;  // after the memory, so that it goes first
};

}  // namespace meshbed::verbs
