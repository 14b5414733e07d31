#pragma once
// Addresses of lanes to bytes of the host: what ld, st, atom and the asynchronous copies share.

#include <array>
#include <cstdint>

#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

/// Where the access of each lane of the mask goes, and in which space all of them lie. Most accesses of programs go to
/// one row of memory, element by element, or all to one place: these two are detected, because a loop over them is a
/// copy.
struct Access {
  enum class Pattern : std::uint8_t { kScattered, kRow, kSame };
  std::array<std::byte*, kLanes> at;  // where kScattered
  std::byte* first = nullptr;         // lane 0's, else; then all lanes of the warp take part
  Pattern pattern = Pattern::kScattered;
  Space space = Space::kGlobal;

  std::byte* of(std::uint32_t lane, std::uint32_t bytes) const {
    return pattern == Pattern::kScattered ? at[lane]
           : pattern == Pattern::kRow     ? first + std::size_t{lane} * bytes
                                          : first;
  }
};

/// The addresses of the instruction's [base + offset], in numbers of its space.
void lane_addresses(const Warp& warp, const Instruction& in, std::uint64_t* addresses);
/// false: a fault, named. Counts the bytes.
bool resolve_pattern(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write,
                     Access& access);
/// The same; every lane's place stands in `at`.
bool resolve(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write, Access& access);
/// One address of the generic space or of `space`; nullptr: a fault, named.
std::byte* resolve_one(Warp& warp, const Instruction& in, std::uint32_t lane, Space space, std::uint64_t address,
                       std::uint64_t bytes, bool write);

/// Where an access goes.
enum class Reach { kNear, kFar, kNotYet /* the warp waits, and does it again */ };
Reach reach_of(Warp& warp, const Instruction& in, std::uint32_t lanes);
/// The first lane has seen `value`, of so many bytes, in far memory (Warp::has_stale_word).
void note_far_word(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint64_t bytes, std::uint64_t value);

}  // namespace meshbed::sim::ptx
