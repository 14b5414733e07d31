// What the kernel's files say of routes by way of a router.
#include "plugin/net/process/route_table.h"

#include <doctest/doctest.h>

#include "tests/net/addresses.h"

namespace route_table_test {

using namespace meshbed::net;
using meshbed::test::prefix;

namespace {

// Of a machine with a default route by eth0, one into a leaf-spine fabric by enp1s0f0np0, and a subnet on each.
constexpr const char* kIpv4 =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT            \n"
    "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0                                    \n"
    "eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0                                    \n"
    "enp1s0f0np0\t0000A8C0\tFE64A8C0\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0                               \n"
    "enp1s0f0np0\t0064A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0                               \n"
    "enp1s0f0np0\t0166A8C0\tFE64A8C0\t0007\t0\t0\t0\tFFFFFFFF\t0\t0\t0                               \n";
constexpr const char* kIpv6 =
    "fd000002000000000000000000000000 40 00000000000000000000000000000000 00 "
    "fd0000010000000000000000000000ff 00000400 00000001 00000000 00000003 enp1s0f0np0\n"
    "fd000001000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001 enp1s0f0np0\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";

}  // namespace

TEST_CASE(
    "routes by a gateway are read, with their lengths; those on link, and words that mean nothing, are left out") {
  const auto routes = parse_ipv4_routes(kIpv4);
  REQUIRE(routes.size() == 3);
  CHECK(routes[0] == GatewayRoute{"eth0", prefix("0.0.0.0/0"), prefix("10.0.0.1/0").address});
  CHECK(routes[1] == GatewayRoute{"enp1s0f0np0", prefix("192.168.0.0/16"), prefix("192.168.100.254/0").address});
  CHECK(routes[2] == GatewayRoute{"enp1s0f0np0", prefix("192.168.102.1/32"), prefix("192.168.100.254/0").address});
  const auto ipv6 = parse_ipv6_routes(kIpv6);
  REQUIRE(ipv6.size() == 1);
  CHECK(ipv6[0] == GatewayRoute{"enp1s0f0np0", prefix("fd00:2::/64"), prefix("fd00:1::ff/0").address});
  for (const char* text : {"", "\n\n", "a b c", "eth0\tX\t0100000A\t0003\t0\t0\t0\t00000000\n",
                           "eth0\t00000000\t0100000A\t0203\t0\t0\t0\t00000000\n"}) {
    CAPTURE(text);
    CHECK(parse_ipv4_routes(text).empty());
    CHECK(parse_ipv6_routes(text).empty());
  }
}

TEST_CASE("the longest destination over the interface counts, and no other interface's") {
  const auto routes = parse_ipv4_routes(kIpv4);
  const auto bits = [&](const char* netdev, const char* address) {
    return routed_bits(routes, netdev, prefix(std::string(address) + "/0").address);
  };
  CHECK(bits("enp1s0f0np0", "192.168.101.7") == 16U);
  CHECK(bits("enp1s0f0np0", "192.168.102.1") == 32U);
  CHECK_FALSE(bits("enp1s0f0np0", "10.9.9.9"));
  CHECK(bits("eth0", "10.9.9.9") == 0U);
  CHECK_FALSE(bits("eth0", "fd00:2::1"));
  CHECK_FALSE(bits("", "192.168.101.7"));
}

}  // namespace route_table_test
