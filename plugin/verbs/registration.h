#pragma once
// Registered memory: buffers that a connection owns, and a cache for those that a user registers.
//
// The same pointer is registered on many connections of a device (NCCL: three times a connection), so the cache shares
// one page-aligned ibv_mr among all that it covers and counts them. Nothing stays registered once nobody needs it.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::verbs {

struct MrDeleter {
  void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
};
using MrPointer = std::unique_ptr<ibv_mr, MrDeleter>;

/// One ibv_mr over whole pages [start, end); keys are valid for every address within.
struct Registration {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
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

  /// Registers [address, address + size_bytes), or shares a registration that covers it. Errors carry errno and say
  /// what to look at (ENOMEM: the locked-memory limit).
  Result<Registration*> acquire(void* address, std::size_t size_bytes);
  void release(Registration* registration);
  std::size_t size() const;

 private:
  Result<MrPointer> register_pages(std::uintptr_t start, std::size_t size_bytes);

  ibv_pd* pd_;
  bool relaxed_ordering_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Registration>> registrations_;
};

/// Zeroed, page-aligned memory that a connection owns and both ends write into. Never relaxed ordering: its readers
/// poll it.
class RegisteredBuffer {
 public:
  static Result<RegisteredBuffer> create(ibv_pd* pd, std::size_t size_bytes);

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
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
