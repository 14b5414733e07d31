#include "testbed/result/expect.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace expect_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

/// Three nodes in a line: node0 - node1 - node2; one rank each.
Scenario line() {
  Scenario scenario;
  for (const char* name : {"node0", "node1", "node2"}) {
    models::Node node;
    node.name = name;
    node.nics.resize(2);
    scenario.cluster.nodes.push_back(node);
  }
  scenario.cluster.cables.push_back({.name = "cable0", .a = {0, 1}, .b = {1, 0}});
  scenario.cluster.cables.push_back({.name = "cable1", .a = {1, 1}, .b = {2, 0}});
  return scenario;
}

RunResult good_run() {
  RunResult result;
  result.bytes = 1'000'000;
  result.time_ps = 100 * kPicosecondsPerMicrosecond;  // 10 GB/s
  result.bound_ps = 98 * kPicosecondsPerMicrosecond;
  result.checked = 250'000;
  result.connections = 4;
  return result;
}

/// Which promises are broken, by name.
std::vector<std::string> broken(const Scenario& scenario, RunResult& result) {
  check_expectations(scenario, result);
  std::vector<std::string> names;
  for (const sim::Proof& promise : result.expectations) {
    if (!promise.ok) names.push_back(promise.name);
  }
  return names;
}

}  // namespace

TEST_CASE("times of a real machine are not held against promises, data are") {
  Scenario scenario = line();
  scenario.expect.wrong = 0;
  scenario.expect.max_over_bound = 1.03;
  scenario.expect.min_busbw_GBps = 9.9;
  RunResult slow = good_run();
  slow.time_ps *= 10;
  CHECK(broken(scenario, slow).size() == 2);
  RunResult real = good_run();
  real.time_ps *= 10;
  real.wrong = 1;
  real.world.virtual_time = false;
  CHECK(broken(scenario, real) == std::vector<std::string>{"wrong = 0"});
}

TEST_CASE("a run that does what was promised keeps every promise") {
  Scenario scenario = line();
  scenario.expect.wrong = 0;
  scenario.expect.max_over_bound = 1.03;
  scenario.expect.min_busbw_GBps = 9.9;
  scenario.expect.rail_balance = 0.05;
  scenario.expect.connections = 4;
  scenario.expect.unreachable = {{"node0", "node2"}};
  RunResult result = good_run();
  result.pairs[{0, 1, {0, 1}, {1, 0}}].payload_bytes = 100;
  result.pairs[{1, 2, {1, 1}, {2, 0}}].payload_bytes = 98;
  CHECK(broken(scenario, result).empty());
  CHECK(result.expectations.size() == 6);
  CHECK(exit_status(result) == kExitOk);
}

TEST_CASE("each broken promise is named and makes the exit status 1") {
  Scenario scenario = line();
  scenario.expect.wrong = 1;
  scenario.expect.max_over_bound = 1.01;
  scenario.expect.min_busbw_GBps = 10.1;
  scenario.expect.connections = 5;
  scenario.expect.unreachable = {{"node0", "node1"}};
  RunResult result = good_run();
  CHECK(broken(scenario, result) == std::vector<std::string>{"no direct path between node0 and node1", "wrong = 1",
                                                             "time at most 1.01 of the bound",
                                                             "bus bandwidth at least 10.1 GB/s", "5 connections"});
  CHECK(exit_status(result) == kExitBroken);
}

TEST_CASE("two VLANs of one switch, or of one cable's ends, are no direct path") {
  Scenario scenario = line();
  scenario.cluster.switches.push_back({.name = "switch0", .ports = {{0, 0}, {2, 1}}});
  CHECK(directly_joined(scenario.cluster, 0, 2));
  CHECK(directly_joined(scenario.cluster, 2, 0));
  scenario.cluster.nodes[0].nics[0].vlan = 100;
  CHECK_FALSE(directly_joined(scenario.cluster, 0, 2));
  scenario.cluster.nodes[2].nics[1].vlan = 100;
  CHECK(directly_joined(scenario.cluster, 0, 2));
  CHECK(directly_joined(scenario.cluster, 0, 1));
  scenario.cluster.nodes[0].nics[1].vlan = 100;
  CHECK_FALSE(directly_joined(scenario.cluster, 0, 1));
}

TEST_CASE("promises about strangers and the whole run: kept up to the figure, and broken where no stranger came") {
  Scenario scenario = line();
  scenario.expect.max_strangers = 64;
  scenario.expect.max_run_time_ps = kPicosecondsPerMillisecond;
  const auto run_with = [](std::uint64_t began, std::uint64_t held, Picoseconds took) {
    RunResult result = good_run();
    result.simulation.host.stranger_connections = began;
    result.simulation.host.peak_strangers_held = held;
    result.simulation.elapsed_ps = took;
    return result;
  };
  RunResult kept = run_with(500, 64, kPicosecondsPerMillisecond);
  CHECK(broken(scenario, kept).empty());
  RunResult over = run_with(500, 65, kPicosecondsPerMillisecond + 1);
  CHECK(broken(scenario, over) ==
        std::vector<std::string>{"at most 64 connections held for strangers", "all over after 1.000 ms at most"});
  RunResult nobody = run_with(0, 0, 0);
  CHECK(broken(scenario, nobody) == std::vector<std::string>{"at most 64 connections held for strangers"});
}

TEST_CASE("a promise about a bound is broken where there is no bound") {
  Scenario scenario = line();
  scenario.expect.max_over_bound = 1.03;
  RunResult result = good_run();
  result.bound_ps = 0;
  CHECK(broken(scenario, result).size() == 1);
}

TEST_CASE("an expected error satisfies the run; another error, or none, does not") {
  Scenario scenario = line();
  scenario.expect.error = "no path";
  scenario.expect.wrong = 0;

  RunResult refused = good_run();
  refused.simulation.errors.push_back(
      {.rank = 0, .at_ps = 1, .text = "connect: no path between subnets", .error_class = "remote"});
  CHECK(broken(scenario, refused).empty());
  CHECK(exit_status(refused) == kExitOk);

  RunResult other = good_run();
  other.simulation.errors.push_back({.rank = 0, .at_ps = 1, .text = "out of memory", .error_class = "remote"});
  CHECK(broken(scenario, other).size() == 1);
  CHECK(exit_status(other) == kExitBroken);

  RunResult none = good_run();
  CHECK(broken(scenario, none).size() == 1);
  CHECK(exit_status(none) == kExitBroken);
}

TEST_CASE("a node that loses its power: the others end, and each names it or one who ended before") {
  Scenario scenario = line();
  scenario.expect.lost = "node1";
  scenario.expect.wrong = 0;
  scenario.cluster.nodes[1].nics[0].addresses = {*models::read_prefix("192.168.100.2/24")};
  Fault kill;
  kill.kind = FaultKind::kNodeKill;
  kill.target = "node1";
  scenario.faults.push_back(kill);
  const auto lost = [](const std::string& first, const std::string& second) {
    RunResult result = good_run();
    result.simulation.faults.push_back({{0, true, 0}, 0});
    result.simulation.errors = {{.rank = 1, .at_ps = 0, .text = "no power", .error_class = "closed"},
                                {.rank = 0, .at_ps = 1, .text = first, .error_class = "remote"},
                                {.rank = 2, .at_ps = 2, .text = second, .error_class = "remote"}};
    return result;
  };
  RunResult named = lost("failure peer=192.168.100.2 (rocep1s0f0)", "all_reduce 3: rank 0: gone");
  CHECK(broken(scenario, named).empty());
  CHECK(exit_status(named) == kExitOk);

  const std::vector<std::string> promise{"without node1 every rank ends and names a lost node, with no element wrong"};
  RunResult nameless = lost("failure peer=192.168.100.20", "rank 0: gone");
  CHECK(broken(scenario, nameless) == promise);
  CHECK(exit_status(nameless) == kExitBroken);
  // Without node1 the ends of the line do not reach each other; on a ring they do.
  RunResult early = lost("no connection to rank 2: no path", "rank 0: gone");
  CHECK(broken(scenario, early).empty());
  Scenario ring = scenario;
  ring.cluster.cables.push_back({.name = "cable2", .a = {0, 0}, .b = {2, 1}});
  CHECK(broken(ring, early) == promise);
  RunResult too_early = lost("failure peer=192.168.100.2", "rank 2: gone, and rank 10");
  CHECK(broken(ring, too_early) == promise);

  RunResult hangs = lost("rank 1", "rank 1");
  hangs.simulation.outcome.kind = sim::OutcomeKind::kDeadlock;
  CHECK(broken(scenario, hangs) == promise);
  RunResult wrong = lost("rank 1", "rank 1");
  wrong.wrong = 1;
  CHECK(broken(scenario, wrong) == promise);

  // A rank that was stopped with the run could not detect the loss: that alone proves nothing.
  RunResult stopped = lost("rank 1", "rank 1");
  stopped.simulation.errors.resize(1);
  CHECK(broken(scenario, stopped).empty());
  stopped.simulation.stopped = 2;
  CHECK(broken(scenario, stopped) == promise);

  RunResult over_before = good_run();  // the fault was never taken: all else holds as ever
  CHECK(broken(scenario, over_before).empty());
  CHECK(exit_status(over_before) == kExitOk);
}

TEST_CASE("an unexpected error, a deadlock and a broken proof have their exit statuses") {
  RunResult failed = good_run();
  failed.simulation.errors.push_back({.rank = 0, .at_ps = 1, .text = "out of memory", .error_class = "remote"});
  CHECK(exit_status(failed) == kExitBroken);

  RunResult stuck = good_run();
  stuck.simulation.outcome.kind = sim::OutcomeKind::kDeadlock;
  CHECK(exit_status(stuck) == kExitNoProgress);

  RunResult wrong = good_run();
  wrong.proofs.push_back({"data right", false, "3 wrong"});
  CHECK(exit_status(wrong) == kExitBroken);
}

TEST_CASE("rails are compared within a node, in both directions; an idle one counts as one that carried nothing") {
  models::Cluster cluster;
  cluster.nodes.resize(2);
  for (models::Node& node : cluster.nodes) node.nics.resize(2);
  cluster.cables = {{.name = "left", .a = {0, 0}, .b = {1, 0}}, {.name = "right", .a = {0, 1}, .b = {1, 1}}};
  std::map<sim::PairKey, sim::PairUsage> pairs;
  CHECK_FALSE(rail_imbalance(cluster, pairs).has_value());  // no rank took part
  pairs[{0, 1, {0, 0}, {1, 0}}].payload_bytes = 100;
  CHECK(rail_imbalance(cluster, pairs) == 1.0);
  pairs[{0, 1, {0, 1}, {1, 1}}].payload_bytes = 96;
  CHECK(*rail_imbalance(cluster, pairs) == doctest::Approx(0.04));
  pairs[{1, 0, {1, 1}, {0, 1}}].payload_bytes = 4;
  CHECK(rail_imbalance(cluster, pairs) == 0.0);
  cluster.cables.pop_back();
  CHECK_FALSE(rail_imbalance(cluster, pairs).has_value());  // one rail is not two
}

}  // namespace expect_test
