// The points of a sweep: which variants of a scenario it runs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stdexcept>

#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/scenario.h"
#include "testbed/sweep/points.h"

namespace sweep_points_test {

using namespace meshbed::testbed;
using namespace meshbed::testbed::sweep;

namespace {

using Words = std::vector<std::string>;

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

Words names_of(const std::vector<Failure>& failures) {
  Words names;
  for (const Failure& failure : failures) names.push_back(failure.name);
  return names;
}

Scenario read(const std::string& text) { return parse_scenario(text, "sweep.toml", {}); }

}  // namespace

TEST_CASE("commas in brackets, braces and quotes do not separate values") {
  CHECK(parse_axis("workload.bytes=64K,4M").values == Words{"64K", "4M"});
  CHECK(parse_axis("workload.placement=[\"node0\",\"node1\"],contiguous").values ==
        Words{"[\"node0\",\"node1\"]", "contiguous"});
  CHECK(parse_axis("description=\"a, b\",'c, d'").values == Words{"\"a, b\"", "'c, d'"});
  const Axis fault = parse_axis("fault=[cable_down,target=node0-node1],none");
  CHECK(fault.key == "fault");
  CHECK(fault.values == Words{"[cable_down,target=node0-node1]", "none"});
  CHECK(error_of([] { parse_axis("workload.bytes"); }).find("expects KEY=VALUE") != std::string::npos);
  CHECK(error_of([] { parse_axis("workload.bytes=1,,2"); }).find("a value is empty") != std::string::npos);
}

TEST_CASE("points are every combination, the last axis fastest; or what stands together") {
  const std::vector<Axis> axes{{"a", {"1", "2"}}, {"b", {"x", "y"}}};
  CHECK(combine(axes, false, 10) == std::vector<Values>{{"1", "x"}, {"1", "y"}, {"2", "x"}, {"2", "y"}});
  CHECK(combine(axes, true, 10) == std::vector<Values>{{"1", "x"}, {"2", "y"}});
  CHECK(combine({}, false, 10) == std::vector<Values>{{}});
  CHECK(error_of([] {
          combine({{"a", {"1", "2"}}, {"b", {"x"}}}, true, 10);
        }) == "--zip: a has 2 values and b has 1; give each the same number");
}

TEST_CASE("too many points are refused with their number, before any of them exists") {
  std::vector<Axis> axes;
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) axes.push_back({key, Words(10, "v")});
  CHECK(error_of([&] { combine(axes, false, 100000); }) ==
        "--vary: 10000000 points are more than --max-points 100000; vary fewer values or raise --max-points");
  for (int more = 0; more < 20; ++more) axes.push_back({"z" + std::to_string(more), Words(10, "v")});
  CHECK(error_of([&] { combine(axes, false, 100000); }).find("more than --max-points") != std::string::npos);
}

TEST_CASE("points from CSV: keys, then values; a line with too few says which") {
  const auto [axes, points] = read_points("workload.bytes,topology.kind\r\n64K,ring\n\n4M,switch\n", "p.csv");
  CHECK(axes.size() == 2);
  CHECK(axes[1].values == Words{"ring", "switch"});
  CHECK(points == std::vector<Values>{{"64K", "ring"}, {"4M", "switch"}});
  CHECK(error_of([] { read_points("a,b\n1\n", "p.csv"); }) ==
        "p.csv:2: 1 values for 2 keys; give one for each key of the first line");
  CHECK(error_of([] { read_points("", "p.csv"); }).find("expects a line of keys") != std::string::npos);
}

TEST_CASE("failures of a ring: cables, NICs, nodes, pairs of cables") {
  const Scenario ring = read("[topology]\nkind = \"ring\"\nnodes = 4\n");
  CHECK(names_of(failures_of(ring, Fail::kEachCable, "0s")) ==
        Words{"node0-node1", "node1-node2", "node2-node3", "node3-node0"});
  CHECK(failures_of(ring, Fail::kEachNic, "0s").size() == 8);
  CHECK(failures_of(ring, Fail::kPairs, "0s").size() == 6);
  const auto nodes = failures_of(ring, Fail::kEachNode, "2ms");
  CHECK(names_of(nodes) == Words{"node0", "node1", "node2", "node3"});
  CHECK(nodes[1].removed.front().second == "[\"node0\", \"node2\", \"node3\"]");
  CHECK(nodes[1].at_time == Changes{{kAddedFault, "node_kill,target=node1,at=2ms"}});
  CHECK(failures_of(ring, Fail::kNothing, "0s").empty());
}

TEST_CASE("the functions of one QSFP port lose their link together: a cable is what a hand pulls out") {
  const Scenario sparks = read("[topology]\nkind = \"ring\"\nnodes = 4\nrails = 2\ngpu_model = \"GB10\"\n");
  const std::vector<Failure> cables = failures_of(sparks, Fail::kEachCable, "2ms");
  CHECK(names_of(cables) == Words{"node0-node1", "node1-node2", "node2-node3", "node3-node0"});
  CHECK(cables[0].removed.size() == 4);  // two functions at both ends
  CHECK(failures_of(sparks, Fail::kEachNic, "2ms").size() == 16);
  const auto node = [](const char* name, int last) {
    return fmt::format(
        "[[node]]\nname = \"{}\"\ngpu_model = \"GB10\"\nnic = [{{device = \"rocep1s0f0\", addresses = "
        "[\"10.0.0.{}/24\"]}}, "
        "{{device = \"roceP2p1s0f0\", addresses = [\"10.0.1.{}/24\"]}}, {{device = \"rocep1s0f1\", addresses = "
        "[\"10.0.2.{}/24\"]}}]\n",
        name, last, last, last);
  };
  const Scenario on_switch = read(node("a", 1) + node("b", 2) +
                                  "[[switch]]\nname = \"s\"\nports = [\"a/rocep1s0f0\", \"a/roceP2p1s0f0\", "
                                  "\"a/rocep1s0f1\", \"b/rocep1s0f0\", \"b/roceP2p1s0f0\"]\n");
  const std::vector<Failure> plugs = failures_of(on_switch, Fail::kEachCable, "2ms");
  CHECK(names_of(plugs) == Words{"a/rocep1s0f0-s", "a/rocep1s0f1-s", "b-s"});
  CHECK(plugs[0].removed.size() == 2);
  CHECK(switch_link(on_switch.cluster, "a/roceP2p1s0f0-s") == switch_link(on_switch.cluster, "a/rocep1s0f0-s"));
}

TEST_CASE("a NIC's link to a switch counts as a cable, with the NIC's name if the node has several there") {
  const Scenario one = read("[topology]\nkind = \"switch\"\nnodes = 3\n");
  CHECK(names_of(failures_of(one, Fail::kEachCable, "0s")) == Words{"node0-switch0", "node1-switch0", "node2-switch0"});
  const auto two = failures_of(read("[topology]\nkind = \"switch\"\nnodes = 2\nrails = 2\n"), Fail::kEachCable, "1ms");
  REQUIRE(two.size() == 4);
  CHECK(two[0].name.rfind("node0", 0) == 0);
  CHECK(two[0].at_time == Changes{{kAddedFault, "cable_down,target=" + two[0].name + ",at=1ms"}});
}

}  // namespace sweep_points_test
