// fuzz --explore on a slot graph's file: what an author's own wrong program comes to, by the shortest way.
#include "testbed/verify/ring_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "testbed/verify/ring_walk.h"

namespace ring_graph_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

RingExploreProgram explored(const std::string& slots, const RingGraphOptions& options = {}) {
  Diagnostics diagnostics("graph.toml");
  const SlotGraph graph = parse_slot_graph("slot = [\n" + slots + "]\n", "graph.toml", diagnostics);
  diagnostics.throw_if_any();
  return *explored_graph(graph, options);
}

RingWalkReport walk(const std::string& slots, const RingGraphOptions& options = {}) {
  return walk_rings(explored(slots, options));
}

bool has_step(const RingWalkReport& report, const std::string& step) {
  return std::find(report.schedule.begin(), report.schedule.end(), step) != report.schedule.end();
}

const std::string kPut = "{id = \"p\", op = \"put\", peer = 1, bytes = 64},\n";
const std::string kWait = "{rank = 1, id = \"w\", op = \"wait\", to = \"staging\", needs = [\"0:p\"]},\n";
const std::string kSum = "{rank = 1, op = \"reduce\", elements = 16, from = \"staging\", with = \"input\"";

}  // namespace

TEST_CASE("a sound program drains in every order, over three ranks and several connections") {
  const RingWalkReport report = walk(kPut + kWait + kSum + ", needs = [\"w\"]},\n" +
                                         "{id = \"q\", op = \"put\", peer = 2, bytes = 8},\n"
                                         "{rank = 2, op = \"wait\", needs = [\"0:q\"]},\n",
                                     {.lanes = 1});
  CHECK(report.finding.empty());
  CHECK(report.whole);
  CHECK(report.ends == 1);
}

TEST_CASE("a slot that does not need the wait for what it reads; flags on another queue pair") {
  const RingWalkReport missing = walk(kPut + kWait + kSum + "},\n");
  CHECK(missing.finding ==
        "rank 1 ring 0 slot 1 (REDUCE, block 1) reads message 0 of connection 0 before its data has landed");
  CHECK(has_step(missing, "rank 0 block 0 executes slot 0 (PUT)"));
  const std::string sound = kPut + kWait + kSum + ", needs = [\"w\"]},\n";
  CHECK(walk(sound).finding.empty());
  const RingWalkReport other = walk(sound, {.other_flag_queue = true});
  CHECK(other.finding.find("(REDUCE, block 1) reads message 0 of connection 0") != std::string::npos);
  CHECK(has_step(other, "the flag of message 0 is raised at rank 1"));
  CHECK_FALSE(has_step(other, "the data of message 0 lands at rank 1"));
}

TEST_CASE("circular waits, rings and GPUs that are too small, and a masked tenant") {
  const std::string circle = "{id = \"a\", needs = [\"1:b\"]},\n{rank = 1, id = \"b\", needs = [\"0:a\"]},\n";
  CHECK(walk(circle).finding.find("a cycle") != std::string::npos);
  const std::string late = "{needs = [\"c\"]},\n{needs = [\"c\"]},\n{id = \"c\"},\n";
  CHECK(walk(late, {.lanes = 3}).finding.empty());
  CHECK(walk(late, {.lanes = 2, .slots = 2}).finding.find("which is not published") != std::string::npos);
  CHECK(walk(late, {.lanes = 3, .places = 2}).finding.find("has no place on the GPU") != std::string::npos);
  Diagnostics diagnostics("graph.toml");
  const SlotGraph graph =
      parse_slot_graph("tenant = [{name = \"a\"}, {name = \"b\"}]\nslot = [{tenant = \"a\"}, {tenant = \"b\"}]\n",
                       "graph.toml", diagnostics);
  const RingWalkReport masked = walk_rings(*explored_graph(graph, {.masks = 1}));
  CHECK(masked.finding.find("tenant-masked") != std::string::npos);
}

TEST_CASE("what is too large to be walked is refused") {
  SlotGraph graph{.path = "g.toml"};
  graph.ranks.resize(9);
  CHECK(explored_graph(graph, {}).error().text == "g.toml: 9 ranks; every order can be walked of 8 at most");
  graph.ranks.resize(1);
  graph.speed = {1};
  graph.ranks[0].resize(300);
  CHECK(explored_graph(graph, {}).error().text ==
        "g.toml: rank 0 has 300 slots; every order can be walked of 200 at most");
}

}  // namespace ring_graph_test
