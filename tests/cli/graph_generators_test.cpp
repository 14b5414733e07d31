// Programs that a generator makes: a mixture of experts from its routing matrix, and a task graph.
#include "testbed/scenario/megakernel/graph_generators.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "testbed/scenario/megakernel/graph_order.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace graph_generators_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

constexpr const char* kMoe =
    "[topology]\nkind = \"full-mesh\"\nnodes = 2\n[workload]\nkind = \"megakernel\"\ndtype = \"bfloat16\"\n"
    "[workload.megakernel]\nprogram = \"moe\"\ntop_k = 1\nhidden = 100\ncompute = \"1us\"\n";
constexpr const char* kTasks =
    "[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nkind = \"megakernel\"\n[workload.megakernel]\n"
    "program = \"task_graph\"\nlayers = 3\nparts = 2\ncompute = \"10us\"\n";

const GraphSlot* slot_named(const SlotGraph& graph, std::size_t rank, const std::string& id) {
  for (const GraphSlot& slot : graph.ranks[rank]) {
    if (slot.id == id) return &slot;
  }
  return nullptr;
}

std::string error_of(const std::string& text, int top_k) {
  const Result<Routing> routing = parse_routing(text, "r.csv", top_k);
  return routing ? "" : routing.error().text;
}

bool is_ordered(const SlotGraph& graph, std::size_t element_bytes) {
  Diagnostics diagnostics("graph");
  check_graph_order(graph, element_bytes, diagnostics);
  return diagnostics.empty();
}

}  // namespace

TEST_CASE("a routing matrix: the highest scores of each line, ties by the lower expert; what is wrong has its place") {
  const Result<Routing> routing = parse_routing("# scores\n5, 1, 5\n0 2 1 # a token\n\n", "r.csv", 1);
  REQUIRE(routing);
  CHECK(routing->experts == 3);
  CHECK(routing->tokens == std::vector<std::vector<std::size_t>>{{0}, {1}});
  CHECK(parse_routing("5,0,1\n", "r.csv", 0)->tokens[0] == std::vector<std::size_t>{0, 2});
  CHECK(error_of("1,2\n1,x\n", 1) == "r.csv:2:3: expects a score, 0 or more, for each expert");
  CHECK(error_of("1,-2\n", 1) == "r.csv:1:3: expects a score, 0 or more, for each expert");
  CHECK(error_of("1,2\n1\n", 1) == "r.csv:2: 1 scores; the lines before have 2, one for each expert");
  CHECK(error_of("1,0\n", 2) == "r.csv:1: top_k = 2, and 1 scores are above 0");
  CHECK(error_of("# nothing\n", 1) == "r.csv: expects a line for each token, with a score for each expert");
}

TEST_CASE("moe by routing: messages as large as their tokens, experts busy for as long as theirs need") {
  const std::string folder = test::scratch_folder("moe_routing");
  // Tokens 0 and 1 are rank 0's: both go to expert 2, which is rank 1's, as are token 2 and, of expert 0, token 3.
  std::ofstream(folder + "/r.csv") << "0,0,9,0\n1,0,9,0\n0,0,9,0\n9,0,0,1\n";
  const Scenario scenario =
      parse_scenario(kMoe, folder + "/s.toml",
                     {"workload.megakernel.routing=r.csv", "workload.megakernel.speed=[1, 0.5]",
                      "workload.megakernel.dispatch_dtype=f8e4m3", "workload.megakernel.combine_dtype=bfloat16"});
  REQUIRE(scenario.workload.megakernel.graph);
  const SlotGraph& graph = *scenario.workload.megakernel.graph;
  REQUIRE(slot_named(graph, 0, "to2"));
  CHECK(slot_named(graph, 0, "to2")->bytes == 200);
  CHECK(slot_named(graph, 0, "to2")->peer == 1);
  CHECK(slot_named(graph, 1, "to2")->op == GraphOp::kCopy);
  CHECK(slot_named(graph, 1, "expert2")->time_ns == 6000);  // three tokens at half the speed
  CHECK(slot_named(graph, 0, "expert0")->time_ns == 1000);
  CHECK(slot_named(graph, 0, "expert1") == nullptr);
  CHECK(slot_named(graph, 1, "back0.2")->bytes == 400);
  CHECK(slot_named(graph, 0, "sum2")->bytes == 200);  // elements
  CHECK(is_ordered(graph, 2));
  // Printed and read again it is the same.
  Diagnostics diagnostics("again.toml");
  const SlotGraph again = parse_slot_graph(slot_graph_text(graph, "again"), "again.toml", diagnostics);
  diagnostics.throw_if_any();
  for (int rank = 0; rank < 2; ++rank) {
    const auto was = program_of(graph, rank)->slots.slots, now = program_of(again, rank)->slots.slots;
    REQUIRE(was.size() == now.size());
    for (std::size_t slot = 0; slot < was.size(); ++slot) {
      CHECK(std::equal(std::begin(was[slot].args), std::end(was[slot].args), std::begin(now[slot].args)));
    }
  }
}

TEST_CASE("a task graph: each task needs its own of the step before and the next rank's; a slow rank takes longer") {
  const SlotGraph graph =
      *parse_scenario(kTasks, "s.toml", {"workload.bytes=4K", "workload.megakernel.speed=[1, 1, 0.8]"})
           .workload.megakernel.graph;
  CHECK(graph.ranks[0].size() == 2 * (3 + 2 + 2));
  CHECK(slot_named(graph, 2, "task1.0")->time_ns == 12500);
  CHECK(slot_named(graph, 0, "task1.0")->needs.size() == 2);
  CHECK(slot_named(graph, 1, "send0.1")->peer == 0);
  CHECK(is_ordered(graph, 4));
  const SlotGraph flags = *parse_scenario(kTasks, "s.toml", {"workload.bytes=0"}).workload.megakernel.graph;
  CHECK(flags.ranks[0].size() == 6);
  CHECK(slot_named(flags, 2, "task1.0")->needs == std::vector<GraphNeed>{{2, 0}, {0, 0}});
}

TEST_CASE("keys of generators are refused where nothing reads them") {
  const auto refused = [](const char* scenario, const std::vector<std::string>& overrides, const std::string& words) {
    return test::refuses(scenario, overrides, words);
  };
  CHECK(refused(kMoe, {}, "top_k: goes with routing, a matrix of tokens and experts"));
  CHECK(refused(kMoe, {"workload.megakernel.routing=none.csv"}, "routing: cannot read none.csv"));
  CHECK(refused(kTasks, {"workload.megakernel.splits=2"}, "splits: goes with program = \"decode\""));
  CHECK(refused(kTasks, {"workload.megakernel.routing=r.csv"}, "routing: goes with program = \"moe\""));
  CHECK(refused(kTasks, {"workload.megakernel.speed=[1, 2]"}, "speed: 2 numbers for 3 ranks"));
  CHECK(refused(kTasks, {"workload.megakernel.speed=[1, 0, 1]"}, "speed: 0 is out of range; accepted: 0.001 to 1000"));
  const std::string folder = test::scratch_folder("graph_keys");
  std::ofstream(folder + "/g.toml") << "ranks = 3\nslot = [{time = \"1us\"}]\n";
  for (const char* key : {"exchange=one-shot", "layers=2", "parts=2", "compute=1us", "splits=2", "speed=[1, 1, 1]",
                          "routing=r.csv", "top_k=1", "hidden=8", "dispatch_dtype=half", "combine_dtype=half"}) {
    const std::string name = std::string(key).substr(0, std::string(key).find('='));
    const std::string text =
        "[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nkind = \"megakernel\"\n"
        "[workload.megakernel]\nprogram = \"" +
        folder + "/g.toml\"\n";
    CHECK(refused(text.c_str(), {std::string("workload.megakernel.") + key},
                  name + ": the slots of a file are what it says; leave it out"));
  }
}

}  // namespace graph_generators_test
