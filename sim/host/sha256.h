#pragma once

#include <cstddef>
#include <string>

namespace meshbed::sim {

/// SHA-256 (FIPS 180-4) of the bytes, as 64 hexadecimal digits.
std::string sha256_hex(const void* data, std::size_t size_bytes);

}  // namespace meshbed::sim
