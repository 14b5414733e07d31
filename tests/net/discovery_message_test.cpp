#include "plugin/net/wire/discovery_message.h"

#include <doctest/doctest.h>

#include <array>

#include "plugin/net/wire/wire.h"
#include "tests/net/addresses.h"
#include "tests/support/layout.h"

namespace discovery_message_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

using Buffer = std::array<std::uint8_t, kDiscoveryMessageLargestBytes>;

DiscoveryMessage sample() {
  return {.type = DiscoveryMessageType::kAnswer,
          .hops = 1,
          .hop_limit = 4,
          .query = 0x1122334455667788,
          .node = 0x99aabbccddeeff00,
          .process = 77,
          .circuit_port = 40'001,
          .addresses = test::as_peer({test::nic("a0", {"192.168.100.1/24", "fd00:1::1/64"})}),
          .in_flight_bytes = {5U << 20U, 0}};
}

std::span<const std::uint8_t> encode(const DiscoveryMessage& discovery_message, Buffer& buffer) {
  buffer.fill(0xee);
  return std::span<const std::uint8_t>(buffer).first(encode_discovery_message(discovery_message, buffer));
}

/// The sample with one byte changed and a valid checksum, decoded.
Result<DiscoveryMessage> decode_with(std::size_t at, std::uint8_t value) {
  Buffer buffer;
  const std::size_t size = encode(sample(), buffer).size();
  buffer[at] = value;
  const std::uint32_t sum = checksum_of(std::span<const std::uint8_t>(buffer).first(size - 4));
  for (std::size_t byte = 0; byte < 4; ++byte) buffer[size - 1 - byte] = static_cast<std::uint8_t>(sum >> (8 * byte));
  return decode_discovery_message(std::span<const std::uint8_t>(buffer).first(size));
}

}  // namespace

TEST_CASE("a discovery message says after decoding what it said before encoding") {
  Buffer buffer;
  const auto decoded = decode_discovery_message(encode(sample(), buffer));
  REQUIRE(decoded);
  CHECK(*decoded == sample());
  const DiscoveryMessage query{
      .type = DiscoveryMessageType::kQuery, .hop_limit = 4, .query = 5, .node = 6, .addresses = {}};
  const auto again = decode_discovery_message(encode(query, buffer));
  REQUIRE(again);
  CHECK(*again == query);
  for (const DiscoveryMessageType type : {DiscoveryMessageType::kInquiry, DiscoveryMessageType::kFound}) {
    const DiscoveryMessage about{
        .type = type, .hop_limit = 4, .query = 5, .node = 6, .addresses = {}, .session = 0x8899aabbccddeeff};
    const auto heard = decode_discovery_message(encode(about, buffer));
    REQUIRE(heard);
    CHECK(*heard == about);
  }
}

TEST_CASE("discovery messages have the layouts that their header documents") {
  constexpr const char* kHeader = "plugin/net/wire/discovery_message.h";
  using test::big_endian;
  Buffer buffer;
  const auto answer = encode(sample(), buffer);
  CHECK(test::layout_problem(
            kHeader, "a QUERY or ANSWER", answer,
            {test::text_field("magic", "MSHQ"),
             big_endian("version", 2, 1),
             big_endian("type", 2, 1),
             big_endian("hops", 1, 1),
             big_endian("hop_limit", 4, 1),
             big_endian("query", 0x1122334455667788, 8),
             big_endian("node", 0x99aabbccddeeff00, 8),
             big_endian("process", 77, 4),
             big_endian("circuit_port", 40'001, 2),
             big_endian("count", 2, 1),
             {"addresses", {0,    24, 192,  168, 100, 1, 0, 0, 0x14, 0,  // IPv4, 5 MiB in flight
                            0x80, 64, 0xfd, 0,   0,   1, 0, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
             big_endian("checksum", checksum_of(answer.first(answer.size() - 4)), 4)}) == "");
  for (const DiscoveryMessageType type : {DiscoveryMessageType::kInquiry, DiscoveryMessageType::kFound}) {
    const auto bytes = encode({.type = type, .addresses = {}, .session = 0x8899aabbccddeeff}, buffer);
    CHECK(test::layout_problem(
              kHeader, "an INQUIRY or FOUND", bytes,
              {big_endian("session", 0x8899aabbccddeeff, 8), big_endian("checksum", checksum_of(bytes.first(40)), 4)},
              24) == "");
    CHECK(bytes[5] == (type == DiscoveryMessageType::kInquiry ? 3 : 4));
  }
  const auto leave = encode({.type = DiscoveryMessageType::kLeave, .process = 0x21222324, .addresses = {}}, buffer);
  CHECK(test::layout_problem(
            kHeader, "a LEAVE", leave,
            {big_endian("process", 0x21222324, 4), big_endian("checksum", checksum_of(leave.first(28)), 4)}, 24) == "");
  CHECK(leave[5] == 5);
}

TEST_CASE("who leaves says who it is, and nothing else") {
  const DiscoveryMessage departure{
      .type = DiscoveryMessageType::kLeave, .hop_limit = 8, .query = 5, .node = 6, .process = 7, .addresses = {}};
  Buffer buffer;
  const auto bytes = encode(departure, buffer);
  CHECK(bytes.size() == kWireNumberBytes);
  const auto decoded = decode_discovery_message(bytes);
  REQUIRE(decoded);
  CHECK(*decoded == departure);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK_FALSE(decode_discovery_message(bytes.first(length)));
  CHECK(decode_with(5, 5).error().text == "a departure with bytes after its end");
}

TEST_CASE("what is in flight travels in whole KiB, as much as there is room for; what is not said is nothing") {
  DiscoveryMessage loaded = sample();
  loaded.in_flight_bytes = {(std::uint64_t{3} << 20U) + 1023, UINT64_MAX};
  Buffer buffer;
  auto decoded = decode_discovery_message(encode(loaded, buffer));
  REQUIRE(decoded);
  CHECK(decoded->in_flight_bytes == std::vector<std::uint64_t>{3U << 20U, std::uint64_t{UINT32_MAX} << 10U});
  loaded.in_flight_bytes.clear();
  decoded = decode_discovery_message(encode(loaded, buffer));
  REQUIRE(decoded);
  CHECK(decoded->in_flight_bytes == std::vector<std::uint64_t>{0, 0});
}

TEST_CASE("addresses that do not fit are left out, and what is left is valid") {
  DiscoveryMessage many = sample();
  many.addresses.assign(300, sample().addresses[1]);
  Buffer buffer;
  const auto decoded = decode_discovery_message(encode(many, buffer));
  REQUIRE(decoded);
  CHECK(decoded->addresses.size() == (kDiscoveryMessageLargestBytes - 36) / 22);
}

TEST_CASE("a UDP port is open to all hosts: a datagram that is not exactly a discovery message is refused") {
  CHECK(decode_with(0, 'X').error().text == "not a discovery message");
  CHECK(decode_with(4, 9).error().text.find("another version") != std::string::npos);
  CHECK(decode_with(5, 0).error().text == "a discovery message of unknown type");
  CHECK(decode_with(5, 6).error().text == "a discovery message of unknown type");
  CHECK(decode_with(5, 3).error().text == "an inquiry about a session with other fields");
  CHECK(decode_with(30, 1).error().text == "a discovery message with bytes after its end");
  CHECK(decode_with(30, 3).error().text.find("cut off") != std::string::npos);
  CHECK(decode_with(31, 1).error().text.find("flags") != std::string::npos);
  CHECK(decode_with(33, 33).error().text.find("prefix") != std::string::npos);
  Buffer buffer;
  const auto bytes = encode(sample(), buffer);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK_FALSE(decode_discovery_message(bytes.first(length)));
  std::vector<std::uint8_t> damaged(bytes.begin(), bytes.end());
  damaged[40] ^= 1U;
  CHECK(decode_discovery_message(damaged).error().text == "a damaged discovery message");
  DiscoveryMessage without_port = sample();
  without_port.circuit_port = 0;
  CHECK(decode_discovery_message(encode(without_port, buffer)).error().text == "an answer without a port");
}

}  // namespace discovery_message_test
