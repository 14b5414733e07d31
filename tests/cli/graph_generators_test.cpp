// Programs that a generator makes: a mixture of experts from its routing matrix, and a task graph.
#include "testbed/scenario/megakernel/graph_generators.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
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
constexpr const char* kRandomMoe =
    "[topology]\nkind = \"full-mesh\"\nnodes = 2\n[workload]\nkind = \"megakernel\"\ndtype = \"bfloat16\"\n"
    "[workload.megakernel]\nprogram = \"moe\"\nhidden = 100\n";
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

TEST_CASE("a random routing: distinct experts, the same from the same seed, all as likely") {
  const Routing routing = random_routing(6000, 12, 3, 7);
  CHECK(routing.tokens == random_routing(6000, 12, 3, 7).tokens);
  CHECK(routing.tokens != random_routing(6000, 12, 3, 8).tokens);
  std::vector<int> counts(12);
  for (const std::vector<std::size_t>& token : routing.tokens) {
    REQUIRE(token.size() == 3);
    CHECK(token[0] < token[1]);
    CHECK(token[1] < token[2]);
    for (const std::size_t expert : token) ++counts.at(expert);
  }
  // 1500 expected of each expert, with a standard deviation of 34.
  for (const int count : counts) CHECK(std::abs(count - 1500) < 170);
  CHECK(random_routing(1, 4, 4, 1).tokens[0] == std::vector<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("moe by a random routing, whole and its phases alone") {
  const auto graph_of = [](std::vector<std::string> overrides) {
    for (const char* each : {"routing=random", "tokens=16", "experts=4", "top_k=2", "dispatch_extra=24"}) {
      overrides.push_back(std::string("workload.megakernel.") + each);
    }
    const Scenario scenario = parse_scenario(kRandomMoe, "s.toml", overrides);
    REQUIRE(scenario.workload.megakernel.graph);
    CHECK(is_ordered(*scenario.workload.megakernel.graph, 2));
    return *scenario.workload.megakernel.graph;
  };
  const auto count = [](const SlotGraph& graph, GraphOp op) {
    std::size_t slots = 0;
    for (const auto& rank : graph.ranks) {
      slots += static_cast<std::size_t>(
          std::count_if(rank.begin(), rank.end(), [&](const GraphSlot& slot) { return slot.op == op; }));
    }
    return slots;
  };
  const SlotGraph both = graph_of({}), dispatch = graph_of({"workload.megakernel.phase=dispatch"}),
                  combine = graph_of({"workload.megakernel.phase=combine"});
  // 16 tokens of 2 ranks, each with 2 of 4 experts: no pair of rank and expert is without tokens.
  CHECK(count(dispatch, GraphOp::kPut) == 4);
  CHECK(count(dispatch, GraphOp::kWait) == 4);
  CHECK(count(dispatch, GraphOp::kCopy) == 4);
  CHECK(count(dispatch, GraphOp::kCompute) + count(dispatch, GraphOp::kReduce) == 0);
  CHECK(count(combine, GraphOp::kPut) == 4);
  CHECK(count(combine, GraphOp::kReduce) == 8);
  CHECK(count(combine, GraphOp::kCopy) + count(combine, GraphOp::kCompute) == 0);
  CHECK(count(both, GraphOp::kPut) == 8);
  CHECK(count(both, GraphOp::kCompute) == 4);
  // A token has 100 elements of one byte and 24 bytes beside them; 2 experts each, and 16 tokens.
  std::uint64_t bytes = 0;
  for (const GraphSlot& slot : dispatch.ranks[0]) {
    if (slot.op == GraphOp::kPut || slot.op == GraphOp::kCopy) bytes += slot.bytes;
  }
  CHECK(bytes == 16 * 2 * 124);
  // Each token as a message of its own, there and back.
  const SlotGraph apart = graph_of({"workload.megakernel.message_tokens=1"});
  CHECK(count(apart, GraphOp::kPut) / 2 + count(apart, GraphOp::kCopy) == 64);
  CHECK(count(apart, GraphOp::kReduce) == 64);
  for (const GraphSlot& slot : apart.ranks[1]) {
    if (slot.op == GraphOp::kPut) CHECK((slot.bytes == 124 || slot.bytes == 200));
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
  CHECK(refused(kMoe, {"workload.megakernel.routing=random", "workload.megakernel.experts=1"},
                "experts: 1 for 2 ranks; each rank has one at least"));
  CHECK(refused(kMoe,
                {"workload.megakernel.routing=random", "workload.megakernel.experts=6", "workload.megakernel.top_k=7"},
                "top_k: 7, and there are 6 experts"));
  const std::string folder = test::scratch_folder("graph_keys");
  std::ofstream(folder + "/r.csv") << "1,2\n2,1\n";
  CHECK(refused(kMoe, {"workload.megakernel.routing=" + folder + "/r.csv", "workload.megakernel.tokens=6"},
                "tokens: goes with routing = \"random\"; a matrix has a line a token and a column an expert"));
  CHECK(refused(kMoe, {"workload.megakernel.routing=random", "workload.megakernel.phase=combine"},
                "compute: experts compute between dispatch and combine; leave out phase, or compute"));
  CHECK(refused(kTasks, {"workload.megakernel.splits=2"}, "splits: goes with program = \"decode\""));
  CHECK(refused(kTasks, {"workload.megakernel.routing=r.csv"}, "routing: goes with program = \"moe\""));
  CHECK(refused(kTasks, {"workload.megakernel.speed=[1, 2]"}, "speed: 2 numbers for 3 ranks"));
  CHECK(refused(kTasks, {"workload.megakernel.speed=[1, 0, 1]"}, "speed: 0 is out of range; accepted: 0.001 to 1000"));
  std::ofstream(folder + "/g.toml") << "ranks = 3\nslot = [{time = \"1us\"}]\n";
  for (const char* key : {"exchange=one-shot", "layers=2", "parts=2", "compute=1us", "splits=2", "speed=[1, 1, 1]",
                          "routing=r.csv", "top_k=1", "tokens=8", "experts=8", "phase=both", "dispatch_extra=8",
                          "hidden=8", "dispatch_dtype=half", "combine_dtype=half"}) {
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
