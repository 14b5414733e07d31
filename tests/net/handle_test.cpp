// The 128 bytes between listen() and connect().
#include "plugin/net/wire/handle.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/net/addresses.h"

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

TEST_CASE("the layout is big-endian and fixed: these bytes are what another version would meet") {
  const HandleBytes bytes = encoded(sample());
  CHECK(std::vector(bytes.begin(), bytes.begin() + 8) == std::vector<std::uint8_t>{'M', 'S', 'H', 'B', 1, 0, 1, 2});
  CHECK(std::vector(bytes.begin() + 24, bytes.begin() + 28) == std::vector<std::uint8_t>{0x9c, 0xbb, 12, 0});
  CHECK(std::vector(bytes.begin() + 32, bytes.begin() + 38) == std::vector<std::uint8_t>{1, 24, 192, 168, 101, 1});
  CHECK(handle_token(bytes) == 0);
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
