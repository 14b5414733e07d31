#pragma once
// A fat binary as nvcc 13.0 writes it, field by field, without the library that reads them: programs made by hand use
// it, too, and NVIDIA's own runtime is to take them.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace meshbed::test {

struct FatEntryBytes {
  bool is_ptx = true;                     // else machine code
  std::uint32_t architecture = 0;         // 90: sm_90
  std::uint32_t ptx_version = 9U << 16U;  // 9.0
  std::uint32_t flags = 0x11;             // of 64 bits, for Linux; and how it is compressed
  std::string payload{};
  std::uint64_t text_bytes = 0;  // when uncompressed; 0: it is not compressed
};

template <typename Number>
void put_number(std::string& bytes, std::size_t offset, Number number) {
  if (bytes.size() < offset + sizeof number) bytes.resize(offset + sizeof number);
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

inline std::string fat_image(const std::vector<FatEntryBytes>& entries) {
  std::string body;
  for (const FatEntryBytes& entry : entries) {
    std::string payload = entry.payload;
    payload.resize((payload.size() + 7) / 8 * 8);
    std::string header(entry.is_ptx ? 80 : 64, '\0');
    put_number<std::uint16_t>(header, 0, entry.is_ptx ? 1 : 2);
    put_number<std::uint16_t>(header, 2, 0x101);
    put_number(header, 4, static_cast<std::uint32_t>(header.size()));
    put_number<std::uint64_t>(header, 8, payload.size());
    put_number(header, 16, entry.text_bytes != 0 ? static_cast<std::uint32_t>(entry.payload.size()) : 0U);
    put_number(header, 24, entry.is_ptx ? entry.ptx_version : 0x10008U);
    put_number(header, 28, entry.architecture);
    put_number<std::uint64_t>(header, 40, entry.flags);
    put_number(header, 56, entry.text_bytes);
    if (entry.is_ptx) {  // the compiler's options: the place of their record, their own place, and none
      put_number<std::uint32_t>(header, 20, 64);
      put_number<std::uint32_t>(header, 64, 72);
    }
    body += header + payload;
  }
  std::string image(16, '\0');
  put_number<std::uint32_t>(image, 0, 0xBA55ED50);
  put_number<std::uint16_t>(image, 4, 1);
  put_number<std::uint16_t>(image, 6, 16);
  put_number<std::uint64_t>(image, 8, body.size());
  return image + body;
}

}  // namespace meshbed::test
