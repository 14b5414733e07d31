// Networks of several switches, as a user describes and runs them.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/base/files.h"
#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace fabric_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

json run(const std::string& scenario, const std::string& options) {
  int status = -1;
  const json summary = summary_of_run(scenario, options, status, scratch_folder("fabrics"));
  CHECK(status == 0);
  for (const auto& proof : summary.at("proofs")) CHECK_MESSAGE(proof.at("ok") == true, proof.dump());
  return summary;
}

std::string lint(const std::string& scenario, const std::string& options) {
  return run_command_line(meshbed_program() + " lint " + scenario_file(scenario) + " " + options + " 2>&1").output;
}

double busiest_share(const json& summary, const std::string& part) {
  double most = 0;
  for (const auto& link : summary.at("links")) {
    if (link.at("name").get<std::string>().find(part) != std::string::npos) {
      most = std::max(most, link.at("busy_ps").get<double>());
    }
  }
  return most / (summary.at("simulated_ns").get<double>() * 1e3);
}

}  // namespace

TEST_CASE("real plugin: what goes over the spines is as slow as the uplinks, what stays in a leaf is not") {
  const json across = run("leaf-spine", ""), again = run("leaf-spine", "");
  CHECK(across.at("digest") == again.at("digest"));
  const json enough = run("leaf-spine", "--set topology.uplink_rate=400Gb/s");
  // One uplink for two senders: both share it, 16 MiB each over 100 Gb/s.
  const double alone_ns = 16.0 * 1024 * 1024 * 8 / 100;
  CHECK(across.at("time_ns").get<double>() > 1.9 * alone_ns);
  CHECK(across.at("time_ns").get<double>() < 2.3 * alone_ns);
  CHECK(enough.at("time_ns").get<double>() < 1.3 * alone_ns);
  CHECK(busiest_share(across, ">spine") > 0.8);
  const json half = run("leaf-spine", "--set workload.shift=1");
  CHECK(half.at("time_ns") < across.at("time_ns"));
}

TEST_CASE("fat tree, dragonfly and rails: messages go over the links of the boxes, on the real plugin") {
  const json tree = run("fat-tree", "");
  CHECK(tree.at("ranks") == 16);
  CHECK(busiest_share(tree, ">core") > 0);
  const std::string folder = scratch_folder("fabric_kinds");
  const auto kind = [&](const std::string& topology) {
    meshbed::testbed::write_text_file(folder + "/kind.toml",
                                      "[topology]\n" + topology + "[workload]\nbytes = \"64K\"\n");
    const CommandResult made = run_command_line(meshbed_program() + " run " + folder + "/kind.toml --results " +
                                                folder + " --json 2>/dev/null");
    REQUIRE(made.status == 0);
    json summary = json::parse(made.output);
    CHECK(summary.at("wrong") == 0);
    return summary;
  };
  const json groups = kind("kind = \"dragonfly\"\nnodes = 6\ngroups = 3\nboxes = 2\n");
  CHECK(busiest_share(groups, "group0-0>group") > 0);
  const json rails =
      kind("kind = \"rail-optimised\"\nnodes = 4\nrails = 2\nleaves = 2\nspines = 2\nuplink_rate = \"50Gb/s\"\n");
  CHECK(busiest_share(rails, "rail0-leaf") > 0);
}

TEST_CASE("replay: an alltoall of 64 nodes shares uplinks in chunks, the same each time") {
  const std::string kOf64 = "--mode replay --set topology.nodes=64 --set topology.leaves=8";
  const json first = run("scale-leaf-spine", kOf64), again = run("scale-leaf-spine", kOf64);
  CHECK(first.at("digest") == again.at("digest"));
  CHECK(first.at("messages") == 64 * 63);
  CHECK(first.at("folded") == false);
  // 56 of 63 blocks of each of a leaf's eight nodes leave it, over half of the rate that these have.
  const double bound_ns = 8.0 * 56 / 64 * 64 * 1024 * 1024 * 8 / 400;
  CHECK(first.at("time_ns").get<double>() > bound_ns);
  CHECK(run("scale-leaf-spine", kOf64 + " --set topology.oversubscription=1").at("time_ns") < first.at("time_ns"));
}

TEST_CASE("a network of boxes by hand: ports, trunks and rates; what is wrong is named with its place") {
  const std::string folder = scratch_folder("fabric_file");
  const auto file = [&](const std::string& text) {
    meshbed::testbed::write_text_file(folder + "/f.toml", text);
    return run_command_line(meshbed_program() + " lint " + folder + "/f.toml 2>&1").output;
  };
  const std::string good =
      "[[node]]\nname = \"a\"\n[[node.nic]]\ndevice = \"mlx5_0\"\n[[node]]\nname = \"b\"\n[[node.nic]]\n"
      "device = \"mlx5_0\"\n[[switch]]\nsubnet = \"10.0.0.0/24\"\n[[switch.box]]\nname = \"west\"\n"
      "ports = [\"a/mlx5_0\"]\n[[switch.box]]\nname = \"east\"\nports = [\"b/mlx5_0\"]\n"
      "[[switch.trunk]]\nends = [\"west\", \"east\"]\nrate = \"25Gb/s\"\n[workload]\nbytes = \"4M\"\n";
  meshbed::testbed::write_text_file(folder + "/good.toml", good);
  const CommandResult made =
      run_command_line(meshbed_program() + " run " + folder + "/good.toml --results " + folder + " --json 2>/dev/null");
  REQUIRE_MESSAGE(made.status == 0, made.output);
  // An all-reduce on two ranks sends its bytes each way, at the trunk's 25 Gb/s.
  const double trunk_ns = 4.0 * 1024 * 1024 * 8 / 25;
  const double took_ns = json::parse(made.output).at("time_ns").get<double>();
  CHECK(took_ns > trunk_ns);
  CHECK(took_ns < 1.2 * trunk_ns);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return file(text);
  };
  CHECK(with("\"west\", \"east\"", "\"west\", \"eastt\"").find("has no box 'eastt', did you mean 'east'?") !=
        std::string::npos);
  CHECK(with("[[switch.trunk]]\nends = [\"west\", \"east\"]\nrate = \"25Gb/s\"\n", "")
            .find("trunks do not join all boxes") != std::string::npos);
  CHECK(with("\"west\", \"east\"", "\"west\", \"west\"").find("ends: both are 'west'") != std::string::npos);
  CHECK(with("subnet = ", "ports = []\nsubnet = ").find("ports: list them in the [[switch.box]]") != std::string::npos);
  CHECK(with("[workload]", "[fabric]\nkind = \"fluid\"\n[workload]").find("say chunk") != std::string::npos);
  CHECK(lint("leaf-spine", "--set topology.spines=2").find("spines says how many uplinks a leaf has") !=
        std::string::npos);
  CHECK(lint("leaf-spine", "--set topology.rails=2").find("say kind = \"rail-optimised\"") != std::string::npos);
  CHECK(lint("pair", "--set topology.leaves=2").find("leaves goes with kind = \"leaf-spine\"") != std::string::npos);
  CHECK(lint("leaf-spine", "--set topology.leaves=9").find("leaves: 9 for 8 nodes") != std::string::npos);
}

TEST_CASE("the fluid fabric, which has one way between two ports, is refused as an option, too") {
  const CommandResult made =
      run_command_line(meshbed_program() + " run " + scenario_file("leaf-spine") + " --fabric fluid 2>&1");
  CHECK(made.status == 2);
  CHECK(made.output.find("a switch of several boxes has one for each flow; say chunk") != std::string::npos);
}

TEST_CASE("what cannot hold boxes refuses them by name; graphviz draws them") {
  const std::string boxed = meshbed_program() + " export " + scenario_file("leaf-spine") + " --to ";
  CHECK(run_command_line(boxed + "simgrid 2>&1").output.find("consists of 5 boxes that 4 trunks join") !=
        std::string::npos);
  CHECK(run_command_line(boxed + "graphviz 2>&1").output.find("\"leaf0\" -- \"spine0\"") != std::string::npos);
}

}  // namespace fabric_command_test
