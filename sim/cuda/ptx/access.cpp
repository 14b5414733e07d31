#include "sim/cuda/ptx/access.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "sim/cuda/ptx/cluster/cluster.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

const char* name_of(Space space) {
  switch (space) {
    case Space::kShared:
      return "shared";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "parameter";
    case Space::kConst:
      return "constant";
    default:
      return "global";
  }
}

Space windowed(std::uint64_t address) {
  switch (address >> kWindowShift) {
    case kSharedWindow >> kWindowShift:
      return Space::kShared;
    case kLocalWindow >> kWindowShift:
      return Space::kLocal;
    case kParamWindow >> kWindowShift:
      return Space::kParam;
    default:
      return Space::kGlobal;
  }
}

void bad_address(Warp& warp, const Instruction& in, std::uint32_t lane, Space space, std::uint64_t address,
                 std::uint64_t bytes, bool write) {
  std::string text = std::string(write ? "writes " : "reads ") + std::to_string(bytes) + " bytes at " +
                     hexadecimal(address) + " of " + name_of(space) + " memory: ";
  if (space == Space::kShared) {
    text += "the block has " + std::to_string(warp.grid->shared_bytes) + " bytes of it";
    if ((address & kRankMask) != 0)
      text += ", the cluster " + std::to_string(warp.grid->cluster_blocks) +
              (warp.grid->cluster_blocks == 1 ? " block" : " blocks");
  } else if (space == Space::kLocal) {
    text += "beyond the thread's stack";
  } else if (space == Space::kParam) {
    text += write ? "parameters cannot be written" : "beyond the kernel's parameters";
  } else {
    text += warp.grid->memory->describe(address);
  }
  fail(warp, in, lane, Fault::Kind::kAddress, text);
}

void misaligned(Warp& warp, const Instruction& in, std::uint32_t lane, std::uint64_t address, std::uint32_t bytes) {
  fail(warp, in, lane, Fault::Kind::kMisaligned,
       "address " + hexadecimal(address) + " is not a multiple of " + std::to_string(bytes));
}

}  // namespace

void lane_addresses(const Warp& warp, const Instruction& in, std::uint64_t* addresses) {
  auto offset = static_cast<std::uint64_t>(in.immediate);
  if (in.kind == kAddressFrame) {
    offset += warp.frame->local_base;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = offset;
    return;
  }
  if (in.a_bytes == 8) {
    const auto* base = lanes_at<std::uint64_t>(warp, in.a);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = base[lane] + offset;
  } else {
    const auto* base = lanes_at<std::uint32_t>(warp, in.a);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      addresses[lane] = static_cast<std::uint32_t>(base[lane] + static_cast<std::uint32_t>(offset));
    }
  }
}

std::byte* resolve_one(Warp& warp, const Instruction& in, std::uint32_t lane, Space space, std::uint64_t address,
                       std::uint64_t bytes, bool write) {
  if (space == Space::kGeneric) {
    space = windowed(address);
    if (space != Space::kGlobal) address &= (std::uint64_t{1} << kWindowShift) - 1;
  }
  if (space == Space::kShared) {
    // Shared memory may be named by its generic address too.
    if (address >> kWindowShift == kSharedWindow >> kWindowShift) address -= kSharedWindow;
    std::uint64_t within = address;
    Block* const block = block_of_address(*warp.block, within);
    if (block != nullptr && within <= warp.grid->shared_bytes && bytes <= warp.grid->shared_bytes - within) {
      return block->shared.data() + within;
    }
    const std::uint64_t offset = within - kReservedShared;
    if (block != nullptr && offset < kReservedBytes && bytes <= kReservedBytes - offset) {
      return block->shared.data() + block->shared.size() - kReservedBytes + offset;
    }
  } else if (space == Space::kLocal) {
    if (address <= warp.local_stride && bytes <= warp.local_stride - address) {
      return warp.local.data() + std::size_t{lane} * warp.local_stride + address;
    }
  } else if (space == Space::kParam) {
    auto& parameters = warp.grid->request.parameters;
    if (!write && address <= parameters.size() && bytes <= parameters.size() - address)
      return parameters.data() + address;
  } else {
    void* found = warp.grid->memory->at(address, bytes, write);
    if (found != nullptr) return static_cast<std::byte*>(found);
    const std::uint64_t offset = address - kWorkspaceWindow;
    const bool is_workspace = offset < kWorkspaceBytes && bytes <= kWorkspaceBytes - offset;
    if (is_workspace && warp.grid->request.cooperative) return warp.grid->workspace.data() + offset;
  }
  bad_address(warp, in, lane, space, address, bytes, write);
  return nullptr;
}

namespace {

/// Of the place that was found last; over the link a place passes once, however many lanes look at it.
void count_bytes(Warp& warp, Space space, std::uint64_t bytes, std::uint64_t link_bytes, bool write) {
  Counts& counts = warp.grid->counts;
  if (space == Space::kShared) counts.shared_bytes += bytes;
  if (space == Space::kGlobal || space == Space::kConst) {
    (write ? counts.global_bytes_written : counts.global_bytes_read) += bytes;
    if (warp.grid->memory->over_link) (write ? counts.link_bytes_written : counts.link_bytes_read) += link_bytes;
  }
}

/// All 32 lanes, at one place or at one row of memory; false: something else, or not wholly within bounds.
bool resolve_row(Warp& warp, std::uint32_t bytes, bool write, Space space, const std::uint64_t* addresses,
                 Access& access) {
  const std::uint64_t first = addresses[0];
  std::uint64_t same = 0, row = 0, expected = first;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    same |= addresses[lane] ^ first;
    row |= addresses[lane] ^ expected;
    expected += bytes;
  }
  if ((same != 0 && row != 0) || (first & (bytes - 1)) != 0) return false;
  const std::uint64_t span = row == 0 ? std::uint64_t{bytes} * kLanes : bytes;
  std::uint64_t address = first;
  if (space == Space::kGeneric) {
    space = windowed(first);
    if (space != windowed(first + span - 1)) return false;
    if (space != Space::kGlobal) address &= (std::uint64_t{1} << kWindowShift) - 1;
  }
  if (space == Space::kShared) {
    if (address > warp.grid->shared_bytes || span > warp.grid->shared_bytes - address) return false;
    access.first = warp.block->shared.data() + address;
  } else if (space == Space::kGlobal || space == Space::kConst) {
    access.first = static_cast<std::byte*>(warp.grid->memory->at(address, span, write));
    if (access.first == nullptr) return false;
  } else {
    return false;  // of local memory each lane has its own
  }
  access.space = space;
  access.pattern = row == 0 ? Access::Pattern::kRow : Access::Pattern::kSame;
  count_bytes(warp, space, std::uint64_t{bytes} * kLanes, span, write);
  return true;
}

}  // namespace

bool resolve_pattern(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write,
                     Access& access) {
  std::uint64_t addresses[kLanes];
  lane_addresses(warp, in, addresses);
  Space space = static_cast<Space>(in.space);
  if (lanes == kAllLanes && resolve_row(warp, bytes, write, space, addresses, access)) return true;
  access.pattern = Access::Pattern::kScattered;
  const auto first_lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
  std::uint64_t lowest = addresses[first_lane];
  std::uint64_t highest = lowest;
  std::uint64_t joined = 0;
  each_of(lanes, [&](std::uint32_t lane) {
    lowest = std::min(lowest, addresses[lane]);
    highest = std::max(highest, addresses[lane]);
    joined |= addresses[lane];
  });
  if ((joined & (bytes - 1)) != 0) {
    each_active(lanes, [&](std::uint32_t lane) {
      if ((addresses[lane] & (bytes - 1)) != 0) misaligned(warp, in, lane, addresses[lane], bytes);
    });
    return false;
  }
  if (space == Space::kGeneric && windowed(lowest) == windowed(highest)) {
    space = windowed(lowest);
    if (space != Space::kGlobal) {
      const std::uint64_t window = lowest >> kWindowShift << kWindowShift;
      lowest -= window;
      highest -= window;
      for (std::uint64_t& address : addresses) address -= window;
    }
  }
  access.space = space;
  const std::uint64_t all_bytes = std::uint64_t{count_lanes(lanes)} * bytes;
  if (space == Space::kShared || space == Space::kLocal) {
    const bool shared = space == Space::kShared;
    const std::uint64_t size = shared ? warp.grid->shared_bytes : warp.local_stride;
    if (highest <= size && bytes <= size - highest) {
      std::byte* base = shared ? warp.block->shared.data() : warp.local.data();
      const std::size_t stride = shared ? 0 : warp.local_stride;
      each_of(lanes, [&](std::uint32_t lane) { access.at[lane] = base + lane * stride + addresses[lane]; });
      count_bytes(warp, space, all_bytes, all_bytes, write);
      return true;
    }
  } else if (space == Space::kGlobal || space == Space::kConst) {
    // One question for all lanes, where they look at one allocation.
    const std::uint64_t span = highest - lowest + bytes;
    auto* base = highest - lowest < (std::uint64_t{1} << 40U)
                     ? static_cast<std::byte*>(warp.grid->memory->at(lowest, span, write))
                     : nullptr;
    if (base != nullptr) {
      each_of(lanes, [&](std::uint32_t lane) { access.at[lane] = base + (addresses[lane] - lowest); });
      count_bytes(warp, space, all_bytes, all_bytes, write);
      return true;
    }
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    access.at[lane] = resolve_one(warp, in, lane, space, addresses[lane], bytes, write);
    if (access.at[lane] == nullptr) return false;
  }
  count_bytes(warp, space, all_bytes, all_bytes, write);
  return true;
}

bool resolve(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write, Access& access) {
  if (!resolve_pattern(warp, in, lanes, bytes, write, access)) return false;
  if (access.pattern == Access::Pattern::kScattered) return true;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) access.at[lane] = access.of(lane, bytes);
  access.pattern = Access::Pattern::kScattered;
  return true;
}

namespace {

/// Of the first lane, which speaks for all.
std::uint64_t address_of(const Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
  const std::uint64_t base =
      in.a_bytes == 8 ? lanes_at<std::uint64_t>(warp, in.a)[lane] : lanes_at<std::uint32_t>(warp, in.a)[lane];
  return base + static_cast<std::uint64_t>(in.immediate);
}

}  // namespace

void note_far_word(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint64_t bytes, std::uint64_t value) {
  const std::uint64_t address = address_of(warp, in, lanes);
  const auto found = std::find_if(warp.far_words.begin(), warp.far_words.end(),
                                  [address](const FarWord& word) { return word.address == address; });
  if (found != warp.far_words.end()) {
    *found = {address, bytes, value, ++warp.far_looks};
  } else if (warp.far_words.size() < kFarWords) {
    warp.far_words.push_back({address, bytes, value, ++warp.far_looks});
  }
}

Reach reach_of(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const LaunchRequest& request = warp.grid->request;
  if (request.far_ps == 0 || in.kind == kAddressFrame) return Reach::kNear;
  const std::uint64_t address = address_of(warp, in, lanes);
  Space space = static_cast<Space>(in.space);
  if (space == Space::kGeneric) space = windowed(address);
  if (space != Space::kGlobal || !warp.grid->memory->is_far(address)) return Reach::kNear;
  if (std::exchange(warp.paid_far, false)) return Reach::kFar;
  warp.waits_far = warp.pays_far = true;
  warp.far_until_ps = request.now_ps() + request.far_ps;
  warp.event = true;
  --warp.position;
  return Reach::kNotYet;
}

}  // namespace meshbed::sim::ptx
