// The nodes' commands as processes of this host.
#include "emu/namespace/namespace_run.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "plugin/base/deadline.h"
#include "tests/emu/clusters.h"

namespace namespace_run_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> shell(const std::string& text) { return {"/bin/sh", "-c", text}; }

}  // namespace

TEST_CASE("commands run side by side in their nodes' folders with a bare environment, and each has its exit status") {
  EmuCluster cluster = mesh_cluster(2);
  cluster.nodes[0].environment = {{"MINE", "a 'b'"}};
  // Each waits for the other's file: one after the other they would never end.
  cluster.nodes[0].commands = {shell("touch here; until [ -e ../node1/here ]; do :; done; env | sort; exit 3"),
                               {"/bin/true"}};
  cluster.nodes[1].commands = {shell("touch here; until [ -e ../node0/here ]; do :; done; echo bad >&2")};
  setenv("MESHBED_TEST_LEAK", "1", 1);
  NamespaceRun run(cluster);
  const ClusterOutcome outcome = run.run({.time_limit_s = 60});
  REQUIRE(outcome.nodes.size() == 2);
  CHECK(outcome.troubles.empty());
  const NodeOutcome& first = outcome.nodes[0];
  CHECK(first.end == NodeEnd::kDone);
  CHECK(first.exit_code == 3);
  CHECK(first.commands[1].exit_code == 0);
  const std::string environment = text_of(first.commands[0].stdout_path);
  CHECK(environment.find("MINE=a 'b'\n") != std::string::npos);
  CHECK(environment.find("HOSTNAME=node0\n") != std::string::npos);
  CHECK(environment.find("MESHBED_TEST_LEAK") == std::string::npos);
  CHECK(outcome.nodes[1].exit_code == 0);
  CHECK(text_of(outcome.nodes[1].commands[0].stderr_path) == "bad\n");
}

TEST_CASE("what does not end in time is killed with all that it started, and named") {
  EmuCluster cluster = mesh_cluster(2);
  cluster.nodes[0].commands = {shell("sleep 1000 & echo $!; wait")};
  cluster.nodes[1].commands = {{"/bin/true"}};
  NamespaceRun run(cluster);
  const ClusterOutcome outcome = run.run({.time_limit_s = 1});
  CHECK(outcome.nodes[0].end == NodeEnd::kTimedOut);
  CHECK(outcome.nodes[1].end == NodeEnd::kDone);
  CHECK(outcome.troubles == std::vector<std::string>{"node 'node0' is not done after 1 s"});
  CHECK_FALSE(outcome.succeeded());
  const std::string child = text_of(outcome.nodes[0].commands[0].stdout_path);
  REQUIRE_FALSE(child.empty());
  // The kill is done, the process may still be ending.
  const auto deadline = meshbed::Deadline::after_s(30);
  const std::string stat = "/proc/" + std::to_string(std::stoi(child)) + "/stat";
  const auto runs = [&] {
    const std::string text = text_of(stat);
    return text.find("(sleep) ") != std::string::npos && text.find("(sleep) Z") == std::string::npos;
  };
  while (runs() && !deadline.passed()) {
  }
  CHECK_FALSE(runs());
}

TEST_CASE("a request to stop ends it, and a command that cannot be started leaves nothing") {
  EmuCluster cluster = mesh_cluster(1);
  cluster.nodes[0].commands = {{"sleep", "1000"}};
  NamespaceRun run(cluster);
  std::thread other([&run] { run.request_stop(); });
  const ClusterOutcome outcome = run.run({.time_limit_s = 60});
  other.join();
  CHECK(outcome.troubles == std::vector<std::string>{"stopped before the end"});
  CHECK(outcome.nodes[0].end == NodeEnd::kStopped);
  CHECK(outcome.total_s < 30);
}

}  // namespace namespace_run_test
