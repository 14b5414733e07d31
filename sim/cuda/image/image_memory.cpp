#include "sim/cuda/image/image_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "sim/cuda/image/fat_binary.h"

namespace meshbed::sim::cuda {
namespace {

Error unreadable(std::string text) { return {.code = ErrorCode::kInvalidArgument, .text = std::move(text)}; }

/// Whether the process can read one byte of each of these places; the count of those before the first that it cannot.
/// process_vm_readv(2) of the own process reads as a debugger does: a place without memory is an error, not a signal.
std::size_t readable_places(std::span<iovec> places) {
  std::array<char, IOV_MAX> bytes{};
  iovec into{.iov_base = bytes.data(), .iov_len = places.size()};
  const ssize_t read = ::process_vm_readv(::getpid(), &into, 1, places.data(), places.size(), 0);
  if (read >= 0) return static_cast<std::size_t>(read);
  // Where the system does not permit the call the image's headers are believed.
  return errno == EFAULT ? 0 : places.size();
}

}  // namespace

std::uint64_t readable_bytes(const void* at, std::uint64_t wanted) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::uint64_t most = std::min({wanted, kImageBytesMost, UINTPTR_MAX - begin});
  std::array<iovec, IOV_MAX> places{};
  for (std::uint64_t offset = 0; offset < most;) {
    // One byte of each page, the first one's where the image begins.
    std::uint64_t next = offset;
    std::size_t count = 0;
    for (; count < places.size() && next < most; ++count) {
      places[count] = {.iov_base = reinterpret_cast<void*>(begin + next), .iov_len = 1};
      next += page - (begin + next) % page;
    }
    const std::size_t readable = readable_places({places.data(), count});
    if (readable < count) {
      return readable == 0 && offset == 0 ? 0 : reinterpret_cast<std::uintptr_t>(places[readable].iov_base) - begin;
    }
    offset = next;
  }
  return most;
}

Result<std::span<const std::byte>> container_at(const void* image) {
  const auto* bytes = static_cast<const std::byte*>(image);
  std::uint32_t magic = 0;
  std::uint16_t header = 0;
  std::uint64_t rest = 0;
  if (readable_bytes(image, kContainerHeaderBytes) < kContainerHeaderBytes) {
    return unreadable("fat binary: no container can be read there");
  }
  std::memcpy(&magic, bytes, sizeof magic);
  if (magic != kContainerMagic) return unreadable("fat binary, byte 0: no container begins here");
  std::memcpy(&header, bytes + 6, sizeof header);
  std::memcpy(&rest, bytes + 8, sizeof rest);
  if (rest > kImageBytesMost - header) {
    return unreadable(
        fmt::format("fat binary, byte 8: the container claims {} bytes; at most {} are read", rest, kImageBytesMost));
  }
  const std::uint64_t size = header + rest;
  const std::uint64_t readable = readable_bytes(image, size);
  if (readable < size) {
    return unreadable(
        fmt::format("fat binary, byte 8: the container claims {} bytes, and {} of them can be read", size, readable));
  }
  return std::span(bytes, size);
}

Result<std::string_view> text_at(const void* image) {
  const auto* text = static_cast<const char*>(image);
  constexpr std::uint64_t kStep = 64 << 10U;
  for (std::uint64_t length = 0; length < kImageBytesMost;) {
    const std::uint64_t readable = readable_bytes(text + length, kStep);
    if (readable == 0)
      return unreadable(fmt::format("a text of which {} bytes can be read, without a zero byte", length));
    if (const void* end = std::memchr(text + length, '\0', readable)) {
      return std::string_view(text, static_cast<const char*>(end));
    }
    length += readable;
  }
  return unreadable(fmt::format("a text without a zero byte in its first {} bytes", kImageBytesMost));
}

std::span<const std::byte> bytes_from(const void* image) {
  return {static_cast<const std::byte*>(image), readable_bytes(image, kImageBytesMost)};
}

Result<std::string> read_image_file(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) {
    return Error{.code = ErrorCode::kSystem, .text = path + ": " + std::strerror(errno), .os_errno = errno};
  }
  if (!S_ISREG(file.st_mode)) return unreadable(path + " is not a regular file");
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (size > kImageBytesMost) {
    return unreadable(fmt::format("{} has {} bytes; at most {} are read", path, size, kImageBytesMost));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string image(size, '\0');
  if (!stream.read(image.data(), static_cast<std::streamsize>(size))) {
    return Error{.code = ErrorCode::kSystem, .text = path + " cannot be read: " + std::strerror(errno)};
  }
  return image;
}

}  // namespace meshbed::sim::cuda
