// Gates: a class stands for a file only if both have the same transport, nodes, library and about the same rate.
#include "testbed/fidelity/gates.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include "testbed/fidelity/left_out.h"
#include "testbed/fidelity/nearest_class.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/fidelity/validated.h"

namespace gates_test {

using namespace meshbed::testbed;
using meshbed::models::Machine;
using meshbed::models::MachineTransport;
using meshbed::models::Standing;

namespace {

const std::string kRoot = MESHBED_SOURCE_DIR;
const std::string kColumns = "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";

const std::vector<Machine>& profiles() {
  static const std::vector<Machine> all = shipped_machines();
  return all;
}

const std::vector<meshbed::models::Peer>& no_peers() {
  static const std::vector<meshbed::models::Peer> none;
  return none;
}

MeasuredFile file_of(const std::string& topology_class, const std::string& set_up, const std::string& row) {
  return parse_measured((topology_class.empty() ? "" : "# topology_class: " + topology_class + "\n") +
                            "# setup: " + set_up + "\n" + kColumns + row + "\n",
                        "x.csv", {});
}

std::optional<Chosen> chosen(const std::string& topology_class, const std::string& set_up, const std::string& row) {
  const MeasuredFile file = file_of(topology_class, set_up, row);
  return choose_class(file, file.rows.front(), profiles(), no_peers);
}

}  // namespace

TEST_CASE("choices that were wrong: none of another transport, node count, link, library or rate stands for a file") {
  // An 8-node TCP cluster is no PCIe box, and eight GPUs behind PCIe switches are no Spark cluster.
  auto tcp =
      chosen("1gpu/node, 8 nodes, 25GbE TCP switch", "8 nodes x 1 A10, PCIe, NCCL", "all_reduce,8,8,1024,300,,,out,");
  REQUIRE(tcp);
  CHECK(tcp->machine.transport == MachineTransport::kTcp);
  auto pcie =
      chosen("1 node, PCIe switch P2P", "8x RTX PRO 6000 (PCIe 5.0 x16), NCCL ring", "all_reduce,8,1,4096,24,,,out,");
  REQUIRE(pcie);
  CHECK(pcie->machine.transport == MachineTransport::kWithin);
  CHECK(pcie->machine.name.find("spark") == std::string::npos);
  auto custom =
      chosen("1 node, PCIe switch P2P", "8x RTX PRO 6000 (PCIe 5.0 x16)", "all_reduce,8,1,4096,8,,,out,custom_oneshot");
  REQUIRE(custom);
  CHECK(custom->standing == Standing::kNoClass);
  CHECK(custom->why.find("no class of this kind is known") != std::string::npos);
  // One node of xGMI is predicted, and two are no NVLink.
  auto one = chosen("8gpu/node xGMI, no NIC", "8x MI300X, rccl-tests", "all_reduce,8,1,1048576,60,,,out,");
  REQUIRE(one);
  CHECK(one->machine.name == "mi300x-xgmi");
  auto slower = chosen("8gpu/node xGMI, no NIC", "8x MI50, rccl-tests", "all_gather,8,1,1048576,60,,,out,");
  REQUIRE(slower);
  CHECK(slower->machine.transport == MachineTransport::kWithin);
  auto two = chosen("8gpu/node xGMI, 8x400G RoCE", "2x8 MI308X, RCCL", "all_reduce,16,2,1048576,60,,,out,");
  REQUIRE(two);
  CHECK(two->standing == Standing::kNoClass);
  CHECK(two->machine.name == "no-class");
  // Adapters of 400G that are counted both ways are no ConnectX-5 of 100G.
  auto both = chosen("", "ib_write_bw -b -q 4, AMD Pollara 400G, RoCE", "ib_write_bw,2,2,65536,1,,,na,bidir_sum_host");
  REQUIRE(both);
  CHECK(both->machine.name == "nic-pollara-400g");
  auto slow = chosen("", "soft-RoCE on a 1 Gb/s Ethernet link, ib_read_bw", "ib_read_bw,2,2,65536,600,,,na,");
  REQUIRE(slow);
  CHECK(slow->machine.name == "nic-rxe-1g");
  CHECK(slow->machine[meshbed::models::MachineParameter::kNicGBps] == doctest::Approx(0.125));
  // No transport, no prediction.
  CHECK_FALSE(chosen("abacus", "beads", "all_reduce,3,3,1024,70,,,out,"));
}

TEST_CASE(
    "a class that passes the gates says which; one whose rate is more than a quarter away does not stand for it") {
  auto near = chosen("8gpu/node NVLink, 8x400G InfiniBand", "NCCL", "all_reduce,16,2,1048576,120,,,out,");
  REQUIRE(near);
  CHECK(near->standing == Standing::kNearClass);
  CHECK(near->machine.name == "b200-ib400");
  CHECK(near->why.find("which passes the gates verbs, several nodes, nccl, 3200 Gb/s a node") != std::string::npos);
  auto half = chosen("8gpu/node NVLink, 8x300G InfiniBand", "NCCL", "all_reduce,16,2,1048576,120,,,out,");
  REQUIRE(half);
  CHECK(half->standing == Standing::kNoClass);
  CHECK(half->why.find("passes the gates, but its rates") != std::string::npos);
  CHECK(half->machine[meshbed::models::MachineParameter::kNics] == 8);
  // The header's transport is that of the cable, and not a word beside it.
  auto unstated = chosen("4gpu/node NVLink, IB", "NCCL", "all_reduce,16,4,1048576,120,,,out,");
  REQUIRE(unstated);
  CHECK(unstated->standing == Standing::kNoClass);
  CHECK(unstated->why.find("the header states no rate") != std::string::npos);
}

TEST_CASE("each gate alone refuses a class, and says why") {
  const Gates verbs{.transport = MachineTransport::kVerbs, .link = {}, .plugin = {}, .library = "nccl", .gbits = 400.0};
  CHECK(gate_failure(verbs, verbs).empty());
  const auto failure = [&](const auto& change) {
    Gates other = verbs;
    change(other);
    return gate_failure(verbs, other);
  };
  CHECK(failure([](Gates& gates) { gates.transport = MachineTransport::kTcp; }) == "of transport tcp, not verbs");
  CHECK(failure([](Gates& gates) { gates.transport = MachineTransport::kWithin; }) == "of one node, not of several");
  CHECK(failure([](Gates& gates) { gates.library = "mpi"; }) == "of mpi, not nccl");
  CHECK(failure([](Gates& gates) { gates.gbits = 100; }) == "of 100 Gb/s a node, not 400");
  CHECK(failure([](Gates& gates) { gates.gbits = 200; }).empty());
  CHECK(failure([](Gates& gates) { gates.ranks_per_node = 8; }) == "of several GPUs a node");
  CHECK(failure([](Gates& gates) { gates.cabling = meshbed::models::Cabling::kRing; }) ==
        "of cabling ring, not switch");
}

TEST_CASE("the shipped table and the fidelity page are of the same points") {
  std::ifstream file(kRoot + "/results/fidelity/README.md", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  REQUIRE(page.find("## Sources left out") != std::string::npos);
  for (const auto distance : meshbed::models::kDistances) {
    std::size_t points = 0;
    for (const auto& cell : meshbed::models::shipped_interval_table().cells()) {
      if (cell.distance == distance && cell.gate == meshbed::models::kAnyGate) points += cell.points;
    }
    const std::string row = std::string("| ") + name_of(distance) + " | " + std::to_string(points) + " |";
    CHECK_MESSAGE(page.find(row) != std::string::npos, row);
  }
}

TEST_CASE("intervals are made of the other files: a cell of one odd file leans on all, and none is judged by itself") {
  std::vector<LeftOutPoint> points;
  const auto add = [&](const std::string& source, const std::string& gate, double factor) {
    for (int each = 0; each < 10; ++each) {
      points.push_back({.source = source,
                        .distance = meshbed::models::Distance::kUnseen,
                        .gate = gate,
                        .sizes = "small",
                        .wider = 1,
                        .measured_us = 100 * factor,
                        .predicted_us = 100});
    }
  };
  for (int file = 0; file < 20; ++file) add("f" + std::to_string(file), "verbs", file % 2 == 0 ? 1.1 : 0.9);
  add("odd", "tcp", 3);
  const auto table = make_interval_table(points);
  const auto& verbs = table.at(meshbed::models::Distance::kUnseen, "verbs", "small");
  CHECK(verbs.high == doctest::Approx(std::log(1.1)));
  CHECK(verbs.low == doctest::Approx(std::log(0.9)));
  CHECK(verbs.sources == 20);
  CHECK(table.at(meshbed::models::Distance::kUnseen, "tcp", "small").high == doctest::Approx(std::log(3)));
  CHECK(make_interval_table(points, "odd").at(meshbed::models::Distance::kUnseen, "tcp", "small").gate == "any");
  const std::vector<GroupScore> groups = score_groups(points);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].points == 210);
  CHECK(groups[0].sources == 21);
  CHECK(groups[0].inside == doctest::Approx(200.0 / 210));  // all but the odd one, which no other file is like
  CHECK(groups[0].median == doctest::Approx(1 / 0.9 - 1));
}

}  // namespace gates_test
