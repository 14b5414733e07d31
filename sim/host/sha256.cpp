#include "sim/host/sha256.h"

#include <nettle/sha2.h>

#include <array>
#include <cstdint>

namespace meshbed::sim {

std::string sha256_hex(const void* data, std::size_t size_bytes) {
  constexpr const char* kHex = "0123456789abcdef";
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, size_bytes, static_cast<const std::uint8_t*>(data));
  sha256_digest(&context, digest.size(), digest.data());
  std::string text;
  for (const std::uint8_t byte : digest) text += {kHex[byte >> 4U], kHex[byte & 15U]};
  return text;
}

}  // namespace meshbed::sim
