// [[fault]] entries as steps, and what follows from them for ports and nodes: the same for every world.
#include "testbed/scenario/fault_board.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fault_board_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

/// Keeps the calls that it gets.
class Site final : public FaultSite {
 public:
  void shape(models::PortRef port, const sim::Shape& shape) override {
    calls_.push_back(fmt::format("shape {}.{} loss {:.4f} delay {} rate {} reorder {}", port.node, port.nic, shape.loss,
                                 shape.delay_ps, shape.rate_bps, shape.reorder));
  }
  void set_link(models::PortRef port, bool up) override {
    calls_.push_back(fmt::format("{}.{} {}", port.node, port.nic, up ? "up" : "down"));
  }
  void change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) override {
    calls_.push_back(fmt::format("{}.{} {} > {}", port.node, port.nic, to_text(from), to_text(to)));
  }
  void stop(int node) override { calls_.push_back(fmt::format("stop {}", node)); }
  void go_on(int node) override { calls_.push_back(fmt::format("go on {}", node)); }
  void kill(int node) override { calls_.push_back(fmt::format("kill {}", node)); }
  void strangers(std::size_t fault, bool come) override {
    calls_.push_back(fmt::format("strangers {} {}", fault, come ? "come" : "go"));
  }

  /// Those since take() was called before.
  std::string take() { return fmt::format("{}", fmt::join(std::exchange(calls_, {}), "; ")); }

 private:
  std::vector<std::string> calls_;
};

/// A board, and the calls that its site gets at each step.
class RecordedBoard {
 public:
  explicit RecordedBoard(const Scenario& scenario) : board_(scenario) {}
  std::string operator()(std::size_t index, bool begins) {
    board_.take({index, begins, 0}, site_);
    return site_.take();
  }

 private:
  FaultBoard board_;
  Site site_;
};

/// Three nodes in a ring: node0/rocep1s0f1 - node1/rocep1s0f0, and so on.
Scenario triangle(const std::string& faults) {
  return parse_scenario("[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nbytes = \"4K\"\niterations = 4\n" + faults,
                        "test.toml", {});
}

std::string fault(const std::string& kind, const std::string& target, const std::string& rest = "") {
  return fmt::format("[[fault]]\nkind = \"{}\"\ntarget = \"{}\"\n{}\n", kind, target, rest);
}

}  // namespace

TEST_CASE("steps count from their point, in order of time; a duration is a second step") {
  const Scenario scenario = triangle(fault("loss", "node0-node1", "amount = 0.5\nat = \"2ms\"\nduration = \"1ms\"") +
                                     fault("cable_down", "node1-node2", "at = \"1ms\"") +
                                     fault("node_kill", "node2", "point = \"iteration\"\niteration = 3"));
  const FaultBoard board(scenario);
  constexpr Picoseconds kMs = kPicosecondsPerMillisecond;
  CHECK(board.steps_from(kPointStart) ==
        std::vector<FaultStep>{{1, true, kMs}, {0, true, 2 * kMs}, {0, false, 3 * kMs}});
  CHECK(board.steps_from(iteration_point(3)) == std::vector<FaultStep>{{2, true, 0}});
  CHECK(board.steps_from(iteration_point(2)).empty());
  CHECK(points_of(scenario) == std::set<std::string>{"iteration 3", "start"});
  CHECK(text_of(scenario, {0, false, 0}) == "end of loss 0.5 on node0-node1");
  CHECK(not_taken(scenario, {{{1, true, kMs}, 5}, {{2, true, 0}, 6}}) == std::vector<FaultStep>{{0, true, 2 * kMs}});
}

TEST_CASE("faults on one port add up, and leave what is left when one ends") {
  const Scenario scenario = triangle(
      fault("loss", "node0-node1", "amount = 0.5") + fault("loss", "node0/rocep1s0f1", "amount = 0.5") +
      fault("delay", "node0-node1", "amount = \"1us\"") + fault("rate", "node0/rocep1s0f1", "amount = \"1Gb/s\"") +
      fault("reorder", "node2/rocep1s0f0", "amount = 0.25"));
  RecordedBoard take(scenario);
  CHECK(take(0, true) ==
        "shape 0.1 loss 0.5000 delay 0 rate 0 reorder 0; shape 1.0 loss 0.5000 delay 0 rate 0 reorder 0");
  CHECK(take(1, true) == "shape 0.1 loss 0.7500 delay 0 rate 0 reorder 0");
  CHECK(take(2, true) ==
        "shape 0.1 loss 0.7500 delay 1000000 rate 0 reorder 0; shape 1.0 loss 0.5000 delay 1000000 rate 0 reorder 0");
  // A rate holds in both directions: the other end of the cable sends as slowly.
  CHECK(take(3, true) ==
        "shape 0.1 loss 0.7500 delay 1000000 rate 1000000000 reorder 0; shape 1.0 loss 0.5000 delay 1000000 rate "
        "1000000000 reorder 0");
  CHECK(take(0, false) ==
        "shape 0.1 loss 0.5000 delay 1000000 rate 1000000000 reorder 0; shape 1.0 loss 0.0000 delay 1000000 rate "
        "1000000000 reorder 0");
  CHECK(take(0, false).empty());
  CHECK(take(4, true) == fmt::format("shape 2.0 loss 0.0000 delay {} rate 0 reorder 0.25", kReorderDelay_ps));
}

TEST_CASE("a port that begins with link = down has none until a port_up") {
  const Scenario scenario = parse_scenario("[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nbytes = \"4K\"\n" +
                                               fault("cable_down", "node0-node1", "duration = \"1ms\"") +
                                               fault("port_up", "node0/rocep1s0f1"),
                                           "test.toml", {"node.node0.nic.rocep1s0f1.link=down"});
  RecordedBoard take(scenario);
  CHECK(take(0, true).empty());
  CHECK(take(0, false).empty());
  CHECK(take(1, true) == "0.1 up; 1.0 up");
  CHECK(take(0, true) == "0.1 down; 1.0 down");
}

TEST_CASE("a cable has a link while both ends are in, whatever was pulled first") {
  const Scenario scenario =
      triangle(fault("cable_down", "node0-node1", "duration = \"1ms\"") + fault("port_down", "node1/rocep1s0f0") +
               fault("port_up", "node1/rocep1s0f0") + fault("cable_up", "node0-node1"));
  RecordedBoard take(scenario);
  CHECK(take(0, true) == "0.1 down; 1.0 down");
  CHECK(take(1, true).empty());
  CHECK(take(0, false).empty());  // the cable is in again, but the port is off
  CHECK(take(2, true) == "0.1 up; 1.0 up");
  CHECK(take(1, true) == "0.1 down; 1.0 down");
  CHECK(take(3, true).empty());
  CHECK(take(1, false) == "0.1 up; 1.0 up");
}

TEST_CASE("a node without power takes its peers' links with it, and gets no further notice") {
  const Scenario scenario =
      triangle(fault("node_kill", "node1") + fault("loss", "node0-node1", "amount = 0.5") +
               fault("node_continue", "node1") + fault("node_stop", "node2", "duration = \"1s\""));
  RecordedBoard take(scenario);
  CHECK(take(0, true) == "kill 1; 0.1 down; 2.0 down");
  CHECK(take(1, true) == "shape 0.1 loss 0.5000 delay 0 rate 0 reorder 0");
  CHECK(take(2, true).empty());
  CHECK(take(3, true) == "stop 2");
  CHECK(take(3, false) == "go on 2");
}

TEST_CASE("an address changes to that of the last change that holds, and back; a node without power gets no notice") {
  const std::string end = "node1/rocep1s0f0";
  const Scenario scenario = triangle(
      fault("address_change", end, "address = \"192.168.100.77/24\"\nduration = \"1ms\"") +
      fault("address_change", end, "address = \"192.168.100.78/24\"") +
      fault("address_change", "node1/rocep1s0f1", "address = \"192.168.101.9/24\"") + fault("node_kill", "node1"));
  CHECK(text_of(scenario, {0, true, 0}) == "address_change to 192.168.100.77/24 on node1/rocep1s0f0");
  CHECK(cuts(scenario.faults[0].kind));
  RecordedBoard take(scenario);
  CHECK(take(0, true) == "1.0 192.168.100.2/24 > 192.168.100.77/24");
  CHECK(take(1, true) == "1.0 192.168.100.77/24 > 192.168.100.78/24");
  CHECK(take(0, false).empty());
  CHECK(take(1, false) == "1.0 192.168.100.78/24 > 192.168.100.2/24");
  CHECK(take(2, true) == "1.1 192.168.101.1/24 > 192.168.101.9/24");
  take(3, true);
  CHECK(take(2, false).empty());
}

TEST_CASE("on a switch a port stands for itself") {
  const Scenario scenario =
      parse_scenario("[topology]\nkind = \"switch\"\nnodes = 3\n[workload]\nbytes = \"4K\"\n" +
                         fault("port_down", "node1/rocep1s0f0") + fault("delay", "switch0", "amount = \"1us\""),
                     "test.toml", {});
  FaultBoard board(scenario);
  Site site;
  board.take({0, true, 0}, site);
  CHECK(site.take() == "1.0 down");
  board.take({1, true, 0}, site);
  CHECK(site.take() ==
        "shape 0.0 loss 0.0000 delay 1000000 rate 0 reorder 0; shape 1.0 loss 0.0000 delay 1000000 rate 0 reorder 0; "
        "shape 2.0 loss 0.0000 delay 1000000 rate 0 reorder 0");
}

TEST_CASE("faults that overlap hold until the last has ended, or until one that ends them all") {
  const Scenario scenario = triangle(fault("cable_down", "node0-node1") + fault("cable_down", "node0-node1") +
                                     fault("cable_up", "node0-node1") + fault("node_stop", "node2") +
                                     fault("node_stop", "node2") + fault("node_continue", "node2"));
  RecordedBoard take(scenario);
  CHECK(take(0, true) == "0.1 down; 1.0 down");
  CHECK(take(1, true).empty());
  CHECK(take(0, false).empty());
  CHECK(take(1, false) == "0.1 up; 1.0 up");
  CHECK(take(0, true) == "0.1 down; 1.0 down");
  CHECK(take(1, true).empty());
  CHECK(take(2, true) == "0.1 up; 1.0 up");
  CHECK(take(1, false).empty());
  CHECK(take(3, true) == "stop 2");
  CHECK(take(4, true).empty());
  CHECK(take(3, false).empty());
  CHECK(take(4, false) == "go on 2");
  CHECK(take(3, true) == "stop 2");
  CHECK(take(4, true).empty());
  CHECK(take(5, true) == "go on 2");
}

TEST_CASE("the link of a NIC to a switch is a cable: pulled out, and plugged in again") {
  const std::string on_switch = "[topology]\nkind = \"switch\"\nnodes = 3\n[workload]\nbytes = \"4K\"\n";
  const Scenario scenario =
      parse_scenario(on_switch + fault("cable_down", "node1-switch0") + fault("cable_down", "node1-switch0") +
                         fault("cable_up", "node1-switch0") + fault("port_down", "node1/rocep1s0f0"),
                     "test.toml", {});
  RecordedBoard take(scenario);
  CHECK(take(0, true) == "1.0 down");
  CHECK(take(1, true).empty());
  CHECK(take(0, false).empty());
  CHECK(take(1, false) == "1.0 up");
  CHECK(take(0, true) == "1.0 down");
  CHECK(take(3, true).empty());
  CHECK(take(2, true).empty());  // the port is still down by itself
  CHECK(take(3, false) == "1.0 up");
  CHECK(text_of(scenario, {.fault = 0}) == "cable_down on node1-switch0");
  CHECK(switch_link(scenario.cluster, "node2-switch0") == std::vector{models::PortRef{2, 0}});
  CHECK(switch_link(scenario.cluster, "node3-switch0").empty());
}

TEST_CASE("of several NICs of a node on one switch each link has the NIC's name; other faults want the port") {
  const auto nic = [](const char* device, const char* address) {
    return fmt::format("[[node.nic]]\ndevice = \"{}\"\naddresses = [\"{}/24\"]\n", device, address);
  };
  const std::string text = "[[node]]\nname = \"a\"\n" + nic("x", "10.0.0.1") + nic("y", "10.0.1.1") +
                           "[[node]]\nname = \"b\"\n" + nic("x", "10.0.0.2") +
                           "[[switch]]\nname = \"s\"\nports = [\"a/x\", \"a/y\", \"b/x\"]\n"
                           "[workload]\nbytes = \"4K\"\n";
  const Scenario scenario = parse_scenario(text, "test.toml", {});
  std::string names;
  for (const CableLink& link : links_of(scenario.cluster)) names += link.name + " ";
  CHECK(names == "a/x-s a/y-s b-s ");
  const Scenario pulled = parse_scenario(text + fault("cable_down", "a/y-s"), "test.toml", {});
  RecordedBoard take(pulled);
  CHECK(take(0, true) == "0.1 down");
  CHECK_THROWS_WITH_AS(parse_scenario(text + fault("loss", "b-s", "amount = \"1%\""), "test.toml", {}),
                       doctest::Contains("loss needs a cable, a switch or NODE/DEVICE, and 'b-s' is not one here"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(parse_scenario(text + fault("cable_down", "a-s"), "test.toml", {}),
                       doctest::Contains("there are a/x-s, a/y-s, b-s"), ScenarioError);
}

TEST_CASE("port_up ends what port_down holds, by whichever of a bond's two names") {
  std::string text = "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n";
  for (const char* const node : {"node0", "node1"}) {
    text += fmt::format(
        "[[node]]\nname = \"{}\"\n[[node.bond]]\nname = \"bond0\"\nmode = \"802.3ad\"\nfunctions = "
        "[\"rocep1s0f0\", \"rocep1s0f1\"]\n",
        node);
  }
  const Scenario scenario =
      parse_scenario(text + fault("port_down", "node0/mlx5_bond_0") + fault("port_up", "node0/rocep1s0f1") +
                         fault("port_down", "node0/rocep1s0f1") + fault("port_up", "node0/mlx5_bond_0"),
                     "test.toml", {});
  RecordedBoard take(scenario);
  CHECK(take(0, true) == "0.0 down; 0.1 down; 1.0 down; 1.1 down");
  CHECK(take(1, true) == "0.1 up; 1.1 up");
  CHECK(take(2, true) == "0.1 down; 1.1 down");
  CHECK(take(3, true) == "0.0 up; 0.1 up; 1.0 up; 1.1 up");
}

}  // namespace fault_board_test
