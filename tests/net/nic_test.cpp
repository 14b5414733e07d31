// Which addresses belong to a NIC, and how NICs are described.
#include "plugin/net/nic.h"

#include <doctest/doctest.h>

#include "tests/net/addresses.h"

using namespace meshbed;
using namespace meshbed::net;
using test::prefix;

namespace {

std::vector<std::string> texts(const std::vector<IpPrefix>& addresses) {
  std::vector<std::string> result;
  for (const IpPrefix& address : addresses) result.push_back(to_text(address));
  return result;
}

}  // namespace

TEST_CASE("D30: every address of the port's interface is its own, and those of VLANs that stand in its GID table") {
  Nic nic = test::nic("rocep1s0f0", {"192.168.100.1/24", "10.20.0.1/24"});
  nic.netdev = "enp1s0f0np0";
  const std::vector<InterfaceAddress> interfaces{{.netdev = "mgmt0", .prefix = prefix("10.0.0.1/24")},
                                                 {.netdev = "enp1s0f0np0", .prefix = prefix("192.168.100.1/24")},
                                                 {.netdev = "enp1s0f0np0", .prefix = prefix("fd00::1/64")},
                                                 {.netdev = "enp1s0f0np0.20", .prefix = prefix("10.20.0.1/24")},
                                                 {.netdev = "enp1s0f1np1", .prefix = prefix("192.168.101.1/24")}};
  CHECK(texts(addresses_of(nic, interfaces)) ==
        std::vector<std::string>{"192.168.100.1/24", "fd00::1/64", "10.20.0.1/24"});
}

TEST_CASE("a NIC whose interface sysfs hides is known by its GIDs") {
  Nic nic = test::nic("rocep1s0f0", {"192.168.100.1/24"});
  nic.netdev = "";
  const std::vector<InterfaceAddress> interfaces{{.netdev = "a", .prefix = prefix("192.168.100.1/24")},
                                                 {.netdev = "b", .prefix = prefix("192.168.101.1/24")}};
  CHECK(texts(addresses_of(nic, interfaces)) == std::vector<std::string>{"192.168.100.1/24"});
}

TEST_CASE("IPv4 link-local addresses count only where there is no other: all cables would share their subnet") {
  Nic nic;
  nic.netdev = "a";
  std::vector<InterfaceAddress> interfaces{{.netdev = "a", .prefix = prefix("169.254.7.1/16")}};
  CHECK(texts(addresses_of(nic, interfaces)) == std::vector<std::string>{"169.254.7.1/16"});
  interfaces.push_back({.netdev = "a", .prefix = prefix("192.168.100.1/24")});
  CHECK(texts(addresses_of(nic, interfaces)) == std::vector<std::string>{"192.168.100.1/24"});
}

TEST_CASE("a GID is found by address and type; by index only where that is asked for") {
  const Nic nic = test::nic("a", {"192.168.100.1/24", "192.168.101.1/24"});
  const IpAddress second = nic.addresses[1].address;
  CHECK(find_gid(nic, second, {})->index == 3);
  CHECK(find_gid(nic, second, {.roce_v2 = false})->index == 2);
  CHECK(find_gid(nic, second, {.forced_index = 0})->index == 0);
  CHECK_FALSE(find_gid(nic, second, {.forced_index = 9}));
  CHECK_FALSE(find_gid(nic, prefix("10.0.0.1/8").address, {}));
  CHECK(find_gid(nic, prefix("10.0.0.1/8").address, {.last_resort = 1})->index == 1);
}

TEST_CASE("a table of NICs is described in one line") {
  std::vector<Nic> nics{test::nic("a", {"192.168.100.1/24"}), test::nic("b", {"10.0.0.1/8", "fd00::1/64"})};
  nics[0].link_up = false;
  CHECK(describe_subnets(nics) == "192.168.100.0/24 on a (link down), 10.0.0.0/8 on b, fd00::/64 on b");
  CHECK(describe_subnets({}) == "no RDMA address at all");
}
