#pragma once
// Fat binaries for tests: containers with PTX and machine code, plain or compressed.

#include <lz4.h>
#include <zstd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/program/fat_image.h"

namespace meshbed::test {

struct FatPiece {
  bool is_ptx = true;
  std::uint32_t architecture = 0;
  std::string text;
  std::uint32_t flags = 0x11;
};

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
  std::vector<FatEntryBytes> entries;
  for (const FatPiece& piece : pieces) {
    const bool compressed = (piece.flags & 0xA000U) != 0;
    entries.push_back({.is_ptx = piece.is_ptx,
                       .architecture = piece.architecture,
                       .flags = piece.flags,
                       .payload = packed_text(piece),
                       .text_bytes = compressed ? piece.text.size() : 0});
  }
  return fat_image(entries);
}

}  // namespace meshbed::test
