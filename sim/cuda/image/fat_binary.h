#pragma once
// Fat binaries: what nvcc puts into a program's section .nv_fatbin, and what cuModuleLoadFatBinary is given: containers
// of PTX texts and cubins for several architectures, plain or compressed. Layout: docs/cuda.md.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::sim::cuda {

inline constexpr std::uint32_t kContainerMagic = 0xBA55ED50U, kWrapperMagic = 0x466243B1U;
inline constexpr std::uint64_t kContainerHeaderBytes = 16;

/// One entry: PTX text, or machine code (a cubin) that nothing here runs.
struct FatEntry {
  bool is_ptx = false;
  std::uint32_t architecture = 0;  // 90: sm_90
  std::uint32_t flags = 0;
  std::uint64_t uncompressed_bytes = 0;  // 0: not compressed
  std::span<const std::byte> payload{};
};

/// The entries of the containers that stand in `image`, one after the other. Errors: kInvalidArgument, with the place.
Result<std::vector<FatEntry>> read_fat_binary(std::span<const std::byte> image);

/// The PTX of the highest architecture that is not above the device's. Errors: kUnsupported where there is none, with
/// what there is and what brings it.
Result<FatEntry> choose_entry(std::span<const FatEntry> entries, std::uint32_t device_architecture);
/// Errors: kInvalidArgument where it cannot be unpacked.
Result<std::string> unpack_ptx(const FatEntry& entry);

}  // namespace meshbed::sim::cuda
