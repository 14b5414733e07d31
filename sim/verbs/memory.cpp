#include "sim/verbs/memory.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

constexpr unsigned kGenerationBits = 8;
constexpr std::uint32_t slot_of(std::uint32_t key) { return (key >> kGenerationBits) - 1; }  // key 0 is never valid
constexpr std::uint32_t key_of(std::uint32_t slot, std::uint8_t generation) {
  return ((slot + 1) << kGenerationBits) | generation;
}

constexpr unsigned kAccessSupported = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING;
constexpr std::uint64_t kPageBytes = 4096;

/// Is there memory at all these addresses? msync(2): ENOMEM where some is not mapped; MS_ASYNC does nothing else.
bool mapped(std::uint64_t address, std::uint64_t length) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = address / page_bytes * page_bytes;
  return ::msync(reinterpret_cast<void*>(begin), address + length - begin, MS_ASYNC) == 0;
}

/// 0 where Linux lets a region have these.
int check_access(System& system, unsigned access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) return EINVAL;  // Linux ib_check_mr_access, of a device that has none
  if ((access & ~kAccessSupported) != 0) {                  // windows, zero-based addresses
    return refuse(system, fmt::format("ibv_reg_mr with access flags {:#x}", access & ~kAccessSupported));
  }
  const bool remote_writes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  return remote_writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;  // ibv_reg_mr(3)
}

int add_region(System& system, MemoryRegion region, std::uint32_t& key) {
  key = system.memory.add(region);
  if (key == 0) return ENOMEM;
  ++region.domain->users;
  return 0;
}

}  // namespace

std::uint32_t MemoryTable::add(const MemoryRegion& region) {
  std::uint32_t slot = 0;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    if (slots_.size() == static_cast<std::size_t>(kMemoryRegionsMax)) return 0;
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  const std::uint8_t generation = slots_[slot].generation;
  slots_[slot] = region;
  slots_[slot].generation = generation;
  return key_of(slot, generation);
}

void MemoryTable::remove(std::uint32_t key) {
  MemoryRegion& region = slots_[slot_of(key)];
  region.domain = nullptr;
  region.device.reset();
  ++region.generation;
  free_.push_back(slot_of(key));
}

MemoryRegion* MemoryTable::find(std::uint32_t key) {
  const std::uint32_t slot = slot_of(key);
  if (slot >= slots_.size()) return nullptr;
  MemoryRegion& region = slots_[slot];
  return region.domain != nullptr && key == key_of(slot, region.generation) ? &region : nullptr;
}

Span MemoryTable::locate(std::uint32_t key, const ProtectionDomain& domain, std::uint64_t iova, std::uint32_t length,
                         unsigned access) {
  const MemoryRegion* region = find(key);
  if (region == nullptr || region->domain != &domain || (region->access & access) != access) return {};
  const std::uint64_t offset = iova - region->iova;
  if (iova < region->iova || offset > region->length || length > region->length - offset) return {};
  return {reinterpret_cast<char*>(region->address + offset), length, region};
}

std::vector<std::uint32_t> MemoryTable::keys_of(const Context& context) const {
  std::vector<std::uint32_t> keys;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const MemoryRegion& region = slots_[slot];
    if (region.domain != nullptr && region.domain->context == &context) keys.push_back(key_of(slot, region.generation));
  }
  return keys;
}

bool spans_of(MemoryTable& memory, const ProtectionDomain& domain, const BackendSge* sges, std::uint32_t count,
              unsigned access, SpanList& list) {
  list.count = 0;
  for (std::uint32_t index = 0; index < count; ++index) {
    const BackendSge& sge = sges[index];
    if (sge.length == 0) continue;
    const Span span = memory.locate(sge.lkey, domain, sge.address, sge.length, access);
    if (span.bytes == nullptr) return false;
    list.spans[list.count++] = span;
  }
  return true;
}

void copy_spans(System& system, const Adapters& adapters, const SpanList& from, const SpanList& to,
                std::uint64_t bytes) {
  for (std::uint32_t index = 0; index < from.count; ++index)
    system.posted_writes.pushed_by_read(adapters.source, from.spans[index]);
  const Span* source = from.spans;
  const Span* target = to.spans;
  std::uint32_t source_offset = 0, target_offset = 0;
  while (bytes > 0) {
    const std::uint64_t piece =
        std::min({bytes, std::uint64_t{source->length - source_offset}, std::uint64_t{target->length - target_offset}});
    const Span place{target->bytes + target_offset, static_cast<std::uint32_t>(piece), target->region};
    if (is_device(place)) {
      system.posted_writes.post(adapters.target, place, source->bytes + source_offset);
    } else {
      // memmove: both lists may lie in one buffer where a queue pair is connected within a rank.
      std::memmove(place.bytes, source->bytes + source_offset, piece);
    }
    bytes -= piece;
    source_offset += static_cast<std::uint32_t>(piece);
    target_offset += static_cast<std::uint32_t>(piece);
    if (source_offset == source->length) ++source, source_offset = 0;
    if (target_offset == target->length) ++target, target_offset = 0;
  }
}

int alloc_pd(System& system, Context& context, std::uint32_t& handle) {
  handle = system.domains.next();
  ProtectionDomain& domain = system.domains.add(std::make_unique<ProtectionDomain>());
  domain.handle = handle;
  domain.context = &context;
  return 0;
}

int dealloc_pd(System& system, ProtectionDomain& domain) {
  if (domain.users != 0) return EBUSY;
  system.domains.remove(domain.handle);
  return 0;
}

int reg_mr(System& system, ProtectionDomain& domain, std::uint64_t address, std::uint64_t length, std::uint64_t iova,
           unsigned access, std::uint32_t& key) {
  if (length == 0 || address + length < address || iova + length < iova) return EINVAL;
  if (const int error = check_access(system, access)) return error;
  MemoryRegion region{.domain = &domain, .address = address, .length = length, .iova = iova, .access = access};
  if (auto device = find_device_memory(address, length)) {
    // Linux pins pages of the process; only a peer memory client knows whose pages these are: EFAULT without one.
    const models::PortRef port = domain.context->port;
    if (!system.world.cluster().at(port.node).peer_memory) return EFAULT;
    region.address = reinterpret_cast<std::uint64_t>(device->bytes) + (address - device->address);
    region.device = std::move(device);
  } else if (!mapped(address, length)) {
    return EFAULT;  // as Linux if it cannot pin the memory (ib_umem_get)
  }
  return add_region(system, std::move(region), key);
}

int reg_dmabuf_mr(System& system, ProtectionDomain& domain, const DmaBufRange& range, unsigned access,
                  std::uint32_t& key) {
  // Checked in Linux's order (uverbs_std_types_mr.c, ib_umem_dmabuf_get): the driver, the offsets, the descriptor, its
  // size. So a call without a descriptor shows whether the driver supports dma-bufs.
  if (!nic_of(system, domain.context->port).dma_buf) return EOPNOTSUPP;
  if (range.offset % kPageBytes != range.iova % kPageBytes) return EINVAL;
  if (const int error = check_access(system, access)) return error;
  if (range.offset + range.length < range.offset || range.iova + range.length < range.iova) return EINVAL;
  DmaBuf buffer;
  if (const int error = find_dma_buf(*domain.context->process, range.fd, buffer)) return error;
  if (range.length == 0 || range.offset + range.length > buffer.size_bytes) return EINVAL;
  const auto bytes = reinterpret_cast<std::uint64_t>(buffer.memory->bytes);
  MemoryRegion region{.domain = &domain,
                      .address = bytes + buffer.offset_bytes + range.offset,
                      .length = range.length,
                      .iova = range.iova,
                      .access = access,
                      .device = std::move(buffer.memory)};
  return add_region(system, std::move(region), key);
}

int dereg_mr(System& system, std::uint32_t key) {
  MemoryRegion* region = system.memory.find(key);
  if (region == nullptr) return EINVAL;
  if (region->device != nullptr) system.posted_writes.finish(*region->device);
  --region->domain->users;
  system.memory.remove(key);
  return 0;
}

}  // namespace meshbed::sim::verbs
