#pragma once
// Relocatable device code (nvcc -rdc=true): a program's code in parts, one for each source file, which use one
// another's functions and variables. nvcc links their machine code when it links the program; their PTX it leaves
// beside it, for a runtime whose device that machine code does not fit.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "sim/cuda/image/fat_binary.h"

namespace meshbed::sim::cuda {

/// What the program gives the runtime. Source: fatbinary_section.h and crt/link.stub of CUDA 13.0.
struct Wrapper {
  static constexpr std::uint32_t kOfParts = 2;  // the version of one that has any
  std::uint32_t magic = 0, version = 0;
  const void* container = nullptr;     // what was linked, or the only part
  const void* const* parts = nullptr;  // containers, behind the last of which is a null pointer; version 2
  bool has_parts() const { return version == kOfParts && parts != nullptr && *parts != nullptr; }
};

/// The PTX of each part that has any for a device of that architecture. Errors: kInvalidArgument, with the part.
Result<std::vector<FatEntry>> choose_parts(const void* const* parts, std::uint32_t device_architecture);
/// Their texts, but for NVIDIA's own part. Errors: kInvalidArgument, with the text.
Result<std::vector<std::string>> unpack_parts(std::span<const FatEntry> entries);

/// For errors: why code in parts cannot be used, and what to do. `missing`: names that no part's PTX defines; none:
/// there is no PTX at all.
std::string say_incomplete(const std::vector<std::string>& missing, std::uint32_t device_architecture);

}  // namespace meshbed::sim::cuda
