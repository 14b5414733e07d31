#include "sim/cuda/device_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

std::string describe_address(const Driver& driver, std::uint64_t address) {
  constexpr std::uint64_t kNear = 1ULL << 20U, kNull = 4096;
  if (address < kNull) return "a null pointer";
  // Where freed addresses have been allocated again, an overrun of the new allocation is likelier than a use of the
  // old.
  const auto freed = [&](bool reused) {
    return std::find_if(driver.freed.begin(), driver.freed.end(),
                        [&](const Freed& one) { return one.reused == reused && one.holds(address); });
  };
  const auto as_freed = [&](const Freed& gone) {
    return fmt::format("byte {} of an allocation of {} bytes that was freed", address - gone.address, gone.size_bytes);
  };
  if (const auto gone = freed(false); gone != driver.freed.end()) return as_freed(*gone);
  const auto next = driver.allocations.upper_bound(address);
  if (next != driver.allocations.begin()) {
    const Allocation& before = std::prev(next)->second;
    const std::uint64_t end = before.address + before.size_bytes;
    if (address < end)
      return fmt::format("in the last {} of {} bytes of an allocation", end - address, before.size_bytes);
    if (address - end < kNear) {
      return fmt::format("{} bytes after the end of an allocation of {} bytes at 0x{:x}", address - end,
                         before.size_bytes, before.address);
    }
  }
  if (const auto gone = freed(true); gone != driver.freed.end()) return as_freed(*gone);
  if (next != driver.allocations.end() && next->second.address - address < kNull) {
    return fmt::format("{} bytes before an allocation of {} bytes at 0x{:x}", next->second.address - address,
                       next->second.size_bytes, next->second.address);
  }
  return "no memory of the device; the host's own memory has to be registered";
}

void* DeviceView::at(std::uint64_t address, std::uint64_t bytes, bool) {
  if (changes_ != driver_.allocation_changes) {
    known_ = {};
    changes_ = driver_.allocation_changes;
  }
  for (const Known& one : known_) {
    const std::uint64_t offset = address - one.address;
    if (offset < one.size_bytes && bytes <= one.size_bytes - offset) {
      over_link = one.is_far;
      return one.bytes + offset;
    }
  }
  over_link = false;
  const Allocation* found = find_allocation(driver_, address, bytes);
  if (found == nullptr || found->kind == MemoryKind::kMapped) return bytes_at(driver_, address, bytes);
  over_link = found->kind == MemoryKind::kPinned || found->kind == MemoryKind::kRegistered;
  known_[next_] = {
      .address = found->address, .size_bytes = found->size_bytes, .bytes = found->bytes, .is_far = over_link};
  next_ = (next_ + 1) % known_.size();
  return found->bytes + (address - found->address);
}

bool DeviceView::is_far(std::uint64_t address) {
  if (at(address, 1, false) == nullptr) return false;
  for (const Known& one : known_) {
    if (address - one.address < one.size_bytes) return one.is_far;
  }
  return false;
}

const ptx::Texture* DeviceView::texture(std::uint64_t handle) {
  const auto found = driver_.texels.find(handle);
  if (found == driver_.texels.end()) return nullptr;
  TexelObject& object = found->second;
  // What it was made of may have been freed since, and other memory may be mapped there now.
  auto* bytes = static_cast<std::byte*>(at(object.address, object.size_bytes, false));
  if (bytes != object.texture.bytes && !object.texture.smaller.empty()) return nullptr;
  if (bytes == nullptr) return nullptr;
  object.texture.bytes = bytes;
  return &object.texture;
}

std::string DeviceView::describe(std::uint64_t address) const { return describe_address(driver_, address); }

CUresult fault_code_of(ptx::Fault::Kind kind) {
  switch (kind) {
    case ptx::Fault::Kind::kAddress:
      return kIllegalAddress;
    case ptx::Fault::Kind::kMisaligned:
      return kMisalignedAddress;
    case ptx::Fault::Kind::kAssert:
      return kAssert;
    case ptx::Fault::Kind::kDeadlock:
      return kLaunchTimeout;
    case ptx::Fault::Kind::kStackOverflow:
      return kHardwareStackError;
    case ptx::Fault::Kind::kUnsupported:
      return kNotSupported;
    case ptx::Fault::Kind::kTrap:
    case ptx::Fault::Kind::kBarrier:
      return kLaunchFailed;
  }
  return kLaunchFailed;
}

}  // namespace meshbed::sim::cuda
