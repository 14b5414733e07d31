// Which addresses belong to a NIC, and how NICs are described.
#include "plugin/net/process/nic.h"

#include <doctest/doctest.h>

#include "tests/net/addresses.h"

namespace nic_test {

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

TEST_CASE("a port's link-local address is its own interface's, and stands in its GID table") {
  Nic nic = test::nic("roceP2p1s0f0", {"fe80::5/64"});
  nic.netdev = "enP2p1s0f0np0";
  std::vector<InterfaceAddress> interfaces{{.netdev = "mgmt0", .prefix = prefix("fe80::5/64")},
                                           {.netdev = "enP2p1s0f0np0", .prefix = prefix("fd00::1/64")},
                                           {.netdev = "enP2p1s0f0np0", .prefix = prefix("fe80::6/64")}};
  CHECK_FALSE(link_local_of(nic, interfaces));  // another interface's; not link-local; without a GID
  interfaces.push_back({.netdev = "enP2p1s0f0np0", .prefix = prefix("fe80::5/64")});
  CHECK(link_local_of(nic, interfaces) == prefix("fe80::5/64"));
}

TEST_CASE("who comes from a link-local address to that of a port of ours comes over its cable") {
  Nic nic = test::nic("roceP2p1s0f0", {});
  const IpAddress own = prefix("fe80::5/64").address, client = prefix("fe80::9/64").address;
  CHECK_FALSE(is_over_cable({nic}, own, client));
  nic.link_local = prefix("fe80::5/64");
  CHECK(is_over_cable({nic}, own, client));
  CHECK_FALSE(is_over_cable({nic}, own, prefix("192.168.100.2/24").address));
  CHECK_FALSE(is_over_cable({nic}, client, own));
}

TEST_CASE("a port is spoken to by the interface that has its addresses: its own before a VLAN interface on it") {
  Nic nic = test::nic("rocep1s0f0", {"10.20.0.1/24"});
  nic.netdev = "enp1s0f0np0";
  std::vector<InterfaceAddress> interfaces{{.netdev = "mgmt0", .prefix = prefix("10.0.0.1/24")},
                                           {.netdev = "enp1s0f0np0.20", .prefix = prefix("10.20.0.1/24")}};
  nic.addresses = addresses_of(nic, interfaces);
  CHECK(addressed_netdev(nic, interfaces) == "enp1s0f0np0.20");
  interfaces.push_back({.netdev = "enp1s0f0np0", .prefix = prefix("192.168.100.1/24")});
  nic.addresses = addresses_of(nic, interfaces);
  CHECK(addressed_netdev(nic, interfaces) == "enp1s0f0np0");
  nic.addresses.clear();
  CHECK(addressed_netdev(nic, interfaces) == "enp1s0f0np0");
  nic.netdev = "";
  CHECK(addressed_netdev(nic, interfaces).empty());
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

TEST_CASE("a preferred family or range leaves out the NIC's other addresses, where there is one that fits") {
  Nic nic;
  nic.netdev = "a";
  std::vector<InterfaceAddress> interfaces;
  for (const char* text : {"192.168.100.1/24", "10.7.0.1/24", "fd00::1/64"}) {
    interfaces.push_back({.netdev = "a", .prefix = prefix(text)});
  }
  using Texts = std::vector<std::string>;
  const auto chosen = [&](const AddressPreference& preference) {
    return texts(addresses_of(nic, interfaces, preference));
  };
  CHECK(chosen({}).size() == 3);
  CHECK(chosen({.family = Family::kIpv6}) == Texts{"fd00::1/64"});
  CHECK(chosen({.family = Family::kIpv4}) == Texts{"192.168.100.1/24", "10.7.0.1/24"});
  CHECK(chosen({.range = prefix("10.0.0.0/8")}) == Texts{"10.7.0.1/24"});
  CHECK(chosen({.family = Family::kIpv4, .range = prefix("fd00::/8")}) == Texts{"192.168.100.1/24", "10.7.0.1/24"});
  CHECK(chosen({.range = prefix("172.16.0.0/12")}).size() == 3);
  interfaces.pop_back();
  CHECK(chosen({.family = Family::kIpv6}).size() == 2);
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

TEST_CASE("lanes: a slow port is the management network's only beside a fast one, and only while its rate is known") {
  const auto with_rate = [](std::uint32_t rate_mbps) {
    Nic made = test::nic("r", {});
    made.rate_mbps = rate_mbps;
    return made;
  };
  const std::vector<Nic> spark{with_rate(100'000), with_rate(100'000), with_rate(10'000)};
  CHECK(role_of(spark[0], spark) == NicRole::kFast);
  CHECK(role_of(spark[2], spark) == NicRole::kManagement);
  CHECK(role_of(with_rate(25'000), spark) == NicRole::kManagement);
  CHECK(role_of(with_rate(40'000), spark) == NicRole::kFast);
  // soft-RoCE over veth: all NICs have 10 Gb/s, and they form the mesh.
  const std::vector<Nic> soft{with_rate(10'000), with_rate(10'000)};
  CHECK(role_of(soft[0], soft) == NicRole::kFast);
  Nic down = with_rate(10'000);
  down.link_up = false;
  CHECK(role_of(down, spark) == NicRole::kUnknown);
  Nic silent = with_rate(10'000);
  silent.rate_known = false;
  CHECK(role_of(silent, spark) == NicRole::kUnknown);
}

}  // namespace nic_test
