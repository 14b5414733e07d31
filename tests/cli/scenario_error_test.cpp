#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "testbed/scenario/scenario.h"
#include "tests/support/command.h"

namespace scenario_error_test {

using namespace meshbed::testbed;

namespace {

/// Everything that the reader says about `text`; "" where it accepts it.
std::string errors_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse_scenario(text, "test.toml", overrides);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

std::string on_triangle(const std::string& rest, const std::vector<std::string>& overrides = {}) {
  return errors_of("[topology]\nkind = \"ring\"\nnodes = 3\n" + rest, overrides);  // `rest` begins in line 4
}

/// Two nodes with one NIC each (lines 1 to 11: addresses in 5 and 10), then `rest` from line 11.
std::string on_nodes(const std::string& left, const std::string& right, const std::string& rest) {
  return errors_of("[[node]]\nname = \"a\"\n[[node.nic]]\ndevice = \"mlx5_0\"\naddresses = [" + left +
                   "]\n[[node]]\nname = \"b\"\n[[node.nic]]\ndevice = \"mlx5_0\"\naddresses = [" + right + "]\n" +
                   rest);
}

constexpr const char* kCable = "[[cable]]\nname = \"c\"\nends = [\"a/mlx5_0\", \"b/mlx5_0\"]\n";

}  // namespace

TEST_CASE("an unknown key is refused with its place, the likely one and all accepted ones") {
  CHECK(errors_of("[topology]\nkind = \"ring\"\nnodez = 3\n")
            .find("test.toml:3:1: unknown key 'nodez' in [topology] (did you mean 'nodes'?); accepted: kind, nodes, "
                  "shape, ") == 0);
  CHECK(on_triangle("[limits]\nbanana = 1\n") == "test.toml:5:1: unknown key 'banana' in [limits]; accepted: time");
  CHECK(on_triangle("[expct]\n").find("test.toml:4:2: unknown key 'expct' in the file (did you mean 'expect'?)") == 0);
  CHECK(on_triangle("[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\nadresses = []\n")
            .find("test.toml:8:1: unknown key 'adresses' in [[node.nic]] (did you mean 'addresses'?)") == 0);
}

TEST_CASE("a collective without a management network is refused where it was switched off") {
  CHECK(on_triangle("[management]\nenabled = false\n") ==
        "test.toml:5:11: enabled: the ranks of a collective meet over the management network; leave it on, or say "
        "[workload] kind = \"nccl-calls\" or \"idle\"");
  CHECK(on_triangle("", {"management.enabled=false"}).find("--set management.enabled=false: enabled: the ranks of") ==
        0);
  CHECK(on_triangle("[management]\nenabled = false\n[workload]\nkind = \"idle\"\n").empty());
}

TEST_CASE("a wrong type says what was expected and what was found") {
  CHECK(errors_of("[topology]\nkind = 5\n") == "test.toml:2:8: kind: expects text, got integer 5");
  CHECK(errors_of("[topology]\nkind = \"ring\"\nnodes = \"three\"\n") ==
        "test.toml:3:9: nodes: expects an integer, got text 'three'");
  CHECK(errors_of("topology = 3\n") == "test.toml:1:12: topology: expects a table, got integer 3");
  CHECK(errors_of("node = 3\n") == "test.toml:1:8: node: expects a list of tables, got integer 3");
  CHECK(errors_of("node = [3]\n") == "test.toml:1:9: node: expects a table, got integer 3");
  CHECK(on_triangle("rate = true\n") ==
        "test.toml:4:8: rate: expects a rate such as \"100Gb/s\" or an integer (bits per second), got true");
  CHECK(on_triangle("latency = 5\n") == "test.toml:4:11: latency: expects a time such as \"1us\", got integer 5");
  CHECK(on_triangle("[workload]\nbytes = 1.5\n") ==
        "test.toml:5:9: bytes: expects a size such as \"64M\" or an integer (bytes), got number 1.5");
  CHECK(on_triangle("[workload]\nin_place = 1\n") == "test.toml:5:12: in_place: expects true or false, got integer 1");
  CHECK(on_triangle("[workload]\nchannel_devices = 1\n") ==
        "test.toml:5:19: channel_devices: expects a list of integers, got integer 1");
  CHECK(on_triangle("[expect]\nmax_over_bound = \"1\"\n") ==
        "test.toml:5:18: max_over_bound: expects a number, got text '1'");
  CHECK(on_triangle("[expect]\nunreachable = [\"node0\"]\n") ==
        "test.toml:5:16: unreachable: expects pairs of two node names, as in [[\"node0\", \"node2\"]]");
  CHECK(on_triangle("[environment]\nA = true\n") ==
        "test.toml:5:5: environment.A: expects text or an integer, got true");
}

TEST_CASE("a value out of range names the range") {
  CHECK(on_triangle("mtu = 100\n") == "test.toml:4:7: mtu: 100 is out of range; accepted: 352 to 65535");
  CHECK(on_triangle("rate = 5\n") == "test.toml:4:8: rate: 5 b/s is out of range; accepted: 1 kb/s to 100000 Gb/s");
  CHECK(on_triangle("rate = \"12GB/s\"\n") ==
        "test.toml:4:8: rate: '12GB/s' is in bytes; a rate is in bits per second, such as \"100Gb/s\"");
  CHECK(on_triangle("[workload]\nbytes = -1\n") == "test.toml:5:9: bytes: a size cannot be negative");
  CHECK(on_triangle("[workload]\nbytes = \"2T\"\n") == "test.toml:5:9: bytes: out of range; accepted: up to 1T");
  CHECK(on_triangle("[workload]\nranks_per_node = 0\n") ==
        "test.toml:5:18: ranks_per_node: 0 is out of range; accepted: 1 to 1024");
  CHECK(on_triangle("[expect]\nmax_over_bound = nan\n") ==
        "test.toml:5:18: max_over_bound: nan is out of range; accepted: 1 to 1000000000");
  CHECK(on_triangle("latency = \"9000000s\"\n") ==
        "test.toml:4:11: latency: '9000000s' is out of range; accepted: up to 100000s");
  CHECK(on_triangle("[limits]\ntime = \"0s\"\n") == "test.toml:5:8: time: a limit of 0 ends every run; leave it out");
  CHECK(on_nodes("", "", "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"d\"\nport = 255\n") ==
        "test.toml:15:8: port: 255 is out of range; accepted: 1 to 254");
}

TEST_CASE("a value that is none of the accepted words lists them") {
  CHECK(errors_of("[topology]\nkind = \"rign\"\nnodes = 3\n") ==
        "test.toml:2:8: kind: 'rign' is unknown (did you mean 'ring'?); accepted: none, ring, line, full-mesh, star, "
        "switch, torus, leaf-spine, rail-optimised, fat-tree, dragonfly");
  CHECK(on_triangle("[workload]\ncollective = \"all_reduse\"\n") ==
        "test.toml:5:14: collective: 'all_reduse' is unknown (did you mean 'all_reduce'?); accepted: all_reduce, "
        "all_gather, reduce_scatter, broadcast, alltoall, sendrecv, reduce, gather, scatter");
  CHECK(on_triangle("[workload]\nalgorithm = \"trees\"\n") ==
        "test.toml:5:13: algorithm: 'trees' is unknown (did you mean 'tree'?); accepted: auto, ring, tree, "
        "halving-doubling, direct, mesh, torus");
  CHECK(on_triangle("[workload]\nprotocol = \"LL\"\n") ==
        "test.toml:5:12: protocol: 'LL' is unknown; accepted: auto, simple, ll, ll128");
  CHECK(on_triangle("[workload]\nalgorithm = \"ring\"\ntuning = \"table.csv\"\n") ==
        "test.toml:6:10: tuning: a table is for what is chosen: set algorithm or protocol to \"auto\"");
  CHECK(on_triangle("[workload]\ntuning = \"no/such.csv\"\n") ==
        "test.toml:5:10: tuning: there is no file 'no/such.csv'");
  const std::string no_table = MESHBED_SOURCE_DIR "/scenarios/pair.toml";
  CHECK(on_triangle("[workload]\nalgorithm = \"auto\"\ntuning = \"" + no_table + "\"\n")
            .find("test.toml:6:10: tuning: " + no_table + ": tuning table, line ") == 0);
  CHECK(on_triangle("[workload]\ncollective = \"reduce\"\ndtype = \"f8e5m2\"\n") ==
        "test.toml:6:9: dtype: f8e5m2 is moved, never reduced, and reduce reduces");
  CHECK(on_triangle("[workload]\ndtype = \"double\"\nbytes = 1004\n") ==
        "test.toml:6:9: bytes: 1004 is not a multiple of 8, the bytes of a double; the nearest are 1000 and 1008");
}

TEST_CASE("several errors are reported at once, in the order of their lines") {
  CHECK(errors_of("[topology]\nkind = \"ring\"\nnodes = \"x\"\nmtu = 1\n[workload]\nbytez = 1\n")
            .find("test.toml:3:9: nodes: expects an integer, got text 'x'\n"
                  "test.toml:4:7: mtu: 1 is out of range; accepted: 352 to 65535\n"
                  "test.toml:6:1: unknown key 'bytez' in [workload]") == 0);
}

TEST_CASE("names that come twice are refused") {
  CHECK(on_triangle("[[node]]\nname = \"node0\"\n[[node]]\nname = \"node0\"\n") ==
        "test.toml:7:8: name: two [[node]] are called 'node0'");
  CHECK(on_nodes("", "", std::string(kCable) + kCable).find("test.toml:15:8: name: two [[cable]] are called 'c'") == 0);
  CHECK(on_nodes("", "", "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"d\"\n[[node.nic]]\ndevice = \"d\"\n") ==
        "test.toml:16:10: device: 'd' is listed twice on c");
  CHECK(on_nodes("", "", "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"d\"\nnetdev = \"mgmt0\"\n") ==
        "test.toml:13:1: netdev: 'mgmt0' is there twice on c");
  CHECK(on_triangle("[[node]]\nname = \"a/b\"\n")
            .find("test.toml:5:8: name: 'a/b' has a character that is not a letter") == 0);
  CHECK(on_triangle("[[node]]\nname = \"other\"\n") ==
        "test.toml:5:8: name: 'other' is none of the generated nodes (node0, node1, node2) and has no [[node.nic]]");
}

TEST_CASE("a cable to what is not there lists what is") {
  CHECK(on_nodes("", "", "[[cable]]\nends = [\"a/mlx5_0\", \"b/mlx5_7\"]\n") ==
        "test.toml:12:21: 'b/mlx5_7': there is no such NIC; b has: mlx5_0");
  CHECK(on_nodes("", "", "[[cable]]\nends = [\"a/mlx5_0\", \"z/mlx5_0\"]\n") ==
        "test.toml:12:21: 'z/mlx5_0': there is no node 'z'; nodes are: a, b");
  CHECK(on_nodes("", "", "[[cable]]\nends = [\"a\", \"b/mlx5_0\"]\n") ==
        "test.toml:12:9: 'a': expects NODE/DEVICE; a has: mlx5_0");
  CHECK(on_nodes("", "", "[[cable]]\nends = [\"a/mlx5_0\"]\n") ==
        "test.toml:12:8: ends: a [[cable]] has two ends, as in [\"node0/rocep1s0f0\", \"node1/rocep1s0f1\"]");
  CHECK(on_nodes("", "", "[[cable]]\nends = [\"a/mlx5_0\", \"a/mlx5_0\"]\n") ==
        "test.toml:12:21: ends: both are 'a/mlx5_0'");
  CHECK(on_nodes("", "", "[[cable]]\nrate = \"1Gb/s\"\n") == "test.toml:11:1: [[cable]] needs ends");
  CHECK(on_nodes("", "", "[[switch]]\nports = [\"a/x\"]\n") ==
        "test.toml:12:10: 'a/x': there is no such NIC; a has: mlx5_0");
}

TEST_CASE("a cable's rate above that of its slower port is refused") {
  CHECK(on_triangle("[[cable]]\nname = \"node0-node1\"\nrate = \"100Gb/s\"\n").empty());
  CHECK(on_triangle("[[cable]]\nname = \"node0-node1\"\nrate = \"101Gb/s\"\n") ==
        "test.toml:6:8: rate: 101 Gb/s is more than its ports have (100 Gb/s)");
  CHECK(on_triangle("", {"topology.rate=40Gb/s", "cable.node0-node1.rate=80Gb/s"}) ==
        "--set cable.node0-node1.rate=80Gb/s: rate: 80 Gb/s is more than its ports have (40 Gb/s)");
  CHECK(on_triangle("", {"node.node1.nic.rocep1s0f0.rate=25Gb/s", "cable.node0-node1.rate=50Gb/s"}) ==
        "--set cable.node0-node1.rate=50Gb/s: rate: 50 Gb/s is more than its ports have (25 Gb/s)");
}

TEST_CASE("a NIC on two cables is refused, also where one of them is a switch") {
  CHECK(on_triangle("[[cable]]\nname = \"extra\"\nends = [\"node0/rocep1s0f0\", \"node1/rocep1s0f1\"]\n") ==
        "test.toml:4:1: node0/rocep1s0f0 is on two cables: 'node2-node0' and 'extra'; a NIC has one\n"
        "test.toml:4:1: node1/rocep1s0f1 is on two cables: 'node1-node2' and 'extra'; a NIC has one");
  CHECK(on_triangle("[[switch]]\nports = [\"node0/rocep1s0f0\"]\n") ==
        "test.toml:4:1: node0/rocep1s0f0 is on two cables: 'node2-node0' and 'switch0'; a NIC has one");
}

TEST_CASE("an address outside its prefix is refused") {
  CHECK(on_nodes("\"192.168.1.0/24\"", "", "") ==
        "test.toml:5:14: addresses: 192.168.1.0/24 is outside the host addresses of its prefix: it is the network "
        "address of 192.168.1.0/24");
  CHECK(on_nodes("\"192.168.1.255/24\"", "", "") ==
        "test.toml:5:14: addresses: 192.168.1.255/24 is outside the host addresses of its prefix: it is the broadcast "
        "address of 192.168.1.0/24");
  CHECK(on_nodes("\"192.168.1.1/24\"", "\"192.168.2.2/24\"", std::string(kCable) + "subnet = \"192.168.1.0/24\"\n") ==
        "test.toml:14:10: subnet: 192.168.2.2/24 of b/mlx5_0 is outside c's prefix 192.168.1.0/24");
  CHECK(on_triangle("[[node]]\nname = \"node0\"\nmanagement = \"10.1.0.1\"\n") ==
        "test.toml:6:14: management: 10.1.0.1 is not a host address of the management subnet 198.18.0.0/16");
  CHECK(on_nodes("\"192.168.1.1\"", "", "") ==
        "test.toml:5:14: addresses: '192.168.1.1' has no prefix length; write ADDRESS/LENGTH");
  CHECK(on_nodes("\"192.168.1.0/31\"", "\"192.168.1.1/31\"", kCable).empty());
}

TEST_CASE("IPv4 link-local addresses hold on one cable, and no node can have two NICs in them") {
  CHECK(on_nodes("\"169.254.35.62/16\"", "\"169.254.35.63/16\"", kCable).empty());
  const std::string why =
      "all of 169.254.0.0/16 (IPv4 link-local) is one subnet, whatever the cable, so that one cable of a cluster can "
      "have it: give the others subnets of their own";
  const std::string second =
      "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"d0\"\naddresses = [\"169.254.7.1/16\"]\n"
      "[[node.nic]]\ndevice = \"d1\"\naddresses = [\"169.254.7.2/16\"]\n";
  const std::string twice = on_nodes("\"169.254.35.62/16\"", "\"169.254.35.63/16\"", kCable + second);
  CHECK(twice.find("c/d0 and c/d1 are both in 169.254.0.0/16") != std::string::npos);
  CHECK(twice.find(why) != std::string::npos);
}

TEST_CASE("prefix overlap: one subnet within another, on two cables, or twice on a node") {
  const std::string third = "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"d0\"\naddresses = [\"192.168.1.9/16\"]\n";
  CHECK(on_nodes("\"192.168.1.1/24\"", "\"192.168.1.2/24\"", kCable + third) ==
        "test.toml:18:13: prefix overlap: 192.168.0.0/16 of c/d0 and 192.168.1.0/24 of a/mlx5_0 share addresses; give "
        "each its own subnet");
  // On one cable it is a wrong length, which lint reports.
  CHECK(on_nodes("\"192.168.1.1/24\"", "\"192.168.1.2/16\"", kCable).empty());
  CHECK(on_triangle("[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n"
                    "addresses = [\"192.168.100.9/24\"]\n") ==
        "test.toml:8:13: prefix overlap: node0/rocep1s0f0 and node0/rocep1s0f1 are both in 192.168.100.0/24; a node "
        "needs one subnet per NIC, or its kernel sends everything through the first");
  const std::string managed = on_triangle("[management]\nsubnet = \"192.168.0.0/16\"\n");
  CHECK(managed.find("test.toml:5:10: prefix overlap: 192.168.0.0/16 of node0/mgmt0 and 192.168.100.0/24 of") == 0);
  CHECK(managed.find("(the management network's is [management] subnet)") != std::string::npos);
  // 10/8 is what people have on their cables, and no longer the management network's.
  CHECK(on_triangle("first_subnet = \"10.0.0.0/24\"\n").empty());
  CHECK(on_triangle("[management]\nnetdev = \"enp1s0f0np0\"\n").find("netdev: 'enp1s0f0np0' is there twice on node0") !=
        std::string::npos);
}

TEST_CASE("duplicate addresses are refused with both owners") {
  CHECK(on_nodes("\"192.168.1.1/24\"", "\"192.168.1.1/24\"", "") ==
        "test.toml:10:13: duplicate address: 192.168.1.1 is on a/mlx5_0 and on b/mlx5_0");
}

TEST_CASE("two cables with one subnet are refused though every address is unique") {
  const std::string more =
      "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"d\"\naddresses = [\"192.168.1.3/24\"]\n"
      "[[node]]\nname = \"d\"\n[[node.nic]]\ndevice = \"d\"\naddresses = [\"192.168.1.4/24\"]\n"
      "[[cable]]\nname = \"e\"\nends = [\"c/d\", \"d/d\"]\n";
  CHECK(
      on_nodes("\"192.168.1.1/24\"", "\"192.168.1.2/24\"", kCable + more) ==
      "test.toml:18:13: prefix overlap: 192.168.1.0/24 is the subnet of two cables (a/mlx5_0 and c/d are on different "
      "ones); give each cable its own");
}

TEST_CASE(
    "an address that no interface is given is refused: loopback, IPv6 link-local, multicast, unspecified, mapped") {
  for (const char* subnet :
       {"127.0.0.0/24", "224.0.0.0/24", "0.0.0.0/24", "fe80::/64", "ff02::/64", "::/64", "::ffff:10.0.0.0/120"}) {
    const std::string errors = on_triangle("first_subnet = \"" + std::string(subnet) + "\"\n");
    CHECK_MESSAGE(errors.find("give it a unicast address, as 192.168.100.1/24") != std::string::npos, subnet, errors);
  }
  CHECK(on_triangle("first_subnet = \"fd00::/64\"\n").empty());
}

TEST_CASE("an interface named lo, and a PCI function outside /sys/devices, are refused") {
  const auto with_nic = [](const std::string& field) {
    return errors_of("[[node]]\nname = \"n\"\nnic = [{device = \"a\", netdev = \"e\", " + field + "}]\n");
  };
  CHECK(with_nic("mtu = 1500").find("pci_path") == std::string::npos);
  CHECK(with_nic("pci_path = \"/etc\"").find("pci_path: '/etc' does not lie in /sys/devices/") != std::string::npos);
  CHECK(with_nic("pci_path = \"/sys/devices/../../etc\"").find("does not lie in") != std::string::npos);
  CHECK(errors_of("[[node]]\nname = \"n\"\nnic = [{device = \"a\", netdev = \"lo\"}]\n")
            .find("netdev: 'lo' on n is the loopback interface") != std::string::npos);
  CHECK(with_nic("gids = []").find("gids: is empty; leave it out for the table that Linux fills") != std::string::npos);
}

TEST_CASE("a slice that cuts floats in two, and a management subnet that is too small, are refused with the cause") {
  CHECK(on_triangle("[workload]\nslice_bytes = 6\n") ==
        "test.toml:5:15: slice_bytes: 6 is not a multiple of 4, the bytes of a float");
  CHECK(errors_of("[topology]\nkind = \"ring\"\nnodes = 2\n[management]\nsubnet = \"10.0.0.0/31\"\n")
            .find("10.0.0.0/31 has no room for host 2") != std::string::npos);
}

TEST_CASE("a GID table is checked: indices once, entries complete") {
  const std::string nic = "[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n";
  CHECK(on_triangle(nic + "gids = [{index = 3, address = \"1.2.3.4\"}, {index = 3, address = \"1.2.3.5\"}]\n") ==
        "test.toml:8:52: gids: index 3 is listed twice");
  CHECK(on_triangle(nic + "gids = [{address = \"1.2.3.4\"}]\n") ==
        "test.toml:8:9: gids: an entry needs index and address");
  CHECK(on_triangle(nic + "gids = [{index = 0, type = \"v3\", address = \"1.2.3.4\"}]\n") ==
        "test.toml:8:28: type: 'v3' is unknown (did you mean 'v1'?); accepted: v1, v2");
}

TEST_CASE("a topology that cannot be is refused where it is asked for") {
  CHECK(errors_of("[topology]\nkind = \"ring\"\nnodes = 999999999\n") ==
        "test.toml:3:9: a ring has 2 to 65536 nodes, not 999999999");
  CHECK(errors_of("[topology]\nkind = \"ring\"\n") == "test.toml:1:1: [topology] kind = \"ring\" needs nodes");
  CHECK(errors_of("[topology]\nnodes = 3\n")
            .find("test.toml:2:9: nodes does nothing without topology.kind = \"ring\" or the like") == 0);
  CHECK(on_triangle("nics = 1\n") == "test.toml:4:8: a ring of 3 nodes with 1 rail needs 2 NICs a node, but nics = 1");
  CHECK(on_triangle("[management]\nsubnet = \"10.0.0.0/30\"\n") ==
        "test.toml:5:10: [management] subnet 10.0.0.0/30 has room for 2 nodes, not for 3");
}

TEST_CASE("workload, faults and promises must fit the cluster") {
  CHECK(on_triangle("[workload]\nroot = 3\n") == "test.toml:5:8: root: 3 is not a rank; there are 3 ranks");
  CHECK(on_triangle("[workload]\nkind = \"idle\"\nmemory = \"gpu\"\n") ==
        "test.toml:6:10: memory: gpu is for collective, matrix, reconnect, megakernel; other workloads have their "
        "messages in host memory");
  CHECK(
      on_triangle("[workload]\nkind = \"reconnect\"\nmemory = \"gpu\"\n") ==
      "test.toml:6:10: memory: the adapters of node0 take no dma-buf of GPU memory: set gpu_direct to dma-buf or both");
  CHECK(on_triangle("[workload]\ncollective = \"sendrecv\"\nshift = 3\n") ==
        "test.toml:6:9: shift: with 3 ranks a shift of 3 sends to oneself");
  CHECK(on_triangle("[workload]\ncollective = \"sendrecv\"\nsenders = [0, 3]\n") ==
        "test.toml:6:11: senders: 3 is not a rank; there are 3 ranks");
  CHECK(on_triangle("[workload]\nsenders = [0]\n") ==
        "test.toml:5:11: senders: only sendrecv has some; in other collectives all ranks take part");
  CHECK(on_triangle("[workload]\nchannels = 2\nchannel_devices = [0]\n") ==
        "test.toml:6:19: channel_devices: 1 devices for 2 channels");
  CHECK(on_triangle("[workload]\nchannel_devices = [2]\n") ==
        "test.toml:5:19: channel_devices: there is no device 2 on node0, which has 2");
  CHECK(on_triangle("[workload]\nnet_version = 7\n") ==
        "test.toml:5:15: net_version: 7 is not supported; accepted: 0, 8 to 12");
  CHECK(on_triangle("[workload]\nkind = \"nccl-calls\"\n") == "test.toml:5:8: kind = \"nccl-calls\" needs recording");
  CHECK(on_triangle("[workload]\nkind = \"nccl-calls\"\nrecording = \"no/such.jsonl\"\n") ==
        "test.toml:6:13: recording: there is no file 'no/such.jsonl'");
  CHECK(on_triangle("[expect]\nunreachable = [[\"node0\", \"node9\"]]\n") ==
        "test.toml:5:15: unreachable: there is no node 'node9'; nodes are: node0, node1, node2");
  CHECK(on_triangle("[[fault]]\nkind = \"cable_down\"\ntarget = \"node0\"\n")
            .find("test.toml:6:10: target: cable_down needs a cable, or NODE-SWITCH, and 'node0' is not one") == 0);
  CHECK(on_triangle("[[fault]]\nkind = \"port_down\"\ntarget = \"node0/nope\"\n")
            .find("test.toml:6:10: target: port_down needs NODE/DEVICE, and 'node0/nope' is not one here; ") == 0);
  CHECK(on_triangle("[[fault]]\nkind = \"loss\"\ntarget = \"node0-node1\"\namount = 2\n") ==
        "test.toml:7:10: amount: loss needs a fraction above 0, up to 1");
  const std::string late = "[[fault]]\nkind = \"delay\"\ntarget = \"node0-node1\"\namount = ";
  for (const std::string amount : {"5", "\"1Gb/s\"", "\"1%\""}) {
    CHECK(on_triangle(late + amount + "\n") == "test.toml:7:10: amount: delay needs a time, as in '1ms', above 0");
  }
  CHECK(on_triangle(late + "\"1x\"\n").find("expects a fraction, a percentage, a time or a rate, got '1x'") !=
        std::string::npos);
  const std::string pulled = "[[fault]]\nkind = \"cable_down\"\ntarget = \"node0-node1\"\n";
  CHECK(on_triangle(pulled + "point = \"iteration\"\niteration = 1\n") ==
        "test.toml:8:13: iteration: 1 never comes; the last is 0 (workload.iterations = 1)");
  CHECK(on_triangle(pulled + "iteration = 1\n") == "test.toml:7:13: iteration: goes with point = \"iteration\"");
  CHECK(on_triangle("[workload]\nkind = \"idle\"\n" + pulled + "point = \"iteration\"\n") ==
        "test.toml:9:9: point: 'iteration' is for collective, reconnect; other workloads have 'start'");
  CHECK(on_triangle("[workload]\nkind = \"reconnect\"\n" + pulled + "point = \"iteration\"\n").empty());
  CHECK(on_triangle(pulled + "[expect]\nlost = \"node1\"\n") ==
        "test.toml:8:8: lost: there is no [[fault]] node_kill of 'node1'");
  CHECK(on_triangle(pulled + "amount = 1\n") ==
        "test.toml:7:10: amount: cable_down has none; it is for loss, delay, rate, reorder");
  CHECK(on_triangle("[[fault]]\nkind = \"node_kill\"\ntarget = \"node0\"\nduration = \"1s\"\n") ==
        "test.toml:7:12: duration: node_kill has none");
  CHECK(on_triangle(pulled + "address = \"192.168.100.7/24\"\n") ==
        "test.toml:7:11: address: cable_down has none; it is for address_change");
  const std::string change = "[[fault]]\nkind = \"address_change\"\ntarget = \"node0/rocep1s0f1\"\n";
  CHECK(on_triangle(change) == "test.toml:4:1: [[fault]] address_change needs address, as \"192.168.100.77/24\"");
  CHECK(on_triangle("[[fault]]\nkind = \"address_change\"\ntarget = \"node0\"\naddress = \"192.168.100.7/24\"\n")
            .find("test.toml:6:10: target: address_change needs NODE/DEVICE, and 'node0' is not one here; ") == 0);
  const auto changed_to = [&](const std::string& address) {
    return on_triangle(change + "address = \"" + address + "\"\n");
  };
  const std::string fix = "; take a free one of its cable's or switch's subnet";
  CHECK(changed_to("192.168.100.77/24").empty());
  CHECK(changed_to("192.168.7.7/24") ==
        "test.toml:7:11: address: 192.168.7.7/24 is in no subnet of node0/rocep1s0f1, which has 192.168.100.1/24" +
            fix);
  CHECK(changed_to("192.168.100.77/25").find("is in no subnet of node0/rocep1s0f1") != std::string::npos);
  CHECK(changed_to("192.168.100.2/24") == "test.toml:7:11: address: 192.168.100.2/24 is node1/rocep1s0f0's" + fix);
  for (const std::string host : {"0", "255"}) {
    CHECK(changed_to("192.168.100." + host + "/24") ==
          "test.toml:7:11: address: 192.168.100." + host + "/24 is the address of its whole subnet" + fix);
  }
  CHECK(changed_to("192.168.100.77").find("test.toml:7:11: address") == 0);
  const std::string both = change + "address = \"192.168.100.77/24\"\n";
  CHECK(on_triangle(both + "[[fault]]\nkind = \"address_change\"\ntarget = \"node1/rocep1s0f0\"\naddress = "
                           "\"192.168.100.77/24\"\n")
            .find("test.toml:7:11: address: 192.168.100.77/24 goes to node1/rocep1s0f0 as well") == 0);
  const std::string slower = "[[fault]]\nkind = \"rate\"\n";
  CHECK(on_triangle(slower + "target = \"node0-node1\"\namount = \"99Gb/s\"\n").empty());
  for (const char* target : {"node0-node1", "node1/rocep1s0f0"}) {
    CHECK(on_triangle(slower + "target = \"" + target + "\"\namount = \"100Gb/s\"\n") ==
          std::string("test.toml:7:10: amount: a rate of 100 Gb/s slows nothing down: ") + target + " has 100 Gb/s");
  }
  const std::string strangers = "[[fault]]\nkind = \"strangers\"\ntarget = \"node0\"\n";
  CHECK(on_triangle(strangers + "from = \"node1\"\nconnections = 9\nbyte_every = \"1ms\"\n").empty());
  CHECK(on_triangle(strangers) == "test.toml:4:1: [[fault]] strangers needs from, the node that they come from");
  CHECK(on_triangle(strangers + "from = \"cafe\"\n") ==
        "test.toml:7:8: from: there is no node 'cafe'; nodes are: node0, node1, node2");
  CHECK(on_triangle("[[fault]]\nkind = \"strangers\"\ntarget = \"node0-node1\"\nfrom = \"node1\"\n")
            .find("strangers needs a node, and 'node0-node1' is not one here; there are node0, node1, node2") == 24);
  CHECK(on_triangle(strangers + "from = \"node1\"\n[management]\nenabled = false\n[workload]\nkind = \"idle\"\n") ==
        "test.toml:4:1: [[fault]] strangers come over the management network, and node1 is not on it\n"
        "test.toml:4:1: [[fault]] strangers come over the management network, and node0 is not on it");
  CHECK(on_triangle("[[fault]]\nkind = \"node_kill\"\ntarget = \"node0\"\nconnections = 3\n") ==
        "test.toml:7:15: connections: node_kill has none; it is for strangers");
  CHECK(on_triangle("[[fault]]\nkind = \"loss\"\n") == "test.toml:4:1: [[fault]] needs kind and target");
}

TEST_CASE("a truncated file is an error with its place, at whatever byte it ends") {
  CHECK(errors_of("[topology]\nkind = \"ri").find("test.toml:2:11: not TOML: ") == 0);
  CHECK(errors_of("[topol").find("test.toml:1:7: not TOML: ") == 0);
  CHECK(errors_of("a = [1, 2").find("test.toml:1:10: not TOML: ") == 0);
}

TEST_CASE("empty files, files without nodes and files that are not text are refused") {
  CHECK(errors_of("") == "test.toml: the file is empty; a scenario has at least [topology] or [[node]]");
  CHECK(errors_of(" \n\n") == "test.toml: the file is empty; a scenario has at least [topology] or [[node]]");
  CHECK(errors_of("seed = 1\n") ==
        "test.toml: the scenario has no nodes; say [topology] kind = \"ring\", nodes = 3, or list [[node]]");
  CHECK(
      errors_of("description = \"\xff\xfe\"\n").find("test.toml:1:15: not TOML: Encountered invalid utf-8 sequence") ==
      0);
  CHECK(errors_of("seed = 1\nseed = 2\n").find("test.toml:2:") == 0);
}

TEST_CASE("characters beyond ASCII belong into one-line texts and comments, and nowhere else") {
  const std::string triangle = "[topology]\nkind = \"ring\"\nnodes = 3\n";
  CHECK(errors_of("\xef\xbb\xbf# Köln\ndescription = \"Düsseldorf \\\" – Ҍ\"\n[environment]\nA = 'ö'\n" + triangle)
            .empty());
  const std::string message = "not TOML: a character that is not ASCII, outside of one-line texts and comments";
  CHECK(errors_of(triangle + "f\xd2\x8cink = 1\n") == "test.toml:4:2: " + message);
  CHECK(errors_of(triangle + "a = \"ö\" # ö\nb = 1\xc3\xa9\n") == "test.toml:5:6: " + message);
  CHECK(errors_of("description = \"\"\"x\\\n\xc3\xa9\"\"\"\n" + triangle) == "test.toml:2:1: " + message);
  CHECK(errors_of("description = \"\"\"x\\\ny\"\"\"\n" + triangle).empty());
  CHECK(on_triangle("", {"description=é"}).empty());
}

TEST_CASE("an error of a --set names the argument") {
  CHECK(on_triangle("", {"topology.nodes=0x"}) == "--set topology.nodes=0x: nodes: expects an integer, got text '0x'");
  CHECK(on_triangle("", {"workload.bytez=1"}).find("--set workload.bytez=1: unknown key 'bytez' in [workload]") == 0);
  CHECK(on_triangle("", {"nonsense"}) == "--set nonsense: expects SECTION.KEY=VALUE, as in workload.bytes=64M");
  CHECK(on_triangle("", {"=3"}) == "--set =3: expects SECTION.KEY=VALUE, as in workload.bytes=64M");
  CHECK(on_triangle("", {"topology..nodes=3"}) == "--set topology..nodes=3: has an empty key; write SECTION.KEY=VALUE");
  CHECK(on_triangle("", {"topology.nodes.x=3"}) == "--set topology.nodes.x=3: 'nodes' is not a section");
  CHECK(on_triangle("", {"cable.3.rate=1Gb/s"}) ==
        "--set cable.3.rate=1Gb/s: 'cable' has 0 entries in the file; count from 0, or use an entry's name");
  // A line break must not smuggle a second key in.
  CHECK(on_triangle("", {"seed=1\nname='x'"}) ==
        "--set seed=1\\x0aname='x': seed: expects an integer, got text '1\\x0aname='x''");
}

TEST_CASE("bytes that no rank would get, or that would be rounded, are refused with those that are right") {
  CHECK(on_triangle("[workload]\nbytes = 0\n") ==
        "test.toml:5:9: bytes: 0 is too few: the smallest all_reduce on 3 ranks is 4");
  CHECK(on_triangle("[workload]\nbytes = 47\ncollective = \"all_gather\"\n") ==
        "test.toml:5:9: bytes: 47 is too few: the smallest all_gather on 3 ranks is 48");
  CHECK(on_triangle("[workload]\nbytes = 48\ncollective = \"reduce_scatter\"\n").empty());
  CHECK(on_triangle("", {"workload.bytes=10"}) ==
        "--set workload.bytes=10: bytes: 10 is not a multiple of 4, the bytes of a float; the nearest are 8 and 12");
  CHECK(on_triangle("[workload]\nkind = \"idle\"\nbytes = 0\n").empty());
}

TEST_CASE("a --set makes no hardware: a misspelt name is refused with the likely one and all there are") {
  CHECK(on_triangle("", {"node.nodo1.gpus=1"}) ==
        "--set node.nodo1.gpus=1: there is no node 'nodo1' (did you mean 'node1'?); --set changes nodes that are "
        "there: node0, node1, node2");
  CHECK(on_triangle("", {"node.node0.nic.rocep1s0f9.rate=1Gb/s"}) ==
        "--set node.node0.nic.rocep1s0f9.rate=1Gb/s: there is no NIC 'rocep1s0f9' on node0 (did you mean "
        "'rocep1s0f0'?); --set changes NICs that are there: rocep1s0f0, rocep1s0f1");
  CHECK(on_triangle("", {"cable.banana.ends=[\"node0/rocep1s0f0\", \"node1/rocep1s0f1\"]"})
            .find("there is no cable 'banana'; --set changes cables that are there: node0-node1, node1-node2, "
                  "node2-node0") != std::string::npos);
  CHECK(on_triangle("", {"switch.leaf.rate=1Gb/s"}) ==
        "--set switch.leaf.rate=1Gb/s: there is no switch 'leaf'; --set changes switches that are there: none");
  // A misspelt node is said once, not once more for its NIC.
  CHECK(on_triangle("", {"node.nodo1.nic.rocep1s0f0.rate=1Gb/s"}).find("NIC") == std::string::npos);
  CHECK(errors_of("[[node]]\nname = \"alpha\"\n[[node.nic]]\ndevice = \"mlx5_0\"\n", {"node.alpho.gpus=1"}) ==
        "--set node.alpho.gpus=1: there is no node 'alpho' (did you mean 'alpha'?); --set changes nodes that are "
        "there: alpha");
  CHECK(errors_of("[[node]]\nname = \"alpha\"\n[[node.nic]]\ndevice = \"mlx5_0\"\n", {"node.alpha.nic.mlx5_1.mtu=9000"})
            .find("there is no NIC 'mlx5_1' on alpha (did you mean 'mlx5_0'?)") != std::string::npos);
}

TEST_CASE("an error is said once, however often it is met") {
  CHECK(on_triangle("", {"expect.unreachable=[[\"a\", \"a\"]]"}) ==
        "--set expect.unreachable=[[\"a\", \"a\"]]: unreachable: there is no node 'a'; nodes are: node0, node1, node2\n"
        "--set expect.unreachable=[[\"a\", \"a\"]]: unreachable: 'a' is paired with itself");
}

TEST_CASE("--set reaches a fault by its index, because faults have no names") {
  CHECK(on_triangle("", {"fault.first.at=1ms"}) ==
        "--set fault.first.at=1ms: 'fault' has 0 entries in the file; count from 0");
}

TEST_CASE("a file that is not there, or is a folder, is an error that names it") {
  const auto error_of = [](const std::string& path) -> std::string {
    try {
      (void)read_scenario(path, {});
    } catch (const ScenarioError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of("/no/such.toml") == "/no/such.toml: there is no such file");
  const std::string folder = meshbed::test::scratch_folder("folder_of_scenarios");
  for (const char* name : {"/ring.toml", "/pair.toml", "/notes.md"}) std::ofstream(folder + name) << "x";
  CHECK(error_of(folder) == folder + ": this is a folder; name one of its scenario files: pair.toml, ring.toml");
  CHECK(error_of("/dev/null") == "/dev/null: this is not a regular file; a scenario is a TOML file");
}

TEST_CASE("a file with hundreds of errors shows the first ones and counts the rest") {
  std::ostringstream text;
  for (int i = 0; i < 300; ++i) text << "key" << i << " = 1\n";
  const std::string errors = errors_of(text.str());
  CHECK(errors.find("test.toml: and 280 more errors") != std::string::npos);
}

}  // namespace scenario_error_test
