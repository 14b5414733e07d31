#include <doctest/doctest.h>

#include "models/gid_table.h"
#include "models/topology.h"
#include "sim/host/identity.h"
#include "testbed/base/units.h"
#include "testbed/scenario/scenario.h"

namespace scenario_read_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

Scenario parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "dir/test.toml", overrides);
}

constexpr const char* kTriangle = "[topology]\nkind = \"ring\"\nnodes = 3\n";

}  // namespace

TEST_CASE("a topology alone is a scenario: the defaults are the dictionary's") {
  const Scenario scenario = parse(kTriangle);
  CHECK(scenario.name == "test");
  CHECK(scenario.path == "dir/test.toml");
  CHECK(scenario.seed == 1);
  CHECK(scenario.fabric == "auto");
  CHECK(scenario.time_limit_s == 3600);
  CHECK(scenario.workload.collective == "all_reduce");
  CHECK(scenario.workload.bytes == 64 * kMiB);
  CHECK(scenario.workload.shift == 1);
  CHECK(scenario.cluster.cables[0].rate_bps == 100'000'000'000);
  CHECK(scenario.cluster.cables[0].propagation_ps == kPicosecondsPerMicrosecond);
  REQUIRE(scenario.cluster.management.has_value());
  CHECK(scenario.cluster.management->rate_bps == 10'000'000'000);
  REQUIRE(scenario.cluster.nodes[2].management.has_value());
  CHECK(to_text(scenario.cluster.nodes[2].management->address) == "198.18.0.3/16");
  CHECK(scenario.cluster.nodes[0].gpus.size() == 1);
  CHECK(scenario.cluster.nodes[0].gpus[0].model.empty());
}

TEST_CASE("every field of every section arrives") {
  const Scenario scenario = parse(R"(
name = "all"
description = "everything"
seed = 42
[topology]
kind = "ring"
nodes = 4
rails = 2
rate = "25 Gbit/s"
latency = "500ns"
mtu = 1500
first_subnet = "172.16.0.0/30"
gpus = 2
gpu_model = "H200"
[management]
subnet = "10.9.0.0/24"
rate = "1Gb/s"
latency = "100us"
[environment]
NCCL_DEBUG = "INFO"
NCCL_MESH_TIMEOUT_MS = 5000
[[node]]
name = "node1"
gpus = 1
management = "10.9.0.77"
environment = { NCCL_DEBUG = "WARN" }
[[node.nic]]
device = "rocep1s0f0"
rate = "10Gb/s"
port = 2
link = "down"
gids = [{ index = 3, type = "v1", address = "172.16.0.2" }, { index = 1, address = "fd00::1" }]
[fabric]
kind = "fluid"
[workload]
collective = "sendrecv"
bytes = "1K"
iterations = 7
warmup = 2
in_place = false
algorithm = "tree"
channels = 2
channel_devices = [1, 0]
slice_bytes = "64KiB"
root = 3
shift = 2
ranks_per_node = 1
net_plugin = "/opt/other.so"
net_version = 9
[limits]
time = "2s"
[[fault]]
kind = "loss"
at = "3ms"
duration = "1ms"
target = "node0-node1"
amount = 0.25
[[fault]]
kind = "rate"
target = "node0/rocep1s0f0"
amount = "1Gb/s"
[expect]
wrong = 0
max_over_bound = 1.5
min_busbw_GBps = 1
rail_balance = 0.1
connections = 12
unreachable = [["node0", "node2"]]
error = "boom"
)");
  const auto& cluster = scenario.cluster;
  CHECK(scenario.name == "all");
  CHECK(scenario.description == "everything");
  CHECK(scenario.seed == 42);
  CHECK(cluster.cables.size() == 8);
  CHECK(cluster.cables[1].rate_bps == 25'000'000'000);
  CHECK(cluster.cables[0].rate_bps == 10'000'000'000);  // the slower port's
  CHECK(cluster.cables[0].propagation_ps == 500 * kPicosecondsPerNanosecond);
  CHECK(cluster.nodes[0].nics[0].mtu_bytes == 1500);
  CHECK(to_text(cluster.nodes[1].nics[1].addresses[0]) == "172.16.0.5/30");
  CHECK(cluster.nodes[0].gpus.size() == 2);
  CHECK(cluster.nodes[1].gpus.size() == 1);
  CHECK(cluster.nodes[1].gpus[0].model == "H200");
  CHECK(to_text(cluster.nodes[1].management->address) == "10.9.0.77/24");
  CHECK(cluster.management->latency_ps == 100 * kPicosecondsPerMicrosecond);
  using Variables = std::vector<std::pair<std::string, std::string>>;
  CHECK(cluster.nodes[0].environment == Variables{{"NCCL_DEBUG", "INFO"}, {"NCCL_MESH_TIMEOUT_MS", "5000"}});
  CHECK(cluster.nodes[1].environment == Variables{{"NCCL_DEBUG", "WARN"}, {"NCCL_MESH_TIMEOUT_MS", "5000"}});
  const models::Nic& nic = cluster.nodes[1].nics[0];
  CHECK(nic.port == 2);
  CHECK_FALSE(nic.link_up);
  REQUIRE(nic.gids.size() == 2);
  CHECK(nic.gids[0].index == 1);
  CHECK(nic.gids[0].type == models::GidType::kRoceV2);
  CHECK(nic.gids[1].index == 3);
  CHECK(nic.gids[1].type == models::GidType::kRoceV1);
  CHECK(nic.gids[1].gid == models::gid_of(models::parse_ip("172.16.0.2").value()));
  CHECK(scenario.fabric == "fluid");
  const Workload& workload = scenario.workload;
  CHECK(workload.collective == "sendrecv");
  CHECK(workload.bytes == 1024);
  CHECK(workload.iterations == 7);
  CHECK(workload.warmup == 2);
  CHECK_FALSE(workload.in_place);
  CHECK(workload.algorithm == "tree");
  CHECK(workload.channels == 2);
  CHECK(workload.channel_devices == std::vector<int>{1, 0});
  CHECK(workload.slice_bytes == 65536);
  CHECK(workload.root == 3);
  CHECK(workload.shift == 2);
  CHECK(scenario.rank_nodes.size() == scenario.cluster.nodes.size());
  CHECK(workload.net_plugin == "/opt/other.so");
  CHECK(workload.net_version == 9);
  CHECK(scenario.time_limit_s == 2);
  REQUIRE(scenario.faults.size() == 2);
  CHECK(scenario.faults[0].kind == FaultKind::kLoss);
  CHECK(scenario.faults[0].at_ps == 3 * kPicosecondsPerMillisecond);
  CHECK(scenario.faults[0].duration_ps == kPicosecondsPerMillisecond);
  CHECK(scenario.faults[0].target == "node0-node1");
  CHECK(scenario.faults[0].amount == 0.25);
  CHECK(scenario.faults[1].amount == 1e9);
  CHECK(scenario.expect.wrong == 0);
  CHECK(scenario.expect.max_over_bound == 1.5);
  CHECK(scenario.expect.min_busbw_GBps == 1.0);
  CHECK(scenario.expect.rail_balance == 0.1);
  CHECK(scenario.expect.connections == 12);
  CHECK(scenario.expect.unreachable == Variables{{"node0", "node2"}});
  CHECK(scenario.expect.error == "boom");
}

TEST_CASE("nodes, NICs, cables and switches can be listed one by one; a subnet numbers the ends") {
  const Scenario scenario = parse(R"(
[[node]]
name = "spark"
[[node.nic]]
device = "rocep1s0f0"
[[node.nic]]
device = "mlx5_1"
addresses = ["192.168.7.1/24", "fd00::1/64"]
[[node]]
name = "server"
[[node.nic]]
device = "rocep9s0f1"
rate = "25Gb/s"
[[node.nic]]
device = "mlx5_1"
addresses = ["192.168.7.9/24"]
[[cable]]
ends = ["spark/rocep1s0f0", "server/rocep9s0f1"]
subnet = "192.168.5.0/30"
[[switch]]
name = "leaf"
ports = ["spark/mlx5_1", "server/mlx5_1"]
rate = "200Gb/s"
latency = "1us"
cable_latency = "50ns"
)");
  const auto& cluster = scenario.cluster;
  REQUIRE(cluster.cables.size() == 1);
  CHECK(cluster.cables[0].name == "cable0");
  CHECK(cluster.cables[0].rate_bps == 25'000'000'000);
  CHECK(to_text(cluster.nodes[0].nics[0].addresses[0]) == "192.168.5.1/30");
  CHECK(to_text(cluster.nodes[1].nics[0].addresses[0]) == "192.168.5.2/30");
  CHECK(cluster.nodes[1].nics[0].netdev == "enp9s0f1np1");
  CHECK(cluster.nodes[0].nics[1].netdev == "eth1");
  CHECK(cluster.nodes[0].nics[1].addresses.size() == 2);
  CHECK(cluster.nodes[0].nics[1].gids.size() == 6);
  REQUIRE(cluster.switches.size() == 1);
  CHECK(cluster.switches[0].rate_bps == 200'000'000'000);
  CHECK(cluster.switches[0].latency_ps == kPicosecondsPerMicrosecond);
  CHECK(cluster.switches[0].propagation_ps == 50 * kPicosecondsPerNanosecond);
  CHECK(models::direct_paths(models::analyse(cluster), 0, 1).size() == 2);
}

TEST_CASE("device_order turns the enumeration round and takes cables and GIDs with it") {
  const std::string reversed = std::string(kTriangle) + "[[node]]\nname = \"node1\"\ndevice_order = \"reversed\"\n";
  const Scenario scenario = parse(reversed);
  const auto& cluster = scenario.cluster;
  CHECK(cluster.nodes[1].nics[0].device == "rocep1s0f1");
  CHECK(cluster.cables[0].b == models::PortRef{1, 1});
  CHECK(cluster.cables[1].a == models::PortRef{1, 0});
  CHECK(models::analyse(cluster).crossed.empty());
  CHECK(cluster.nodes[1].nics[0].gids == models::linux_gid_table({1, 0}, cluster.nodes[1].nics[0].addresses));
  const Scenario listed =
      parse(std::string(kTriangle) + "[[node]]\nname = \"node1\"\ndevice_order = [\"rocep1s0f1\"]\n");
  CHECK(listed.cluster.nodes[1].nics[0].device == "rocep1s0f1");
  CHECK(listed.cluster.nodes[1].nics[1].device == "rocep1s0f0");
}

TEST_CASE("the link-local GID holds the MAC address that the simulated host has") {
  const Scenario scenario = parse(kTriangle);
  const models::RawGid& gid = scenario.cluster.nodes[2].nics[1].gids[0].gid;
  std::uint64_t identifier = 0;
  for (std::size_t i = 8; i < 16; ++i) identifier = identifier << 8U | gid[i];
  CHECK(identifier == sim::node_guid_of({2, 1}));
}

TEST_CASE("--set changes any key, by section, by index and by name; words need no quotes") {
  const std::string file = std::string(kTriangle) + "[[cable]]\nname = \"node0-node1\"\nrate = \"50Gb/s\"\n";
  const Scenario scenario =
      parse(file, {"workload.bytes=1M", "topology.nodes=4", "cable.0.rate=10Gb/s", "cable.node1-node2.latency=5us",
                   "node.node1.device_order=reversed", "node.node0.nic.rocep1s0f0.link=down", "seed=9", "name=other",
                   "environment.NCCL_DEBUG=TRACE", "workload.channels=2", "workload.channel_devices=[1, 1]",
                   "expect.unreachable=[[\"node0\", \"node2\"]]"});
  CHECK(scenario.workload.bytes == kMiB);
  CHECK(scenario.cluster.nodes.size() == 4);
  CHECK(scenario.cluster.cables[0].rate_bps == 10'000'000'000);
  CHECK(scenario.cluster.cables[1].propagation_ps == 5 * kPicosecondsPerMicrosecond);
  CHECK(scenario.cluster.nodes[1].nics[0].device == "rocep1s0f1");
  CHECK_FALSE(scenario.cluster.nodes[0].nics[0].link_up);
  CHECK(scenario.cluster.nodes[0].nics[1].link_up);
  CHECK(scenario.seed == 9);
  CHECK(scenario.name == "other");
  CHECK(scenario.cluster.nodes[3].environment.front().second == "TRACE");
  CHECK(scenario.workload.channel_devices == std::vector<int>{1, 1});
  CHECK(scenario.expect.unreachable.size() == 1);
  CHECK(scenario.overrides.size() == 12);
}

TEST_CASE("two swapped plugs are read, because a wrong subnet is worth a run") {
  const Scenario scenario = parse(kTriangle, {R"(cable.node0-node1.ends=["node0/rocep1s0f1", "node2/rocep1s0f0"])",
                                              R"(cable.node1-node2.ends=["node1/rocep1s0f1", "node1/rocep1s0f0"])"});
  CHECK(models::analyse(scenario.cluster).crossed.size() == 2);
}

TEST_CASE("a recording lies beside its scenario, and the management network can be left out") {
  const Scenario scenario =
      parse(kTriangle, {"management.enabled=false", "workload.kind=idle", "workload.recording=calls/x.jsonl"});
  CHECK(path_beside(scenario, scenario.workload.recording) == "dir/calls/x.jsonl");
  CHECK_FALSE(scenario.cluster.management.has_value());
  CHECK_FALSE(scenario.cluster.nodes[0].management.has_value());
}

TEST_CASE("units are exact, and what could mean two things is refused") {
  CHECK(*parse_rate_bps("100Gb/s") == 100'000'000'000);
  CHECK(*parse_rate_bps("25 Gbit/s") == 25'000'000'000);
  CHECK(*parse_rate_bps("2.5Gbps") == 2'500'000'000);
  CHECK(*parse_rate_bps("1.2Tb/s") == 1'200'000'000'000);
  CHECK_FALSE(parse_rate_bps("12GB/s").has_value());
  CHECK_FALSE(parse_rate_bps("100").has_value());
  CHECK_FALSE(parse_rate_bps("-1Gb/s").has_value());
  CHECK(*parse_time_ps("1us") == 1'000'000);
  CHECK(*parse_time_ps("1.5us") == 1'500'000);
  CHECK(*parse_time_ps("500ns") == 500'000);
  CHECK(*parse_time_ps("3 ms") == 3'000'000'000);
  CHECK(*parse_time_ps("80ps") == 80);
  CHECK_FALSE(parse_time_ps("0.5ps").has_value());
  CHECK_FALSE(parse_time_ps("999999999999s").has_value());
  CHECK_FALSE(parse_time_ps("1").has_value());
  CHECK(*parse_size_bytes("64M") == 64 * kMiB);
  CHECK(*parse_size_bytes("64MiB") == 64 * kMiB);
  CHECK(*parse_size_bytes("1K") == 1024);
  CHECK(*parse_size_bytes("512") == 512);
  CHECK(*parse_size_bytes("0.5K") == 512);
  CHECK_FALSE(parse_size_bytes("64MB").has_value());
  CHECK_FALSE(parse_size_bytes("").has_value());
  CHECK_FALSE(parse_size_bytes(".5K").has_value());
  CHECK(rate_text(100'000'000'000) == "100 Gb/s");
  CHECK(rate_text(2'500'000'000) == "2.5 Gb/s");
  CHECK(time_text(1'500'000) == "1.5 us");
  CHECK(counted(1, "switch") == "1 switch");
  CHECK(counted(2, "switch") == "2 switches");
}

}  // namespace scenario_read_test
