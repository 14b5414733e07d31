#include "emu/image/kernel_payload.h"

#include <cstddef>
#include <stdexcept>
#include <string>

namespace meshbed::emu {
namespace {

// Offsets of the setup header.
constexpr std::size_t kSetupSectors = 0x1f1;
constexpr std::size_t kMagic = 0x202;  // "HdrS"
constexpr std::size_t kVersion = 0x206;
constexpr std::size_t kPayloadOffset = 0x248;
constexpr std::size_t kPayloadLength = 0x24c;
constexpr std::size_t kHeaderEnd = 0x250;
constexpr std::size_t kSector = 512;
constexpr std::uint32_t kVersionWithPayload = 0x0208;

// How each format begins.
constexpr std::string_view kXzMagic("\xfd\x37zXZ\0", 6);
constexpr std::string_view kZstdMagic("\x28\xb5\x2f\xfd", 4);
constexpr std::string_view kGzipMagic("\x1f\x8b", 2);

std::uint32_t little_endian(std::string_view image, std::size_t at, int bytes) {
  std::uint32_t value = 0;
  for (int byte = bytes - 1; byte >= 0; --byte) {
    value = value << 8 | static_cast<unsigned char>(image[at + static_cast<std::size_t>(byte)]);
  }
  return value;
}

}  // namespace

KernelPayload find_kernel_payload(std::string_view image) {
  if (image.size() < kHeaderEnd || image.substr(kMagic, 4) != "HdrS") {
    throw std::runtime_error("it is not a bzImage: no boot header");
  }
  if (little_endian(image, kVersion, 2) < kVersionWithPayload) {
    throw std::runtime_error("its boot protocol is older than 2.08 and has no offset of the kernel");
  }
  std::size_t sectors = little_endian(image, kSetupSectors, 1);
  if (sectors == 0) sectors = 4;  // by the boot protocol
  const std::size_t start = (sectors + 1) * kSector + little_endian(image, kPayloadOffset, 4);
  const std::size_t size = little_endian(image, kPayloadLength, 4);
  if (start > image.size() || size > image.size() - start || size < 8) {
    throw std::runtime_error("it is cut off: the kernel that its header names is not in it");
  }
  KernelPayload payload{.compression = Compression::kXz, .bytes = image.substr(start, size)};
  // The kernel's build appends the size of the ELF file, 4 bytes; in gzip they are part of the format.
  const auto begins = [&](std::string_view magic) { return payload.bytes.substr(0, magic.size()) == magic; };
  if (begins(kXzMagic)) {
    payload.bytes.remove_suffix(4);
  } else if (begins(kZstdMagic)) {
    payload.compression = Compression::kZstd;
    payload.bytes.remove_suffix(4);
  } else if (begins(kGzipMagic)) {
    payload.compression = Compression::kGzip;
  } else {
    throw std::runtime_error("its kernel is compressed with neither xz nor zstd nor gzip");
  }
  return payload;
}

}  // namespace meshbed::emu
