#include "sim/cuda/image/relocatable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/cuda/image/fat_binary.h"
#include "sim/cuda/image/image_memory.h"

namespace meshbed::sim::cuda {
namespace {

/// NVIDIA's own part, which nvcc adds to every such program: what a kernel calls to launch kernels. For some
/// architectures it has PTX, and that asks for functions which only NVIDIA's driver has.
bool is_device_runtime(const std::string& text) { return text.find("__CNPRT_VERSION_NUMBER__") != std::string::npos; }

/// A function of the CUDA runtime that kernels may call: C's names, which no function of a program's in C++ has.
bool is_runtime_call(const std::string& name) { return name.rfind("cuda", 0) == 0 || name.rfind("__cudaCDP", 0) == 0; }

}  // namespace

Result<std::vector<FatEntry>> choose_parts(const void* const* parts, std::uint32_t device_architecture) {
  std::vector<FatEntry> chosen;
  constexpr std::size_t kMostParts = 65536;
  for (std::size_t index = 0;; ++index) {
    const auto in_part = [index](const Error& error) {
      return Error{.code = error.code, .text = fmt::format("part {}: {}", index + 1, error.text)};
    };
    if (index == kMostParts || readable_bytes(parts + index, sizeof(void*)) < sizeof(void*)) {
      return in_part({.code = ErrorCode::kInvalidArgument, .text = "the list of parts has no end"});
    }
    if (parts[index] == nullptr) return chosen;
    const auto container = container_at(parts[index]);
    if (!container) return in_part(container.error());
    const auto entries = read_fat_binary(*container);
    if (!entries) return in_part(entries.error());
    // Else it has machine code alone.
    if (const auto entry = choose_entry(*entries, device_architecture)) chosen.push_back(*entry);
  }
}

Result<std::vector<std::string>> unpack_parts(std::span<const FatEntry> entries) {
  std::vector<std::string> texts;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    auto text = unpack_ptx(entries[index]);
    if (!text) {
      return Error{.code = text.error().code, .text = fmt::format("PTX {}: {}", index + 1, text.error().text)};
    }
    if (!is_device_runtime(*text)) texts.push_back(std::move(*text));
  }
  return texts;
}

std::string say_incomplete(const std::vector<std::string>& missing, std::uint32_t device_architecture) {
  constexpr std::size_t kNamesTold = 8;
  const std::string advice = fmt::format(
      "compile every file and library of it with -gencode arch=compute_{0},code=compute_{0}, or without "
      "-rdc=true",
      device_architecture);
  if (missing.empty()) {
    return fmt::format(
        "relocatable device code (nvcc -rdc=true), and no part of it has PTX for a device of compute capability "
        "{}.{}; the simulated device runs PTX alone: {}",
        device_architecture / 10, device_architecture % 10, advice);
  }
  const std::size_t told = std::min(missing.size(), kNamesTold);
  const std::string names =
      fmt::format("{}{}", fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(told), ", "),
                  missing.size() > told ? fmt::format(" and {} more", missing.size() - told) : "");
  const bool is_dynamic = std::any_of(missing.begin(), missing.end(), is_runtime_call);
  return fmt::format(
      "relocatable device code (nvcc -rdc=true) that is not complete: no part's PTX defines {}; {}", names,
      is_dynamic ? "the CUDA runtime in kernels (dynamic parallelism) is not implemented: build the program without it"
                 : "the simulated device runs PTX alone: " + advice);
}

}  // namespace meshbed::sim::cuda
