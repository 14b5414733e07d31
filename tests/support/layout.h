#pragma once
// Byte layouts as headers document them, so that a test compares the documented fields with an encoder's bytes.
//
// A header documents a layout as a comment in this form, one field a line:
//   // Layout of NAME: any text
//   //   offset  size  name    meaning
//   //        0     4  magic   "MSHQ"
//   //       32     *  list    any text
//   //       -4     4  sum     any text
// Offsets and sizes are in bytes. A negative offset counts from the end; "*" is a size that the content decides.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::test {

/// The expected content of one field.
struct FieldBytes {
  std::string name;
  std::vector<std::uint8_t> bytes;
};

/// `value` as `size_bytes` bytes, the most significant one first.
FieldBytes big_endian(std::string name, std::uint64_t value, std::size_t size_bytes);
/// Likewise, the least significant byte first.
FieldBytes little_endian(std::string name, std::uint64_t value, std::size_t size_bytes);
/// `text`, with zeros up to `size_bytes`; 0: without zeros.
FieldBytes text_field(std::string name, std::string_view text, std::size_t size_bytes = 0);

/// Compares `bytes` with the layout that `header` ("plugin/net/wire/handle.h") documents as "Layout of `name`". Every
/// documented field must be in `expected`, in the same order, with the documented size, and its bytes at the documented
/// offset; fields called "zero" are not in `expected` and hold zeros. Fields follow each other without gaps from
/// `first_byte` to the end of `bytes`; a field of size "*" is followed by zeros up to the next one. Returns the first
/// difference; empty: none.
std::string layout_problem(const std::string& header, const std::string& name, std::span<const std::uint8_t> bytes,
                           const std::vector<FieldBytes>& expected, std::size_t first_byte = 0);

}  // namespace meshbed::test
