// The 128 bytes between listen() and connect().
#include "plugin/net/wire/handle.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/net/addresses.h"
#include "tests/support/layout.h"

namespace handle_test {

using namespace meshbed;
using namespace meshbed::net;
using test::prefix;

namespace {

using HandleBytes = std::array<std::uint8_t, kHandleBytes>;

Handle sample() {
  Handle handle;
  handle.node = 0x1122334455667788;
  handle.process = 0xdeadbeef;
  handle.cookie = 0x0102030405060708;
  handle.tcp_port = 40123;
  handle.dev = 1;
  handle.addresses = {{.prefix = prefix("192.168.100.1/24"), .nic = 0},
                      {.prefix = prefix("192.168.101.1/24"), .nic = 1}};
  return handle;
}

HandleBytes encoded(const Handle& handle) {
  HandleBytes bytes;
  bytes.fill(0xee);
  encode_handle(handle, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("a handle says after decoding what it said before encoding, the listener's NIC first") {
  Handle expected = sample();
  std::swap(expected.addresses[0], expected.addresses[1]);
  const auto decoded = decode_handle(encoded(sample()));
  REQUIRE(decoded);
  CHECK(*decoded == expected);
}

TEST_CASE("a handle has the layout that its header documents: other versions depend on it") {
  Handle handle = sample();
  handle.addresses.push_back({.prefix = prefix("fd00:1::1/64"), .nic = 2});
  handle.tcp_addresses = {{.prefix = prefix("10.0.0.1/8"), .nic = kTcpNic}};
  handle.not_listed = 3;
  const HandleBytes bytes = encoded(handle);
  using test::big_endian;
  CHECK(test::layout_problem(
            "plugin/net/wire/handle.h", "a handle", bytes,
            {test::text_field("magic", "MSHB"),
             big_endian("version", 1, 1),
             big_endian("flags", 1, 1),
             big_endian("dev", 1, 1),
             big_endian("count", 4, 1),
             big_endian("node", 0x1122334455667788, 8),
             big_endian("cookie", 0x0102030405060708, 8),
             big_endian("tcp_port", 40123, 2),
             big_endian("address_bytes", 3 * 6 + 18, 1),
             big_endian("not_listed", 3, 1),
             big_endian("process", 0xdeadbeef, 4),
             {"addresses", {127, 8,  10,  0,   0,   1,  // TCP
                            1,   24, 192, 168, 101, 1,  // the listener's device first
                            0,   24, 192, 168, 100, 1, 0x82, 64, 0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
             big_endian("checksum", checksum_of(std::span(bytes).first<116>()), 4),
             big_endian("token", 0, 8)}) == "");
}

TEST_CASE("a peer address has the layout that its header documents") {
  std::array<std::uint8_t, 18> bytes{};
  for (const auto& [address, nic, octets] :
       {std::tuple(std::string("192.168.100.1/24"), 5, std::vector<std::uint8_t>{192, 168, 100, 1}),
        {"fd00:1::1/64", 0x85, {0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}}) {
    ByteWriter writer(bytes);
    write_address(writer, {.prefix = prefix(address), .nic = 5});
    CHECK(test::layout_problem("plugin/net/process/peer_address.h", "a peer address",
                               std::span(bytes).first(writer.offset()),
                               {test::big_endian("nic", static_cast<std::uint64_t>(nic), 1),
                                test::big_endian("prefix", prefix(address).length_bits, 1),
                                {"address", octets}}) == "");
  }
}

TEST_CASE("fourteen IPv4 addresses fit; more are counted, and the listener's own NIC is never left out") {
  Handle handle = sample();
  handle.dev = 15;
  handle.addresses.clear();
  for (int nic = 0; nic < 16; ++nic) {
    handle.addresses.push_back(
        {.prefix = prefix("10.0." + std::to_string(nic) + ".1/24"), .nic = static_cast<std::uint8_t>(nic)});
  }
  const auto decoded = decode_handle(encoded(handle));
  REQUIRE(decoded);
  CHECK(decoded->addresses.size() == 14);
  CHECK(decoded->not_listed == 2);
  CHECK(decoded->addresses.front().nic == 15);
}

TEST_CASE("D30: IPv6 addresses travel too, behind the IPv4 ones where room is short") {
  Handle handle = sample();
  handle.addresses = {{.prefix = prefix("fd00::1/64"), .nic = 0}, {.prefix = prefix("10.0.0.1/24"), .nic = 0}};
  const auto decoded = decode_handle(encoded(handle));
  REQUIRE(decoded);
  REQUIRE(decoded->addresses.size() == 2);
  CHECK(decoded->addresses[0].prefix == prefix("10.0.0.1/24"));
  CHECK(decoded->addresses[1].prefix == prefix("fd00::1/64"));
}

TEST_CASE("D18: another version, another plugin and a damaged handle are refused, each with its reason") {
  HandleBytes version = encoded(sample());
  version[4] = 2;
  seal_handle(version);
  CHECK(decode_handle(version).error().text.find("handle version 2") != std::string::npos);
  CHECK(decode_handle(version).error().text.find("same plugin on all nodes") != std::string::npos);

  HandleBytes foreign{};
  CHECK(decode_handle(foreign).error().text.find("not a handle of the Mesh plugin") != std::string::npos);

  for (std::size_t byte = 5; byte < 116; ++byte) {
    HandleBytes damaged = encoded(sample());
    damaged[byte] ^= 0x10;
    CAPTURE(byte);
    REQUIRE_FALSE(decode_handle(damaged));
    CHECK(decode_handle(damaged).error().text.find("checksum") != std::string::npos);
  }
}

TEST_CASE("a list that does not fit its length is refused even where the checksum fits") {
  const auto with = [](std::size_t at, std::uint8_t value) {
    HandleBytes bytes = encoded(sample());
    bytes[at] = value;
    seal_handle(bytes);
    return decode_handle(bytes);
  };
  CHECK_FALSE(with(7, 3));     // one address more than the bytes hold
  CHECK_FALSE(with(7, 1));     // one address less
  CHECK_FALSE(with(26, 255));  // longer than the handle
  CHECK_FALSE(with(33, 33));   // a prefix longer than an IPv4 address
  CHECK_FALSE(with(5, 1));     // flags of the future
}

TEST_CASE("the token is the connecting side's own and does not touch the rest") {
  HandleBytes bytes = encoded(sample());
  set_handle_token(bytes, 0x55aa55aa55aa55aa);
  CHECK(handle_token(bytes) == 0x55aa55aa55aa55aa);
  CHECK(decode_handle(bytes));
}

}  // namespace handle_test
