#include "models/cluster.h"

#include <doctest/doctest.h>

#include "models/gid_table.h"

namespace cluster_test {

using namespace meshbed::models;

namespace {

IpPrefix prefix(const char* text) {
  const auto parsed = read_prefix(text);
  REQUIRE(parsed.has_value());
  return *parsed;
}

}  // namespace

TEST_CASE("an address and its prefix read back as they were written") {
  for (const char* text : {"192.168.100.1/24", "10.0.0.0/8", "0.0.0.0/0", "255.255.255.255/32", "fd00::1/64", "::/0",
                           "fe80::4d:ff:fe00:1/128"}) {
    CHECK(to_text(prefix(text)) == text);
  }
}

TEST_CASE("what is no prefix is refused, and the error quotes it") {
  const auto error_of = [](const std::string& text) {
    const auto parsed = read_prefix(text);
    REQUIRE_FALSE(parsed.has_value());
    return parsed.error().text;
  };
  CHECK(error_of("192.168.100.1") == "'192.168.100.1' has no prefix length; write ADDRESS/LENGTH");
  CHECK(error_of("192.168.100.1/33") == "'192.168.100.1/33' has a prefix length over 32");
  CHECK(error_of("fd00::1/129") == "'fd00::1/129' has a prefix length over 128");
  CHECK(error_of("192.168.100.1/") == "'192.168.100.1/' has a prefix length that is not a number");
  CHECK(error_of("192.168.100.1/-1") == "'192.168.100.1/-1' has a prefix length that is not a number");
  CHECK(error_of("192.168.100.1/24x") == "'192.168.100.1/24x' has a prefix length that is not a number");
  CHECK(error_of("192.168.100.256/24") == "'192.168.100.256' is not an IPv4 or IPv6 address");
  CHECK(error_of(std::string("1.2.3.4\0x/24", 12)).find("is not an IPv4 or IPv6 address") != std::string::npos);
}

TEST_CASE("a subnet is the address without its host bits, whole bytes or not") {
  CHECK(subnet_text(prefix("192.168.100.77/24")) == "192.168.100.0/24");
  CHECK(subnet_text(prefix("192.168.101.77/23")) == "192.168.100.0/23");
  CHECK(subnet_text(prefix("192.168.100.77/30")) == "192.168.100.76/30");
  CHECK(subnet_text(prefix("192.168.100.77/32")) == "192.168.100.77/32");
  CHECK(subnet_text(prefix("192.168.100.77/0")) == "0.0.0.0/0");
  CHECK(subnet_text(prefix("fd00:1:2:3::5/60")) == "fd00:1:2::/60");
}

TEST_CASE("same_subnet wants equal lengths, overlaps wants different ones, and families never meet") {
  CHECK(same_subnet(prefix("192.168.100.1/24"), prefix("192.168.100.2/24")));
  CHECK_FALSE(same_subnet(prefix("192.168.100.1/24"), prefix("192.168.101.1/24")));
  CHECK_FALSE(same_subnet(prefix("192.168.100.1/24"), prefix("192.168.100.2/16")));
  CHECK(overlaps(prefix("192.168.100.1/24"), prefix("192.168.7.2/16")));
  CHECK(overlaps(prefix("192.168.7.2/16"), prefix("192.168.100.1/24")));
  CHECK_FALSE(overlaps(prefix("192.168.100.1/24"), prefix("192.168.100.2/24")));
  CHECK_FALSE(overlaps(prefix("192.168.100.1/24"), prefix("192.169.0.1/16")));
  CHECK_FALSE(overlaps(prefix("0.0.0.0/0"), prefix("::1/64")));
  CHECK_FALSE(contains(prefix("::/0"), prefix("1.2.3.4/32").address));
  CHECK(contains(prefix("192.168.100.1/25"), prefix("192.168.100.127/32").address));
  CHECK_FALSE(contains(prefix("192.168.100.1/25"), prefix("192.168.100.128/32").address));
}

TEST_CASE("an IPv4 address is mapped into its GID, an IPv6 address is its GID") {
  const RawGid mapped = gid_of(prefix("192.168.100.1/24").address);
  CHECK(mapped == RawGid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 100, 1});
  CHECK(gid_of(prefix("fd00::1/64").address) == RawGid{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("the GID table is Linux's: link-local v1 and v2, then v1 and v2 of each address") {
  const std::vector<IpPrefix> addresses = {prefix("192.168.100.1/24"), prefix("fd00::1/64")};
  const auto table = linux_gid_table({.node = 2, .nic = 1}, addresses);
  REQUIRE(table.size() == 6);
  const RawGid link_local = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0, 0xff, 0xfe, 2, 0, 1};
  CHECK(table[0] == GidEntry{0, GidType::kRoceV1, link_local});
  CHECK(table[1] == GidEntry{1, GidType::kRoceV2, link_local});
  CHECK(table[2] == GidEntry{2, GidType::kRoceV1, gid_of(addresses[0].address)});
  CHECK(table[3] == GidEntry{3, GidType::kRoceV2, gid_of(addresses[0].address)});
  CHECK(table[4] == GidEntry{4, GidType::kRoceV1, gid_of(addresses[1].address)});
  CHECK(table[5] == GidEntry{5, GidType::kRoceV2, gid_of(addresses[1].address)});
}

TEST_CASE("the RDMA MTU is the largest power of two that leaves room for 96 bytes of headers") {
  // iboe_get_mtu: the steps lie at MTU + 96.
  CHECK(rdma_mtu_bytes(9000) == 4096);
  CHECK(rdma_mtu_bytes(4192) == 4096);
  CHECK(rdma_mtu_bytes(4191) == 2048);
  CHECK(rdma_mtu_bytes(4096) == 2048);
  CHECK(rdma_mtu_bytes(1500) == 1024);
  CHECK(rdma_mtu_bytes(1119) == 512);
  CHECK(rdma_mtu_bytes(352) == 256);
  CHECK(rdma_mtu_bytes(351) == 0);
}

}  // namespace cluster_test
