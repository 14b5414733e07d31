#pragma once
// Addresses of lanes to bytes of the host: what ld, st, atom and the asynchronous copies share.

#include <array>
#include <cstdint>

#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

/// Where the access of each lane of the mask goes, and in which space all of them lie.
struct Access {
  std::array<std::byte*, kLanes> at;
  Space space = Space::kGlobal;
};

/// The addresses of [base + offset] as the instruction says, in numbers of its space.
void lane_addresses(const Warp& warp, const Instruction& in, std::uint64_t* addresses);
/// false: a fault, named. Counts the bytes.
bool resolve(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write, Access& access);
/// One address of the generic space or of `space`; nullptr: a fault, named.
std::byte* resolve_one(Warp& warp, const Instruction& in, std::uint32_t lane, Space space, std::uint64_t address,
                       std::uint64_t bytes, bool write);

}  // namespace meshbed::sim::ptx
