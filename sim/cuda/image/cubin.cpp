#include "sim/cuda/image/cubin.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace meshbed::sim::cuda {
namespace {

constexpr std::string_view kText = ".text.";
/// Names may lie within one another, so that a small table of sections can stand for many long ones.
constexpr std::size_t kNameBytesMost = 64 << 10U, kNamesBytesMost = 64 << 20U;

Error broken_cubin(const std::string& what) { return {.code = ErrorCode::kInvalidArgument, .text = "cubin: " + what}; }

}  // namespace

Result<std::set<std::string>> kernels_of_cubin(std::span<const std::byte> image) {
  const auto fits = [&](std::uint64_t at, std::uint64_t bytes) {
    return at <= image.size() && bytes <= image.size() - at;
  };
  Elf64_Ehdr header{};
  if (!fits(0, sizeof header)) return broken_cubin("its ELF header is cut");
  std::memcpy(&header, image.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return broken_cubin("not an ELF file of 64 bits with sections");
  }
  if (header.e_shstrndx >= header.e_shnum)
    return broken_cubin(fmt::format("no section {} for names", header.e_shstrndx));
  if (!fits(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) {
    return broken_cubin(fmt::format("{} sections at byte {} are more than there is", header.e_shnum, header.e_shoff));
  }
  const auto section = [&](std::size_t index) {
    Elf64_Shdr found;
    std::memcpy(&found, image.data() + header.e_shoff + index * sizeof(found), sizeof(found));
    return found;
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  if (!fits(names.sh_offset, names.sh_size)) {
    return broken_cubin(
        fmt::format("{} bytes of names at byte {} are more than there is", names.sh_size, names.sh_offset));
  }
  const std::string_view texts(reinterpret_cast<const char*>(image.data()) + names.sh_offset, names.sh_size);
  std::set<std::string> kernels;
  std::size_t bytes = 0;
  for (std::size_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr one = section(index);
    if (one.sh_name >= texts.size())
      return broken_cubin(fmt::format("the name of section {} is beyond the names", index));
    if (texts.compare(one.sh_name, kText.size(), kText) != 0) continue;
    const std::string_view rest = texts.substr(one.sh_name + kText.size(), kNameBytesMost);
    const std::string_view name = rest.substr(0, rest.find('\0'));
    bytes += name.size();
    if (bytes > kNamesBytesMost)
      return broken_cubin(fmt::format("names of kernels of more than {} bytes", kNamesBytesMost));
    kernels.emplace(name);
  }
  return kernels;
}

}  // namespace meshbed::sim::cuda
