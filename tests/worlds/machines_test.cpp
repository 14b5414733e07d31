// What machines with RDMA give to collect, init and diagnose: emulated nodes, whose devices are soft-RoCE's.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace machines_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// "node0 rocep1s0f0 enp1s0f0np0 192.168.100.1/24 9000" for each NIC, then the cables with both ends in order.
std::vector<std::string> lines_of(const testbed::Scenario& scenario) {
  std::vector<std::string> lines;
  const auto& cluster = scenario.cluster;
  const auto port = [&](models::PortRef end) { return cluster.at(end.node).name + "/" + cluster.nic_of(end).device; };
  for (const models::Node& node : cluster.nodes) {
    for (const models::Nic& nic : node.nics) {
      std::string line = fmt::format("{} {} {} {}", node.name, nic.device, nic.netdev, nic.mtu_bytes);
      for (const auto& address : nic.addresses) line += " " + to_text(address);
      lines.push_back(line);
    }
  }
  for (const models::Cable& cable : cluster.cables) {
    lines.push_back(std::min(port(cable.a), port(cable.b)) + " " + std::max(port(cable.a), port(cable.b)));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE(
    "collect in emulated nodes, then init: nodes, devices, addresses, MTU and cables are the scenario's; diagnose "
    "--live there finds its ports") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string kept = scratch_folder("machines_kept");
  const CommandResult run =
      run_command_line(fmt::format("{0} exec --scenario {1} --time-limit 240 --results '{2}' -- sh -c '{0} collect -o "
                                   "$MESHBED_RESULTS/node.tar.gz && "
                                   "{0} diagnose --live --json >$MESHBED_RESULTS/live.json' 2>&1",
                                   meshbed_program(), scenario_file("spark-triangle"), kept));
  REQUIRE_MESSAGE(run.status == 0, run.output);
  const CommandResult init = run_command_line(fmt::format(
      "{0} init '{1}/rank-0/node.tar.gz' '{1}/rank-1/node.tar.gz' '{1}/rank-2/node.tar.gz' -o '{1}/mesh.toml' "
      "2>&1",
      meshbed_program(), kept));
  REQUIRE_MESSAGE(init.status == 0, init.output);
  CHECK(lines_of(testbed::read_scenario(kept + "/mesh.toml", {})) ==
        lines_of(testbed::read_scenario(std::string(MESHBED_SOURCE_DIR) + "/scenarios/spark-triangle.toml", {})));
  for (int rank = 0; rank < 3; ++rank) {
    const CommandResult live = run_command_line(fmt::format("cat '{}/rank-{}/live.json'", kept, rank));
    const auto answer = nlohmann::json::parse(live.output, nullptr, false);
    REQUIRE_MESSAGE(!answer.is_discarded(), live.output);
    CHECK_MESSAGE(answer.at("causes").empty(), live.output);
    CHECK_MESSAGE(has(live.output, "port_state.rocep1s0f0:1"), live.output);
    CHECK_MESSAGE(has(live.output, "4: ACTIVE"), live.output);
  }
}

TEST_CASE("the plugin's reports of emulated ranks lie in the results, of run and of exec, and diagnose reads them") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string folder = scratch_folder("machines_reports");
  const CommandResult run =
      run_command_line(fmt::format("{} run --world emu --time-limit 240 {} --set workload.bytes=64K --set "
                                   "environment.NCCL_MESH_REPORT=mesh.json --results '{}' --no-trace 2>&1",
                                   meshbed_program(), scenario_file("pair"), folder));
  REQUIRE_MESSAGE(run.status == 0, run.output);
  const CommandResult listed = run_command_line("ls '" + folder + "'/pair/emu");
  CHECK_MESSAGE(has(listed.output, "mesh.node0-"), listed.output);
  CHECK_MESSAGE(has(listed.output, "mesh.node1-"), listed.output);
  const CommandResult healthy =
      run_command_line(fmt::format("{} diagnose '{}/pair/emu' --json", meshbed_program(), folder));
  CHECK(healthy.status == 0);
  const auto answer = nlohmann::json::parse(healthy.output, nullptr, false);
  REQUIRE_MESSAGE(!answer.is_discarded(), healthy.output);
  CHECK_MESSAGE(answer.at("causes").empty(), healthy.output);
  CHECK_MESSAGE(has(healthy.output, "mesh.node1-"), healthy.output);

  // Ranks of a program, of which the last one leaves: its report is in its own folder, and the logs name it.
  const std::string kept = scratch_folder("machines_exec"), program = scratch_folder("machines_program") + "/differ";
  const CommandResult made = run_command_line(fmt::format(
      "cc -I'{0}' -I'{0}/plugin/dropin' '{0}/tests/dropin/program/differ.c' -o '{2}' -L'{1}/nccl-lib' -lnccl "
      "-L'{1}/cuda-lib' 2>&1",
      MESHBED_SOURCE_DIR, MESHBED_BINARY_DIR, program));
  REQUIRE_MESSAGE(made.status == 0, made.output);
  const CommandResult left = run_command_line(fmt::format(
      "{} exec --scenario {} --time-limit 240 --results '{}' --env NCCL_MESH_REPORT=mesh.json --nccl-dropin "
      "-- sh -c 'NCCL_COMM_ID=$MASTER_ADDR:29511 \"{}\" leaves >$MESHBED_RESULTS/log 2>&1' 2>&1",
      meshbed_program(), scenario_file("spark-triangle"), kept, program));
  CHECK_MESSAGE(left.status == 4, left.output);
  CHECK_MESSAGE(has(run_command_line("ls '" + kept + "/rank-2'").output, "mesh.node2-"), left.output);
  const CommandResult diagnosis = run_command_line(fmt::format("{} diagnose '{}' --json", meshbed_program(), kept));
  const auto found = nlohmann::json::parse(diagnosis.output, nullptr, false);
  REQUIRE_MESSAGE(!found.is_discarded(), diagnosis.output);
  REQUIRE_MESSAGE(!found.at("causes").empty(), diagnosis.output);
  CHECK_MESSAGE(found.at("causes").front().at("code") == "rank-dead", diagnosis.output);
  CHECK_MESSAGE(has(diagnosis.output, "rank-2/mesh.node2-"), diagnosis.output);
}

}  // namespace machines_test
