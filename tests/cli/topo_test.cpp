#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command/commands.h"
#include "testbed/topology/layout.h"
#include "testbed/topology/report.h"
#include "tests/support/command.h"

namespace topo_test {

using namespace meshbed::testbed;

namespace {

Scenario make(const std::string& kind, int nodes, const std::vector<std::string>& overrides = {}) {
  return parse_scenario("[topology]\nkind = \"" + kind + "\"\nnodes = " + std::to_string(nodes) + "\n",
                        kind + std::to_string(nodes) + ".toml", overrides);
}

Layout layout_of(const Scenario& scenario) {
  return lay_out(scenario.cluster, meshbed::models::analyse(scenario.cluster));
}

/// Reads the elements of `xml` and checks that they nest; returns their number, or -1 with a failed check.
int count_elements(const std::string& xml) {
  std::vector<std::string> open;
  int elements = 0;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return -1;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.front() == '?') continue;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return -1;
      open.pop_back();
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return -1;
    ++elements;
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find(' ')));
  }
  return open.empty() ? elements : -1;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const std::string kScenarios = std::string(MESHBED_SOURCE_DIR) + "/scenarios/";

}  // namespace

TEST_CASE("behind a switch, a pair has the rate of its slower port, and never more than the switch") {
  const std::string slow_port = "node.node1.nic.rocep1s0f0.rate=25Gb/s";
  const std::string mixed = topology_report(make("switch", 3, {slow_port}), false);
  CHECK_MESSAGE(
      mixed.find("node0  node1  rocep1s0f0  rocep1s0f0  192.168.100.0/24  25 Gb/s   switch0\n") != std::string::npos,
      mixed);
  CHECK(mixed.find("node0  node2  rocep1s0f0  rocep1s0f0  192.168.100.0/24  100 Gb/s  switch0\n") != std::string::npos);
  CHECK(mixed.find("node1  node2  rocep1s0f0  rocep1s0f0  192.168.100.0/24  25 Gb/s   switch0\n") != std::string::npos);
  const std::string large = topology_report(make("switch", 64, {slow_port}), false);
  CHECK_MESSAGE(large.find("192.168.100.0/24  25 Gb/s to 100 Gb/s  switch0  64 NICs: ") != std::string::npos, large);
  const std::string slow_switch = topology_report(make("switch", 3, {"switch.switch0.rate=10Gb/s"}), false);
  CHECK(occurrences(slow_switch, "  10 Gb/s  switch0\n") == 3);
}

TEST_CASE("topo check prints each pair with its NICs, subnet, rate and cable in columns") {
  CHECK(topology_report(make("ring", 4), false) ==
        "ring4: 4 nodes, 8 NICs, 4 cables, 0 switches; shape: ring\n"
        "\n"
        "pair          NICs                    subnet            rate      over\n"
        "node0  node1  rocep1s0f1  rocep1s0f0  192.168.100.0/24  100 Gb/s  node0-node1\n"
        "node0  node2  no direct path\n"
        "node0  node3  rocep1s0f0  rocep1s0f1  192.168.103.0/24  100 Gb/s  node3-node0\n"
        "node1  node2  rocep1s0f1  rocep1s0f0  192.168.101.0/24  100 Gb/s  node1-node2\n"
        "node1  node3  no direct path\n"
        "node2  node3  rocep1s0f1  rocep1s0f0  192.168.102.0/24  100 Gb/s  node2-node3\n"
        "\n"
        "Without a direct path: 2 of 6 pairs.\n"
        "  node0  node2  2 hops, over node1\n"
        "  node1  node3  2 hops, over node0\n"
        "\n"
        "Every cable joins two NICs of one subnet.\n");
}

TEST_CASE("topo check puts further rails below their pair, and crossed cables at the end") {
  const std::string report = topology_report(make("ring", 2, {"topology.rails=2"}), false);
  CHECK(report.find("node0  node1  rocep1s0f0  rocep1s0f0  192.168.100.0/24  100 Gb/s  node0-node1\n"
                    "              rocep1s0f1  rocep1s0f1  192.168.101.0/24  100 Gb/s  node0-node1-rail1\n") !=
        std::string::npos);
  const std::string crossed =
      topology_report(make("ring", 2, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.200.2/24"])"}), false);
  CHECK(crossed.find("Without a direct path: 1 of 1 pair.\n  node0  node1  not even by relay\n") != std::string::npos);
  CHECK(crossed.find("Crossed cables: 1.\n"
                     "  node0-node1  node0/rocep1s0f0  192.168.100.0/24  node1/rocep1s0f0  192.168.200.0/24\n") !=
        std::string::npos);
}

TEST_CASE("topo check files a wrong prefix length under what it is, with both addresses, and no cable under crossed") {
  const std::string report =
      topology_report(make("ring", 2, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.100.130/25"])"}), false);
  CHECK(report.find("Crossed") == std::string::npos);
  CHECK_MESSAGE(
      report.find(
          "Wrong prefix lengths: 1. The two ends' subnets overlap, but only one end finds the other in its own;\n"
          "nothing can pass until both have the same prefix length.\n"
          "  node0-node1  node0/rocep1s0f0  192.168.100.1/24  node1/rocep1s0f0  192.168.100.130/25\n") !=
          std::string::npos,
      report);
}

TEST_CASE("topo check summarises large clusters, and --all does not") {
  const Scenario scenario = make("ring", 100);
  const std::string report = topology_report(scenario, false);
  CHECK(report.find("(one line a subnet; --all prints one a pair)") != std::string::npos);
  CHECK(report.find("Without a direct path: 4850 of 4950 pairs.") != std::string::npos);
  CHECK(report.find("  and 4786 more; --all lists them\n") != std::string::npos);
  CHECK(occurrences(topology_report(scenario, true), "no direct path") == 4850);
  CHECK(topology_report(make("switch", 1000), false).find("1000 NICs: node0/rocep1s0f0 ... node999/rocep1s0f0") !=
        std::string::npos);
}

TEST_CASE("no label covers another label, a node or a switch, for every kind of 2 to 16 nodes") {
  for (const std::string kind : {"ring", "line", "full-mesh", "star", "switch"}) {
    for (int nodes = 2; nodes <= 16; ++nodes) {
      for (const char* rails : {"topology.rails=1", "topology.rails=2"}) {
        CAPTURE(kind);
        CAPTURE(nodes);
        CAPTURE(rails);
        const Layout layout = layout_of(make(kind, nodes, {rails}));
        std::vector<Box> boxes;
        for (const auto& card : layout.cards) boxes.push_back(card.box);
        for (const auto& box : layout.switches) boxes.push_back(box.box);
        for (const auto& cable : layout.cables) boxes.push_back(cable.label);
        int overlaps = 0;
        for (std::size_t i = 0; i < boxes.size(); ++i) {
          for (std::size_t j = 0; j < i; ++j) overlaps += boxes[i].overlaps(boxes[j], 0) ? 1 : 0;
          CHECK(boxes[i].x >= 0);
          CHECK(boxes[i].y >= kHeaderHeight);
          CHECK(boxes[i].x + boxes[i].width <= layout.width);
          CHECK(boxes[i].y + boxes[i].height <= layout.height);
        }
        CHECK(overlaps == 0);
        for (std::size_t i = 1; i < layout.legend.size(); ++i) {
          const Point& last = layout.legend[i - 1].place;
          CHECK((layout.legend[i].place.y > last.y || layout.legend[i].place.x > last.x));
        }
      }
    }
  }
}

TEST_CASE("a cable has the colour of its subnet, and so have the two NICs on it") {
  const Scenario scenario = make("ring", 5);
  const Layout layout = layout_of(scenario);
  for (std::size_t i = 0; i < scenario.cluster.cables.size(); ++i) {
    const auto& cable = scenario.cluster.cables[i];
    const auto& a = layout.cards[static_cast<std::size_t>(cable.a.node)];
    const auto& b = layout.cards[static_cast<std::size_t>(cable.b.node)];
    CHECK(layout.cables[i].colour == a.colours[static_cast<std::size_t>(cable.a.nic)]);
    CHECK(layout.cables[i].colour == b.colours[static_cast<std::size_t>(cable.b.nic)]);
    for (std::size_t j = 0; j < i; ++j) CHECK(layout.cables[i].colour != layout.cables[j].colour);
  }
}

TEST_CASE("the SVG is well-formed and names every node, device and subnet once a place") {
  const std::string svg = topology_svg(make("ring", 3));
  CHECK(count_elements(svg) > 20);
  for (const char* node : {"node0", "node1", "node2"}) CHECK(occurrences(svg, ">" + std::string(node) + "<") == 1);
  CHECK(occurrences(svg, "rocep1s0f0") == 3);
  for (const char* subnet : {">192.168.100.0/24<", ">192.168.101.0/24<", ">192.168.102.0/24<"}) {
    CHECK(occurrences(svg, subnet) == 1);
  }
  CHECK(occurrences(svg, ">100 Gb/s<") == 3);
}

TEST_CASE("text from the file cannot break the SVG") {
  const Scenario scenario = make("ring", 3, {R"(description="<b> & \"quotes\" \u0001 </svg>")"});
  const std::string svg = topology_svg(scenario);
  CHECK(count_elements(svg) > 20);
  CHECK(svg.find("&lt;b&gt; &amp; &quot;quotes&quot;  &lt;/svg&gt;") != std::string::npos);
}

TEST_CASE("a changed cluster is described by its changes, not by what the file said of another one") {
  const std::vector<std::string> changes{"topology.kind=torus", "topology.shape=[3, 3]", "topology.nodes=9"};
  const std::string svg = topology_svg(read_scenario(kScenarios + "pair.toml", changes));
  CHECK(svg.find("two nodes on one cable") == std::string::npos);
  CHECK(svg.find(">changed by --set topology.kind=torus --set topology.shape=[3, 3] --set topology.nodes=9<") !=
        std::string::npos);
  CHECK(svg.find(">9 nodes, 18 cables: torus 3x3<") != std::string::npos);
  // What changes only the workload leaves the description as it is.
  CHECK(topology_svg(read_scenario(kScenarios + "pair.toml", {"workload.channels=2"})).find("two nodes on one cable") !=
        std::string::npos);
}

TEST_CASE("a crossed cable is dotted in the alarm colour and says so") {
  const std::string svg =
      topology_svg(make("ring", 2, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.200.2/24"])"}));
  CHECK(svg.find(">crossed!<") != std::string::npos);
  CHECK(svg.find("stroke=\"#b00020\"") != std::string::npos);
}

TEST_CASE("a picture of too many nodes is refused, not drawn badly") {
  CHECK_THROWS_WITH_AS(topology_svg(make("switch", 129)),
                       "switch129.toml: 129 nodes are too many for a picture (at most 128); use topo check",
                       ScenarioError);
  CHECK(count_elements(topology_svg(make("switch", 128))) > 128);
}

TEST_CASE("topo: exit 0, 1 for a crossed cable, 2 for wrong usage; draw writes the file") {
  const auto topo = [](const std::vector<std::string>& arguments, std::string& output) {
    std::ostringstream out;
    std::ostringstream err;
    const int status = topo_command(arguments, out, err);
    output = out.str() + err.str();
    return status;
  };
  std::string output;
  CHECK(topo({"check", kScenarios + "ring4.toml"}, output) == 0);
  CHECK(output.find("ring4: 4 nodes") == 0);
  CHECK(
      topo({"check", kScenarios + "pair.toml", "--set", R"(node.node1.nic.rocep1s0f0.addresses=["192.168.200.2/24"])"},
           output) == 1);
  CHECK(topo({"check"}, output) == 2);
  CHECK(topo({"paint", "x"}, output) == 2);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& why) {
    CHECK(topo(arguments, output) == 2);
    CHECK_MESSAGE(output.find("meshbed: topo: " + why + "; usage: ") == 0, output);
  };
  const std::string pair = kScenarios + "pair.toml";
  refused({}, "say check, draw, rules, why, cuts, env or diff");
  refused({"paint", pair}, "there is no \"paint\"");
  refused({"draw"}, "FILE is missing");
  refused({"check", pair, "-o", "x.svg"}, "--output is for draw only");
  refused({"rules", pair, "--all"}, "--all is for check only");
  refused({"check", pair, "--cablings", "3"}, "--cablings is for rules only");
  refused({"rules", pair, "--cablings", "3"}, "--cablings takes no FILE");
  refused({"rules", "--cablings", "3", "--set", "topology.nodes=3"},
          "--cablings has no scenario whose keys --set could override");
  CHECK(topo({"--help"}, output) == 0);
  CHECK_THROWS_AS(topo({"check", "/no/such.toml"}, output), ScenarioError);
  const std::filesystem::path file = meshbed::test::scratch_folder("topo") + "/pair.svg";
  CHECK(topo({"draw", kScenarios + "pair.toml", "-o", file.string()}, output) == 0);
  std::ifstream written(file);
  std::ostringstream svg;
  svg << written.rdbuf();
  CHECK(svg.str() == topology_svg(read_scenario(kScenarios + "pair.toml", {})));
  CHECK_THROWS_AS(topo({"draw", kScenarios + "pair.toml", "-o", "/no/such/folder/x.svg"}, output), std::runtime_error);
}

}  // namespace topo_test
