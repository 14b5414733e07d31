#pragma once
// Images whose size is not known to their reader: a program passes an address, or a file's name, and the image's own
// headers contain its length. Headers may be wrong. No byte is read here before it is known that the process can read
// it, and nothing longer than kImageBytesMost is read at all, so that a broken image costs bounded time and memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plugin/base/result.h"

namespace meshbed::sim::cuda {

inline constexpr std::uint64_t kImageBytesMost = 1ULL << 30U;

/// Of the `wanted` bytes at `at`, at most kImageBytesMost: how many the process can read, from the first one on.
std::uint64_t readable_bytes(const void* at, std::uint64_t wanted);

/// The fat binary's container at `image`, as long as its header claims. Errors (kInvalidArgument): it cannot be read so
/// far, or is too long.
Result<std::span<const std::byte>> container_at(const void* image);

/// The text at `image` up to its zero byte. Errors: as container_at().
Result<std::string_view> text_at(const void* image);

/// What can be read at `image`, which has no length of its own.
std::span<const std::byte> bytes_from(const void* image);

/// A file's bytes. Errors: kInvalidArgument where it is no regular file or too long; else it cannot be opened.
Result<std::string> read_image_file(const std::string& path);

}  // namespace meshbed::sim::cuda
