#pragma once
// ProtobufMessage: writes one message of Protocol Buffers' binary format, field after field, in the order of the calls
// (https://protobuf.dev/programming-guides/encoding: a tag of field number and wire type, then the value). Enough for a
// trace; nothing is read.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshbed::perfetto {

class ProtobufMessage {
 public:
  /// int32, int64, uint32, uint64, bool and enum; negative ones as 64 bits of two's complement.
  ProtobufMessage& number(std::uint32_t field, std::uint64_t value) {
    tag(field, kVarint);
    varint(value);
    return *this;
  }
  ProtobufMessage& fixed64(std::uint32_t field, std::uint64_t value) {
    tag(field, kFixed64);
    for (unsigned shift = 0; shift < 64; shift += 8) text_ += static_cast<char>(value >> shift & 0xffU);
    return *this;
  }
  ProtobufMessage& real(std::uint32_t field, double value) {
    return fixed64(field, std::bit_cast<std::uint64_t>(value));
  }
  /// string, bytes, and a message inside this one.
  ProtobufMessage& bytes(std::uint32_t field, std::string_view value) {
    tag(field, kLengthDelimited);
    varint(value.size());
    text_ += value;
    return *this;
  }
  ProtobufMessage& message(std::uint32_t field, const ProtobufMessage& inner) { return bytes(field, inner.text_); }

  const std::string& text() const { return text_; }
  void clear() { text_.clear(); }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };

  void tag(std::uint32_t field, WireType type) { varint(static_cast<std::uint64_t>(field) << 3U | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>((value & 0x7fU) | 0x80U);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

}  // namespace meshbed::perfetto
