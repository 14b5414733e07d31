#pragma once
// Reads and writes big-endian fields of byte ranges, with bounds: a reader or writer that would pass the end turns bad
// and stays bad, so that a parser checks good() once, at its end.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace meshbed::net {

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::uint8_t> target) : target_(target) {}

  void u8(std::uint8_t value) { put(value, 1); }
  void u16(std::uint16_t value) { put(value, 2); }
  void u32(std::uint32_t value) { put(value, 4); }
  void u64(std::uint64_t value) { put(value, 8); }
  void bytes(std::span<const std::uint8_t> source) {
    if (!take(source.size())) return;
    std::copy(source.begin(), source.end(), target_.begin() + static_cast<std::ptrdiff_t>(at_ - source.size()));
  }
  /// Zeroes up to `offset`.
  void fill_to(std::size_t offset) {
    while (good_ && at_ < offset) u8(0);
  }
  std::size_t offset() const { return at_; }
  bool good() const { return good_; }

 private:
  bool take(std::size_t count) {
    good_ = good_ && count <= target_.size() - at_;
    if (good_) at_ += count;
    return good_;
  }
  void put(std::uint64_t value, unsigned count) {
    if (!take(count)) return;
    for (unsigned byte = 0; byte < count; ++byte) {
      target_[at_ - 1 - byte] = static_cast<std::uint8_t>(value >> (8U * byte));
    }
  }

  std::span<std::uint8_t> target_;
  std::size_t at_ = 0;
  bool good_ = true;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> source) : source_(source) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(get(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(get(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(get(4)); }
  std::uint64_t u64() { return get(8); }
  void bytes(std::span<std::uint8_t> target) {
    if (!take(target.size())) return;
    std::copy_n(source_.begin() + static_cast<std::ptrdiff_t>(at_ - target.size()), target.size(), target.begin());
  }
  void skip_to(std::size_t offset) {
    if (offset > at_) take(offset - at_);
  }
  std::size_t offset() const { return at_; }
  bool good() const { return good_; }

 private:
  bool take(std::size_t count) {
    good_ = good_ && count <= source_.size() - at_;
    if (good_) at_ += count;
    return good_;
  }
  std::uint64_t get(unsigned count) {
    if (!take(count)) return 0;
    std::uint64_t value = 0;
    for (unsigned byte = 0; byte < count; ++byte) value = value << 8U | source_[at_ - count + byte];
    return value;
  }

  std::span<const std::uint8_t> source_;
  std::size_t at_ = 0;
  bool good_ = true;
};

}  // namespace meshbed::net
