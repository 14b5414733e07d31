// The store's frames as bytes.
#include "plugin/coll/store/frame.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>

#include "tests/support/layout.h"

namespace frame_test {

using namespace meshbed;
using namespace meshbed::coll;
using test::little_endian;
using test::text_field;

namespace {

constexpr const char* kHeader = "plugin/coll/store/frame.h";

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("the store's frames have the layouts that their header documents") {
  const std::string frame = encode(Frame{.type = FrameType::kGet, .request = 0x01020304, .body = "key"});
  CHECK(test::layout_problem(
            kHeader, "a frame", bytes_of(frame),
            {little_endian("body_bytes", 3, 4), little_endian("type", static_cast<std::uint64_t>(FrameType::kGet), 1),
             little_endian("request", 0x01020304, 4), text_field("body", "key")}) == "");
  const std::string hello = encode_hello({.world = 0x11121314,
                                          .rank = 0x21222324,
                                          .channels = 0x31323334,
                                          .steps = 0x41424344,
                                          .choice = 0x51525354,
                                          .slice_bytes = 0x6162636465666768});
  CHECK(test::layout_problem(
            kHeader, "a hello's body", bytes_of(hello),
            {text_field("magic", "MMSHCOLL"), little_endian("version", 1, 4), little_endian("world", 0x11121314, 4),
             little_endian("rank", 0x21222324, 4), little_endian("channels", 0x31323334, 4),
             little_endian("steps", 0x41424344, 4), little_endian("choice", 0x51525354, 4),
             little_endian("slice_bytes", 0x6162636465666768, 8)}) == "");
  const std::string pair = encode_pair("key", "value");
  CHECK(test::layout_problem(kHeader, "a kSet's body", bytes_of(pair),
                             {little_endian("key_bytes", 3, 4), text_field("key_value", "keyvalue")}) == "");
}

}  // namespace frame_test
