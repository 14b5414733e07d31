// A container: magic (4 bytes), version 1 (2), bytes of its header (2), bytes of what follows (8); then entries of a
// header and a payload each. Fields of an entry's header that are read: kind at 0 (1 PTX, 2 ELF), header bytes at 4,
// payload bytes at 8, compressed bytes at 16, architecture at 28, flags at 40, bytes when uncompressed at 56. Source:
// observed in what nvcc 13.0 writes.

#include "sim/cuda/image/fat_binary.h"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace meshbed::sim::cuda {
namespace {

constexpr std::uint32_t kLz4 = 0x2000, kZstandard = 0x8000;
constexpr std::uint64_t kEntryHeader = 64;
/// More than any program's PTX, or architectures; a header that claims more is broken.
constexpr std::uint64_t kMostTextBytes = 1ULL << 30U;
constexpr std::size_t kMostEntries = 4096, kEntriesNamed = 8;

template <typename Number>
Number number_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

Error broken(std::uint64_t offset, const std::string& what) {
  return {.code = ErrorCode::kInvalidArgument, .text = fmt::format("fat binary, byte {}: {}", offset, what)};
}

/// What so many compressed bytes unpack to at most. LZ4: a length grows by 255 a byte. Zstandard: a block of one
/// repeated byte has four bytes and stands for 128 KiB (RFC 8878, 3.1.1.2).
std::uint64_t unpacked_most(const FatEntry& entry) {
  constexpr std::uint64_t kLz4Ratio = 255, kZstandardBlock = 4, kZstandardBlockMost = 128 << 10U;
  const std::uint64_t packed = entry.payload.size();
  if ((entry.flags & kZstandard) != 0) return (packed / kZstandardBlock + 1) * kZstandardBlockMost;
  return packed * kLz4Ratio;
}

}  // namespace

Result<std::string> unpack_ptx(const FatEntry& entry) {
  const auto* packed = reinterpret_cast<const char*>(entry.payload.data());
  if (entry.uncompressed_bytes == 0) {
    std::string text(packed, entry.payload.size());
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }
  if (entry.uncompressed_bytes > kMostTextBytes) {
    return broken(0, fmt::format("a PTX text of {} bytes", entry.uncompressed_bytes));
  }
  if (entry.uncompressed_bytes > unpacked_most(entry)) {  // or a few bytes would have us take a gigabyte
    return broken(0, fmt::format("the PTX of sm_{} is to be of {} bytes, and comes in {}: it cannot be so long",
                                 entry.architecture, entry.uncompressed_bytes, entry.payload.size()));
  }
  std::string text(entry.uncompressed_bytes, '\0');
  std::size_t written = 0;
  if ((entry.flags & kZstandard) != 0) {
    written = ZSTD_decompress(text.data(), text.size(), packed, entry.payload.size());
    if (ZSTD_isError(written) != 0) {
      return broken(
          0, fmt::format("the PTX of sm_{} does not unpack: {}", entry.architecture, ZSTD_getErrorName(written)));
    }
  } else if ((entry.flags & kLz4) != 0) {
    const int got =
        LZ4_decompress_safe(packed, text.data(), static_cast<int>(entry.payload.size()), static_cast<int>(text.size()));
    if (got < 0) return broken(0, fmt::format("the PTX of sm_{} does not unpack (LZ4)", entry.architecture));
    written = static_cast<std::size_t>(got);
  } else {
    return broken(0, fmt::format("the PTX of sm_{} is compressed in an unknown way (flags 0x{:x})", entry.architecture,
                                 entry.flags));
  }
  text.resize(written);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

Result<std::vector<FatEntry>> read_fat_binary(std::span<const std::byte> image) {
  std::vector<FatEntry> entries;
  std::uint64_t at = 0;
  while (image.size() - at >= kContainerHeaderBytes && number_at<std::uint32_t>(image, at) == kContainerMagic) {
    const auto header = number_at<std::uint16_t>(image, at + 6);
    const auto rest = number_at<std::uint64_t>(image, at + 8);
    if (header < kContainerHeaderBytes || header > image.size() - at || rest > image.size() - at - header) {
      return broken(at, "a container that is longer than the image");
    }
    at += header;
    const std::uint64_t end = at + rest;
    while (end - at >= kEntryHeader) {
      const auto kind = number_at<std::uint16_t>(image, at);
      const auto entry_header = number_at<std::uint32_t>(image, at + 4);
      const auto payload = number_at<std::uint64_t>(image, at + 8);
      const auto compressed = number_at<std::uint32_t>(image, at + 16);
      if (entry_header < kEntryHeader || entry_header > end - at || payload > end - at - entry_header ||
          compressed > payload) {
        return broken(at, "an entry that is longer than its container");
      }
      if (entries.size() == kMostEntries) return broken(at, fmt::format("more than {} entries", kMostEntries));
      constexpr std::uint16_t kPtx = 1;
      entries.push_back({.is_ptx = kind == kPtx,
                         .architecture = number_at<std::uint32_t>(image, at + 28),
                         .flags = number_at<std::uint32_t>(image, at + 40),
                         .uncompressed_bytes = compressed != 0 ? number_at<std::uint64_t>(image, at + 56) : 0,
                         .payload = image.subspan(at + entry_header, compressed != 0 ? compressed : payload)});
      at += entry_header + payload;
    }
    at = std::min<std::uint64_t>((end + 7) / 8 * 8, image.size());
  }
  if (at == 0) return broken(0, "no container begins here");
  return entries;
}

Result<FatEntry> choose_entry(std::span<const FatEntry> entries, std::uint32_t device_architecture) {
  const FatEntry* best = nullptr;
  std::string there;
  std::size_t named = 0;
  for (const FatEntry& entry : entries) {
    if (++named <= kEntriesNamed) {
      there += fmt::format("{}{} of sm_{}", there.empty() ? "" : ", ", entry.is_ptx ? "PTX" : "machine code",
                           entry.architecture);
    } else if (named == kEntriesNamed + 1) {
      there += fmt::format(" and {} more", entries.size() - kEntriesNamed);
    }
    if (!entry.is_ptx || entry.architecture > device_architecture) continue;
    if (best == nullptr || entry.architecture > best->architecture) best = &entry;
  }
  if (best != nullptr) return *best;
  return Error{.code = ErrorCode::kUnsupported,
               .text = fmt::format("no PTX for a device of compute capability {}.{} in the program (there is: {}); the "
                                   "simulated device runs PTX alone: compile with -gencode "
                                   "arch=compute_{},code=compute_{}",
                                   device_architecture / 10, device_architecture % 10,
                                   there.empty() ? "nothing" : there, device_architecture, device_architecture)};
}

}  // namespace meshbed::sim::cuda
