#pragma once
// Memory: protection domains, memory regions and the checks that every access passes.
//
// A key is (slot << 8 | generation): slots are reused, and a key of a region that is gone fails on its generation. The
// local and the remote key of a region are one number, as on most devices; what a peer may do is in the access flags.

#include <cstdint>
#include <memory>
#include <vector>

#include "models/cluster.h"
#include "sim/host/device_memory.h"
#include "sim/verbs/backend.h"

namespace meshbed::sim::verbs {

struct System;
struct Context;

struct ProtectionDomain {
  std::uint32_t handle = 0;
  Context* context = nullptr;
  int users = 0;  // memory regions and queue pairs
};

struct MemoryRegion {
  ProtectionDomain* domain = nullptr;  // nullptr: a free slot
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;  // what `address` is called in work requests
  unsigned access = 0;
  std::shared_ptr<DeviceBuffer> device{};  // nullptr: host memory
  std::uint8_t generation = 0;
};

/// A piece of registered memory. Not initialised by itself: every request has lists of sixteen, and mostly uses one.
struct Span {
  char* bytes;
  std::uint32_t length;
  const MemoryRegion* region;  // of memory that may be a GPU's; valid until the next registration
};

class MemoryTable {
 public:
  /// 0 where no key is left.
  std::uint32_t add(const MemoryRegion& region);
  void remove(std::uint32_t key);
  MemoryRegion* find(std::uint32_t key);
  /// Where `length` bytes at `iova` lie in memory, if the key is valid in `domain`, covers them and allows all of
  /// `access`; no bytes otherwise.
  Span locate(std::uint32_t key, const ProtectionDomain& domain, std::uint64_t iova, std::uint32_t length,
              unsigned access);
  std::vector<std::uint32_t> keys_of(const Context& context) const;
  std::size_t live() const { return slots_.size() - free_.size(); }
  std::size_t peak() const { return slots_.size(); }

 private:
  std::vector<MemoryRegion> slots_;
  std::vector<std::uint32_t> free_;
};

/// A scatter or gather list as it lies in memory. Filled by spans_of; never larger than a work request's own list.
struct SpanList {
  Span spans[kBackendMaxSge];
  std::uint32_t count = 0;
};

/// False where a key, its bounds or its access flags do not hold. Empty elements are not checked (they touch nothing).
bool spans_of(MemoryTable& memory, const ProtectionDomain& domain, const BackendSge* sges, std::uint32_t count,
              unsigned access, SpanList& list);
/// Where the first `bytes` of `from` go, when they are written to `to`; both must hold as many. `source` and `target`
/// are adapters. Host memory has them at once, a GPU's memory later: posted_writes.h.
struct Adapters {
  models::PortRef source, target;
};
void copy_spans(System& system, const Adapters& adapters, const SpanList& from, const SpanList& to,
                std::uint64_t bytes);

int alloc_pd(System& system, Context& context, std::uint32_t& handle);
int dealloc_pd(System& system, ProtectionDomain& domain);
int reg_mr(System& system, ProtectionDomain& domain, std::uint64_t address, std::uint64_t length, std::uint64_t iova,
           unsigned access, std::uint32_t& key);
struct DmaBufRange {
  std::uint64_t offset = 0;  // within the dma-buf
  std::uint64_t length = 0;
  std::uint64_t iova = 0;
  int fd = -1;
};
/// EOPNOTSUPP where the adapter's driver does not know dma-bufs.
int reg_dmabuf_mr(System& system, ProtectionDomain& domain, const DmaBufRange& range, unsigned access,
                  std::uint32_t& key);
int dereg_mr(System& system, std::uint32_t key);

}  // namespace meshbed::sim::verbs
