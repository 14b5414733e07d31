// The handshake's messages.
#include "plugin/net/wire/wire.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/net/addresses.h"
#include "tests/support/layout.h"

namespace wire_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

using Buffer = std::array<std::uint8_t, kWireLargestBytes>;

WireEnd sample_end() {
  WireEnd end;
  end.qp_number = 0xabcdef;
  end.psn = 0x123456;
  end.address = test::prefix("192.168.100.1/24");
  end.gid = gid_of(end.address.address);
  end.gid_type = verbs::GidType::kRoceV2;
  end.mtu = 5;
  end.max_recvs = 8;
  end.memory_address = 0x7f0011223344;
  end.memory_rkey = 0x99;
  end.memory_entries = 256;
  end.node = 77;
  end.lane_qp_number = 0x123457;
  end.wants_notice = true;
  end.service_port = 32769;
  end.nic = "rocep1s0f0";
  return end;
}

std::span<const std::uint8_t> encode(const WireMessage& message, Buffer& buffer) {
  buffer.fill(0xee);
  return std::span<const std::uint8_t>(buffer).first(encode_message(message, buffer));
}

WireRoute sample_route() {
  WireRoute route{.origin = 1, .hop = 1, .hop_limit = 4, .onward = {}, .handle = {}};
  route.onward.push_back({.node = 2, .address = test::prefix("192.168.101.2/24"), .port = 4000});
  route.onward.push_back({.node = 3, .address = test::prefix("fd00:1::3/64"), .port = 4001});
  route.handle.fill(0x5a);
  route.resumes = true;
  return route;
}

Result<WireMessage> decode_with(std::size_t at, std::uint8_t value) {
  Buffer buffer;
  const auto bytes = encode({.type = WireType::kRequest, .cookie = 1, .end = sample_end(), .reason = ""}, buffer);
  buffer[at] = value;
  return decode_message(bytes);
}

}  // namespace

TEST_CASE("D18: every message says after decoding what it said before encoding, with a 24-bit QPN and PSN") {
  for (const WireType type :
       {WireType::kRequest, WireType::kReply, WireType::kReady, WireType::kRefuse, WireType::kRoute, WireType::kEnd,
        WireType::kResume, WireType::kResumed, WireType::kGone, WireType::kRail, WireType::kRailed,
        WireType::kLivenessCheck, WireType::kThere, WireType::kMoved}) {
    WireMessage message{.type = type, .cookie = 0xfeedfacecafebeef, .end = {}, .reason = ""};
    if (type == WireType::kRequest || type == WireType::kReply) message.end = sample_end();
    if (type == WireType::kResume || type == WireType::kResumed) message.end = sample_end();
    if (type == WireType::kRail || type == WireType::kRailed || type == WireType::kMoved) message.end = sample_end();
    if (type == WireType::kRail) message.rail = {.number = 5, .sender_qp_link = 0x123456};
    if (type == WireType::kResumed) {
      message.served = 0x123456789abcdef1;
      message.session = 0x123456789abcdef2;
      message.session_port = 40001;
    }
    if (type == WireType::kRefuse || type == WireType::kGone) message.reason = "both prefixes must agree";
    if (type == WireType::kGone) message.served = 1ULL << 40U;
    if (type == WireType::kRoute) message.route = sample_route();
    if (type == WireType::kEnd) message.pieces = 0x123456789abcdef0;
    Buffer buffer;
    const auto decoded = decode_message(encode(message, buffer));
    REQUIRE(decoded);
    CHECK(decoded->type == type);
    CHECK(decoded->cookie == message.cookie);
    CHECK(decoded->end == message.end);
    CHECK(decoded->rail == message.rail);
    CHECK(decoded->reason == message.reason);
    CHECK(decoded->route == message.route);
    CHECK(decoded->pieces == message.pieces);
    CHECK(decoded->served == message.served);
    CHECK(decoded->session == message.session);
    CHECK(decoded->session_port == message.session_port);
  }
}

TEST_CASE("the handshake's messages have the layouts that their header documents") {
  using test::big_endian;
  using test::text_field;
  Buffer buffer;
  const auto problem = [&](const std::string& name, const WireMessage& message,
                           const std::vector<test::FieldBytes>& expected, std::size_t first, std::size_t end = 0) {
    const auto bytes = encode(message, buffer);
    return test::layout_problem("plugin/net/wire/wire.h", name, end > 0 ? bytes.first(end) : bytes, expected, first);
  };
  const auto header = [&](WireType type, std::size_t length) {
    return std::vector<test::FieldBytes>{text_field("magic", "MSHW"),
                                         big_endian("version", kWireVersion, 2),
                                         big_endian("type", static_cast<std::uint64_t>(type), 2),
                                         big_endian("length", length, 4),
                                         big_endian("flags", 0, 4),
                                         big_endian("cookie", 0xfeedfacecafebeef, 8)};
  };
  for (const auto& [type, length] : {std::pair(WireType::kReady, std::size_t{24}),
                                     {WireType::kLivenessCheck, 24},
                                     {WireType::kThere, 24},
                                     {WireType::kRequest, 128},
                                     {WireType::kReply, 128},
                                     {WireType::kResume, 128},
                                     {WireType::kRailed, 128},
                                     {WireType::kMoved, 128},
                                     {WireType::kRail, 136},
                                     {WireType::kResumed, 152},
                                     {WireType::kRefuse, 512},
                                     {WireType::kRoute, 512},
                                     {WireType::kGone, 520},
                                     {WireType::kEnd, 32},
                                     {WireType::kTcpRequest, 64},
                                     {WireType::kTcpReply, 64}}) {
    const WireMessage message{.type = type, .cookie = 0xfeedfacecafebeef, .end = {}, .reason = ""};
    CHECK(encode(message, buffer).size() == length);
    CHECK(problem("every message", message, header(type, length), 0, kWireHeaderBytes) == "");
  }

  const WireEnd end = sample_end();
  CHECK(problem("an end", {.type = WireType::kRequest, .end = end, .reason = ""},
                {big_endian("qp_number", 0xabcdef, 4),
                 big_endian("psn", 0x123456, 4),
                 {"gid", {end.gid.begin(), end.gid.end()}},
                 big_endian("gid_type", 2, 1),
                 big_endian("mtu", 5, 1),
                 big_endian("max_recvs", 8, 1),
                 big_endian("family", 4, 1),
                 big_endian("prefix", 24, 1),
                 big_endian("wants_notice", 1, 1),
                 big_endian("service_port", 32769, 2),
                 {"address", {192, 168, 100, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
                 big_endian("memory_address", 0x7f0011223344, 8),
                 big_endian("memory_rkey", 0x99, 4),
                 big_endian("memory_entries", 256, 4),
                 big_endian("node", 77, 8),
                 text_field("nic", "rocep1s0f0", 28),
                 big_endian("lane_qp_number", 0x123457, 4)},
                24) == "");
  CHECK(
      problem("RESUMED",
              {.type = WireType::kResumed, .end = end, .reason = "", .served = 5, .session = 6, .session_port = 40001},
              {big_endian("served", 5, 8), big_endian("session", 6, 8), big_endian("session_port", 40001, 2)},
              128) == "");
  CHECK(problem("RAIL", {.type = WireType::kRail, .end = end, .reason = "", .rail = {.number = 5, .sender_qp_link = 9}},
                {big_endian("number", 5, 1), big_endian("sender_qp_link", 9, 4)}, 128) == "");
  CHECK(problem("REFUSE and GONE", {.type = WireType::kGone, .end = {}, .reason = "closed", .served = 7},
                {text_field("reason", "closed", 488), big_endian("served", 7, 8)}, 24) == "");
  CHECK(problem("ROUTE", {.type = WireType::kRoute, .end = {}, .reason = "", .route = sample_route()},
                {big_endian("origin", 1, 8),
                 big_endian("hop", 1, 1),
                 big_endian("hop_limit", 4, 1),
                 big_endian("count", 2, 1),
                 big_endian("resumes", 1, 1),
                 {"handle", std::vector<std::uint8_t>(kHandleBytes, 0x5a)},
                 {"relays", {0, 0, 0, 0, 0, 0, 0, 2, 0x0f, 0xa0, 0,    24, 192,  168, 101, 2,  // IPv4
                             0, 0, 0, 0, 0, 0, 0, 3, 0x0f, 0xa1, 0x80, 64, 0xfd, 0,   0,   1,
                             0, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    3}}},
                24) == "");
  CHECK(problem("END", {.type = WireType::kEnd, .end = {}, .reason = "", .pieces = 0x123456789abcdef0},
                {big_endian("pieces", 0x123456789abcdef0, 8)}, 24) == "");
  CHECK(problem("TCP_REQUEST and TCP_REPLY",
                {.type = WireType::kTcpReply, .end = {}, .reason = "", .tcp = {.node = 4, .netdev = "mgmt0"}},
                {big_endian("node", 4, 8), text_field("netdev", "mgmt0", 28)}, 24) == "");
}

TEST_CASE("D22: a route that would pass its hop limit is refused; the limit counts cables") {
  Buffer buffer;
  WireMessage message{.type = WireType::kRoute, .cookie = 1, .end = {}, .reason = "", .route = sample_route()};
  const auto with = [&](std::uint8_t hop, std::uint8_t hop_limit) {
    message.route.hop = hop;
    message.route.hop_limit = hop_limit;
    return decode_message(encode(message, buffer)).has_value();
  };
  // This relay, two more, and the receiver: four cables.
  CHECK(with(1, 4));
  CHECK_FALSE(with(1, 3));
  CHECK_FALSE(with(2, 4));
  CHECK_FALSE(with(0, 4));
}

TEST_CASE("the header contains the length before the rest has come") {
  Buffer buffer;
  encode({.type = WireType::kReply, .cookie = 1, .end = sample_end(), .reason = ""}, buffer);
  CHECK(*message_bytes(std::span<const std::uint8_t>(buffer).first<kWireHeaderBytes>()) == kWireEndBytes);
}

TEST_CASE("D18: a wrong magic, version, type, length or flag is refused at the header") {
  CHECK(decode_with(0, 'X').error().text == "the received bytes are not a Mesh handshake");
  CHECK(decode_with(5, 9).error().text.find("version 9") != std::string::npos);
  CHECK(decode_with(7, 17).error().text.find("unknown type 17") != std::string::npos);
  CHECK(decode_with(11, 9).error().text.find("wrong length") != std::string::npos);
  CHECK(decode_with(15, 9).error().text.find("unknown flags") != std::string::npos);
}

TEST_CASE("D17: every field of an end is checked for its range; nothing silently becomes 0") {
  CHECK_FALSE(decode_with(24, 1));          // QPN beyond 24 bits
  CHECK_FALSE(decode_with(28, 1));          // PSN beyond 24 bits
  CHECK_FALSE(decode_with(48, 3));          // GID type
  CHECK_FALSE(decode_with(49, 0));          // MTU
  CHECK_FALSE(decode_with(49, 6));          // MTU
  CHECK_FALSE(decode_with(50, 9));          // grouped receives
  CHECK_FALSE(decode_with(51, 5));          // address family
  CHECK_FALSE(decode_with(52, 33));         // prefix length
  CHECK(decode_with(60, 200).has_value());  // an address may be any
}

TEST_CASE("a message of any shorter length is refused") {
  Buffer buffer;
  const auto bytes = encode({.type = WireType::kRequest, .cookie = 1, .end = sample_end(), .reason = ""}, buffer);
  for (std::size_t length = 0; length < bytes.size(); ++length) CHECK_FALSE(decode_message(bytes.first(length)));
}

TEST_CASE("text from the network is printable when it reaches a log line") {
  WireMessage message{.type = WireType::kRefuse, .cookie = 1, .end = {}, .reason = "line\nbreak \x1b[31m \xff"};
  Buffer buffer;
  CHECK(decode_message(encode(message, buffer))->reason == "line?break ?[31m ?");
  message.reason = std::string(10'000, 'x');
  CHECK(decode_message(encode(message, buffer))->reason.size() == kWireRefuseBytes - kWireHeaderBytes - 1);
}

}  // namespace wire_test
