#pragma once
// Fat binaries as nvcc writes them (docs/cuda.md), for libraries that tests make without it.

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace meshbed::test {

struct DeviceCode {
  bool is_ptx = true;
  std::uint32_t architecture = 0;
};

/// A container as docs/cuda.md has it, one text or cubin of eight bytes an entry.
inline std::string fat_binary(const std::vector<DeviceCode>& entries) {
  constexpr std::uint32_t kEntryBytes = 64 + 8;
  std::string bytes(16 + entries.size() * kEntryBytes, '\0');
  const auto put = [&bytes](std::size_t at, auto number) { std::memcpy(bytes.data() + at, &number, sizeof number); };
  put(0, std::uint32_t{0xBA55ED50U});
  put(4, std::uint16_t{1});
  put(6, std::uint16_t{16});
  put(8, std::uint64_t{entries.size() * kEntryBytes});
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const std::size_t at = 16 + index * kEntryBytes;
    put(at, static_cast<std::uint16_t>(entries[index].is_ptx ? 1 : 2));
    put(at + 4, std::uint32_t{64});
    put(at + 8, std::uint64_t{8});
    put(at + 28, entries[index].architecture);
  }
  return bytes;
}

/// C source that puts one into `section` of its object.
inline std::string fat_binary_source(const std::vector<DeviceCode>& entries,
                                     const std::string& section = ".nv_fatbin") {
  std::string numbers;
  for (const char byte : fat_binary(entries)) numbers += fmt::format("{},", static_cast<unsigned char>(byte));
  return fmt::format("__attribute__((section(\"{}\"), used)) static const unsigned char device_code[] = {{{}}};\n",
                     section, numbers);
}

}  // namespace meshbed::test
