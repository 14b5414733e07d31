// The rank announcement's bytes.
#include "plugin/net/connect/rank_announcement.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/net/addresses.h"
#include "tests/support/layout.h"

namespace rank_announcement_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

using Buffer = std::array<std::uint8_t, kDiscoveryMessageLargestBytes>;

RankAnnouncement sample() {
  return {.key = {.communicator = 0x0102030405060708, .ranks = 0x11121314, .nodes = 0x1516},
          .node = 0x99aabbccddeeff00,
          .process = 0x21222324,
          .sequence = 0x31323334,
          .ranks_here = 0x4142,
          .stand = Stand::kYes,
          .done = true,
          .mesh = 0x5152535455565758,
          .rules = kTunerRules,
          .hops = 1,
          .hop_limit = 4,
          .addresses = test::as_peer({test::nic("a0", {"192.168.100.1/24", "fd00:1::1/64"})})};
}

std::span<const std::uint8_t> encode(const RankAnnouncement& call, Buffer& buffer) {
  buffer.fill(0xee);
  return std::span<const std::uint8_t>(buffer).first(encode_announcement(call, buffer));
}

/// The sample with one byte changed and a valid checksum, decoded.
Result<RankAnnouncement> decode_with(std::size_t at, std::uint8_t value) {
  Buffer buffer;
  const std::size_t size = encode(sample(), buffer).size();
  buffer[at] = value;
  const std::uint32_t sum = checksum_of(std::span<const std::uint8_t>(buffer).first(size - 4));
  for (std::size_t byte = 0; byte < 4; ++byte) buffer[size - 1 - byte] = static_cast<std::uint8_t>(sum >> (8 * byte));
  return decode_announcement(std::span<const std::uint8_t>(buffer).first(size));
}

}  // namespace

TEST_CASE("a rank announcement says after decoding what it said before encoding") {
  Buffer buffer;
  for (const Stand stand : {Stand::kHere, Stand::kYes, Stand::kNo, Stand::kDoubt, Stand::kComing}) {
    for (const bool done : {false, true}) {
      RankAnnouncement call = sample();
      call.stand = stand;
      call.done = done;
      const auto decoded = decode_announcement(encode(call, buffer));
      REQUIRE(decoded);
      CHECK(*decoded == call);
    }
  }
}

TEST_CASE("a rank announcement has the layout that its header documents") {
  Buffer buffer;
  const auto bytes = encode(sample(), buffer);
  using test::big_endian;
  CHECK(test::layout_problem("plugin/net/connect/rank_announcement.h", "a rank announcement", bytes,
                             {test::text_field("magic", "MSHR"),
                              big_endian("version", 2, 1),
                              big_endian("stand", 0x81, 1),
                              big_endian("hops", 1, 1),
                              big_endian("hop_limit", 4, 1),
                              big_endian("rules", kTunerRules, 4),
                              big_endian("nodes", 0x1516, 2),
                              big_endian("ranks", 0x11121314, 4),
                              big_endian("communicator", 0x0102030405060708, 8),
                              big_endian("node", 0x99aabbccddeeff00, 8),
                              big_endian("process", 0x21222324, 4),
                              big_endian("sequence", 0x31323334, 4),
                              big_endian("ranks_here", 0x4142, 2),
                              big_endian("mesh", 0x5152535455565758, 8),
                              big_endian("count", 2, 1),
                              {"addresses", {0,    24, 192,  168, 100, 1,  // IPv4
                                             0x80, 64, 0xfd, 0,   0,   1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
                              big_endian("checksum", checksum_of(bytes.first(bytes.size() - 4)), 4)}) == "");
}

TEST_CASE("addresses that do not fit into a rank announcement are left out, and what is left is valid") {
  RankAnnouncement many = sample();
  many.addresses.assign(300, sample().addresses[1]);
  Buffer buffer;
  const auto decoded = decode_announcement(encode(many, buffer));
  REQUIRE(decoded);
  CHECK(decoded->addresses.size() == (kDiscoveryMessageLargestBytes - 58 - 4) / 18);
}

TEST_CASE(
    "what is not exactly a rank announcement is refused: cut, longer, another magic, version, stand or flag, damage") {
  Buffer buffer;
  const std::size_t size = encode(sample(), buffer).size();
  for (std::size_t length = 0; length < buffer.size(); ++length) {
    if (length != size) CHECK_FALSE(decode_announcement(std::span<const std::uint8_t>(buffer).first(length)));
  }
  CHECK(decode_with(6, 2));
  for (const std::size_t at : {0, 4, 38, 39, 55, 56, 57}) CHECK_FALSE(decode_with(at, 0x7e));
  CHECK_FALSE(decode_with(5, 0x85));
  CHECK_FALSE(decode_with(54, 1));  // bytes behind the end
  CHECK_FALSE(decode_with(54, 3));  // cut off
  for (std::size_t at = 0; at < size; ++at) {
    encode(sample(), buffer);
    buffer[at] ^= 0x10;
    CHECK_FALSE(decode_announcement(std::span<const std::uint8_t>(buffer).first(size)));
  }
}

}  // namespace rank_announcement_test
