#pragma once
// Fat binaries as nvcc writes them, for tests: containers with PTX and machine code, plain or compressed.

#include <lz4.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sim/cuda/image/fat_binary.h"

namespace meshbed::test {

struct FatPiece {
  bool is_ptx = true;
  std::uint32_t architecture = 0;
  std::string text;
  std::uint32_t flags = 0x11;
};

template <typename Number>
void put_number(std::string& bytes, std::size_t offset, Number number) {
  if (bytes.size() < offset + sizeof number) bytes.resize(offset + sizeof number);
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

inline std::string packed_text(const FatPiece& piece) {
  std::string result(4096, '\0');
  if ((piece.flags & 0x8000U) != 0) {
    result.resize(ZSTD_compress(result.data(), result.size(), piece.text.data(), piece.text.size(), 3));
  } else if ((piece.flags & 0x2000U) != 0) {
    result.resize(static_cast<std::size_t>(LZ4_compress_default(
        piece.text.data(), result.data(), static_cast<int>(piece.text.size()), static_cast<int>(result.size()))));
  } else {
    result = piece.text + '\0';
  }
  return result;
}

inline std::string fat_container(const std::vector<FatPiece>& pieces) {
  std::string body;
  for (const FatPiece& piece : pieces) {
    const bool compressed = (piece.flags & 0xA000U) != 0;
    std::string payload = packed_text(piece);
    const std::size_t bytes = payload.size();
    payload.resize((bytes + 7) / 8 * 8);
    std::string header(80, '\0');
    put_number<std::uint16_t>(header, 0, piece.is_ptx ? 1 : 2);
    put_number<std::uint16_t>(header, 2, 0x101);
    put_number<std::uint32_t>(header, 4, 80);
    put_number<std::uint64_t>(header, 8, payload.size());
    put_number<std::uint32_t>(header, 16, compressed ? static_cast<std::uint32_t>(bytes) : 0);
    put_number<std::uint32_t>(header, 28, piece.architecture);
    put_number<std::uint32_t>(header, 40, piece.flags);
    put_number<std::uint64_t>(header, 56, compressed ? piece.text.size() : 0);
    body += header + payload;
  }
  std::string head(16, '\0');
  put_number<std::uint32_t>(head, 0, sim::cuda::kContainerMagic);
  put_number<std::uint16_t>(head, 4, 1);
  put_number<std::uint16_t>(head, 6, 16);
  put_number<std::uint64_t>(head, 8, body.size());
  return head + body;
}

}  // namespace meshbed::test
