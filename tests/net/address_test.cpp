// Addresses, subnets, and bytes with bounds.
#include "plugin/net/process/address.h"

#include <doctest/doctest.h>

#include <array>
#include <span>

#include "plugin/net/process/bytes.h"
#include "tests/net/addresses.h"

namespace address_test {

using namespace meshbed;
using namespace meshbed::net;
using test::prefix;

TEST_CASE("two addresses share a subnet when each lies in the other's prefix") {
  struct Row {
    const char* left;
    const char* right;
    int bits;  // -1: none
  };
  const Row rows[] = {
      {"192.168.100.1/24", "192.168.100.2/24", 24},
      {"192.168.100.1/24", "192.168.101.2/24", -1},
      {"10.0.0.1/8", "10.1.0.2/16", -1},  // the /16 does not see 10.0.0.1
      {"10.1.0.1/8", "10.1.0.2/16", 8},
      {"10.0.0.1/31", "10.0.0.2/31", -1},
      {"10.0.0.2/31", "10.0.0.3/31", 31},
      {"10.0.0.1/32", "10.0.0.2/32", -1},
      {"fd00:1::1/64", "fd00:1::2/64", 64},
      {"fd00:1::1/64", "fd00:2::1/64", -1},
      {"fd00::1/128", "fd00::1/128", 128},
      {"192.168.100.1/24", "fd00::1/64", -1},
      {"1.2.3.4/0", "200.2.3.4/0", 0},
      {"10.0.0.129/25", "10.0.0.1/25", -1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.left);
    CAPTURE(row.right);
    const auto bits = shared_bits(prefix(row.left), prefix(row.right));
    CHECK((bits ? static_cast<int>(*bits) : -1) == row.bits);
    CHECK(shared_bits(prefix(row.right), prefix(row.left)) == bits);
  }
}

TEST_CASE("addresses are written as people write them") {
  CHECK(to_text(prefix("192.168.100.7/24")) == "192.168.100.7/24");
  CHECK(subnet_text(prefix("192.168.100.7/24")) == "192.168.100.0/24");
  CHECK(subnet_text(prefix("10.255.3.7/9")) == "10.128.0.0/9");
  CHECK(subnet_text(prefix("fd00:1::abcd/64")) == "fd00:1::/64");
  CHECK(verbs::to_text(gid_of(prefix("192.168.100.1/24").address)) == "0000:0000:0000:0000:0000:ffff:c0a8:6401");
}

TEST_CASE("link-local addresses are known for what they are") {
  CHECK(is_link_local(prefix("169.254.3.4/16").address));
  CHECK(is_link_local(prefix("fe80::1/64").address));
  CHECK_FALSE(is_link_local(prefix("192.168.1.1/24").address));
  CHECK_FALSE(is_link_local(prefix("fd00::1/64").address));
}

TEST_CASE("a socket address survives the way there and back; mapped IPv6 comes back as IPv4") {
  for (const char* text : {"192.168.100.1/24", "fd00::17/64"}) {
    sockaddr_storage storage;
    to_sockaddr({.address = prefix(text).address, .port = 4791}, storage);
    const auto back = from_sockaddr(reinterpret_cast<const sockaddr*>(&storage));
    REQUIRE(back);
    CHECK(back->address == prefix(text).address);
    CHECK(back->port == 4791);
  }
  sockaddr_storage storage;
  to_sockaddr({.address = prefix("::ffff:10.1.2.3/128").address, .port = 1}, storage);
  CHECK(from_sockaddr(reinterpret_cast<const sockaddr*>(&storage))->address == prefix("10.1.2.3/32").address);
  CHECK_FALSE(from_sockaddr(nullptr));
}

TEST_CASE("a prefix is read from its text, and nothing else is") {
  for (const char* text : {"192.168.0.0/16", "0.0.0.0/0", "10.1.2.3/32", "fd00::/8", "::1/128"}) {
    REQUIRE(parse_prefix(text));
    CHECK(to_text(*parse_prefix(text)) == text);
  }
  for (const char* text : {"", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "fd00::/8x",
                           "10.0.0.0/-1", "10.0.0.0/ 8", "localhost/8", "10.0.0.0/300"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_prefix(text));
  }
}

TEST_CASE("a reader that passes the end turns bad, gives zeros and stays bad") {
  const std::array<std::uint8_t, 3> bytes{1, 2, 3};
  ByteReader reader(bytes);
  CHECK(reader.u16() == 0x0102);
  CHECK(reader.u32() == 0);
  CHECK_FALSE(reader.good());
  CHECK(reader.u8() == 0);
  CHECK_FALSE(reader.good());
}

TEST_CASE("a writer never writes past its end") {
  std::array<std::uint8_t, 4> bytes{9, 9, 9, 9};
  ByteWriter writer{std::span(bytes).first(3)};
  writer.u16(0x0102);
  writer.u32(5);
  CHECK_FALSE(writer.good());
  CHECK(bytes == std::array<std::uint8_t, 4>{1, 2, 9, 9});
}

}  // namespace address_test
