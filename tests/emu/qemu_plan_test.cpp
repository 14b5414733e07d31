// Which machines are joined, and the arguments of QEMU.
#include "emu/microvm/qemu_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/emu/clusters.h"

namespace qemu_plan_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

ClusterPlan plan(const EmuCluster& cluster, bool kvm = false) {
  QemuOptions options{.kernel = "/k", .initramfs = "/i", .kvm = kvm, .tsc_khz = 2'596'000, .job_folders = {}};
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node)
    options.job_folders.push_back("/job, of " + std::to_string(node));
  return plan_cluster(cluster, options);
}

/// The values of an option, in order.
std::vector<std::string> values(const QemuPlan& plan, const std::string& option) {
  std::vector<std::string> found;
  for (std::size_t at = 1; at + 1 < plan.argv.size(); ++at) {
    if (plan.argv[at] == option) found.push_back(plan.argv[at + 1]);
  }
  return found;
}

/// Every line has exactly two ends, one on each side.
void check_lines(const ClusterPlan& plan) {
  std::map<int, std::vector<int>> sides;
  const auto add = [&](const QemuPlan& one) {
    for (const LineEnd& end : one.lines) sides[end.line].push_back(end.side);
  };
  for (const QemuPlan& node : plan.nodes) add(node);
  if (plan.hub) add(*plan.hub);
  CHECK(sides.size() == static_cast<std::size_t>(plan.lines));
  for (auto& [line, ends] : sides) {
    std::sort(ends.begin(), ends.end());
    CHECK(ends == std::vector<int>{0, 1});
  }
}

}  // namespace

TEST_CASE("a triangle is three lines between three nodes, with no hub") {
  const ClusterPlan triangle = plan(mesh_cluster(3));
  REQUIRE(triangle.nodes.size() == 3);
  CHECK_FALSE(triangle.hub.has_value());
  CHECK(triangle.lines == 3);
  check_lines(triangle);
  CHECK(values(triangle.nodes[0], "-netdev") ==
        std::vector<std::string>{"stream,id=nic0,addr.type=fd,addr.str=5", "stream,id=nic1,addr.type=fd,addr.str=6"});
  CHECK(triangle.nodes[2].lines[0].line == 1);  // wire 1 joins nodes 0 and 2
  CHECK(triangle.nodes[2].lines[1].line == 2);
  const std::vector<std::string> devices = values(triangle.nodes[1], "-device");
  REQUIRE(devices.size() == 4);
  CHECK(devices[2] == "virtio-net-pci,netdev=nic0,mac=02:00:00:00:01:00,romfile=");
}

TEST_CASE("a translated guest has a place for a second processor, or its NICs fall silent") {
  // Until then 3 of 33 runs of the conformance suite in pairs side by side lost one.
  EmuCluster pair = mesh_cluster(2);
  CHECK(values(plan(pair).nodes[0], "-smp") == std::vector<std::string>{"1,maxcpus=2"});
  CHECK(values(plan(pair, true).nodes[0], "-smp") == std::vector<std::string>{"1,maxcpus=1"});
  // Without it the guest's clock is a device, from two places on.
  CHECK(values(plan(pair).nodes[0], "-append").front().find(" tsc=reliable tsc_early_khz=2596000") !=
        std::string::npos);
  CHECK(values(plan(pair, true).nodes[0], "-append").front().find("tsc") == std::string::npos);
  pair.nodes[1].cpus = 3;
  CHECK(values(plan(pair).nodes[1], "-smp") == std::vector<std::string>{"3,maxcpus=3"});
}

TEST_CASE("a wire with more than two ends is a hub in a QEMU of its own") {
  const ClusterPlan star = plan(switch_cluster_of(3));
  REQUIRE(star.hub.has_value());
  check_lines(star);
  CHECK(star.lines == 3);
  CHECK(values(*star.hub, "-M") == std::vector<std::string>{"none"});
  CHECK(values(*star.hub, "-netdev") ==
        std::vector<std::string>{
            "stream,id=wire0-0-0,addr.type=fd,addr.str=5", "hubport,id=hub-wire0-0-0,hubid=0,netdev=wire0-0-0",
            "stream,id=wire0-1-0,addr.type=fd,addr.str=6", "hubport,id=hub-wire0-1-0,hubid=0,netdev=wire0-1-0",
            "stream,id=wire0-2-0,addr.type=fd,addr.str=7", "hubport,id=hub-wire0-2-0,hubid=0,netdev=wire0-2-0"});
}

TEST_CASE("the management network is a hub apart from the wires, with addresses of its own") {
  EmuCluster cluster = switch_cluster_of(3);
  for (EmuNode& node : cluster.nodes) node.management_address = "10.0.0.1/24";
  const ClusterPlan both = plan(cluster);
  check_lines(both);
  CHECK(both.lines == 6);
  CHECK(values(*both.hub, "-netdev").back() == "hubport,id=hub-management-2,hubid=1,netdev=management-2");
  CHECK(values(both.nodes[1], "-netdev").back() == "stream,id=management,addr.type=fd,addr.str=6");
  CHECK(values(both.nodes[1], "-device").back() == "virtio-net-pci,netdev=management,mac=52:54:00:00:00:01,romfile=");
}

TEST_CASE("a port without a cable, a long MTU and a path with commas are written as QEMU expects them") {
  EmuCluster cluster = mesh_cluster(2);
  EmuNic loose = nic_on_wire(0, 1, -1);
  loose.mtu = 9000;
  cluster.nodes[0].nics.push_back(loose);
  const ClusterPlan made = plan(cluster);
  check_lines(made);
  CHECK(values(made.nodes[0], "-netdev").back() == "hubport,id=nic1,hubid=1");
  CHECK(values(made.nodes[0], "-device").back() ==
        "virtio-net-pci,netdev=nic1,mac=02:00:00:00:00:01,romfile=,host_mtu=9000");
  CHECK(values(made.nodes[0], "-fsdev").back() == "local,id=job,path=/job,, of 0,security_model=none");
}

TEST_CASE("without KVM the code cache is bounded; with it the guest has the host's processor") {
  const ClusterPlan tcg = plan(mesh_cluster(2));
  CHECK(values(tcg.nodes[0], "-accel") == std::vector<std::string>{"tcg,tb-size=64"});
  CHECK(values(tcg.nodes[0], "-m") == std::vector<std::string>{"256"});
  const ClusterPlan kvm = plan(mesh_cluster(2), true);
  CHECK(values(kvm.nodes[0], "-accel") == std::vector<std::string>{"kvm"});
  CHECK(values(kvm.nodes[0], "-cpu") == std::vector<std::string>{"host"});
}

}  // namespace qemu_plan_test
