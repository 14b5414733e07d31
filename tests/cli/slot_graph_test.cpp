// Slot graphs: read from TOML and JSON Lines, made into slots, and printed from the built-in programs.
#include "testbed/scenario/megakernel/slot_graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "testbed/scenario/megakernel/slot_programs.h"
#include "testbed/scenario/scenario.h"

namespace slot_graph_test {

using namespace meshbed;
using namespace meshbed::testbed;
namespace arg = ring::mesh_arg;
namespace op = ring::opcode;

namespace {

SlotGraph read(const std::string& text, const std::string& name = "graph.toml") {
  Diagnostics diagnostics(name);
  SlotGraph graph = parse_slot_graph(text, name, diagnostics);
  diagnostics.throw_if_any();
  return graph;
}

std::string error_of(const std::string& text, const std::string& name = "graph.toml") {
  try {
    read(text, name);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

std::string slots(const std::string& lines) { return "slot = [\n" + lines + "]\n"; }

std::vector<ring::Word> opcodes_of(const coll::SlotProgram& program) {
  std::vector<ring::Word> opcodes;
  for (const ring::MeshSlot& slot : program.slots) opcodes.push_back(slot.opcode);
  return opcodes;
}

}  // namespace

TEST_CASE("a put, its message's arrival, and what needs it") {
  const SlotGraph graph =
      read(slots("{id = \"a\", time = \"3us\"},\n"
                 "{id = \"p\", op = \"put\", peer = 1, bytes = \"4K\", needs = [\"a\"]},\n"
                 "{rank = 1, id = \"w\", op = \"wait\", to = \"output+64\", needs = [\"0:p\"]},\n"
                 "{rank = 1, op = \"compute\", time = \"1us\", needs = [\"w\"]},\n"));
  CHECK(graph.ranks.size() == 2);
  const coll::SlotProgram sender = program_of(graph, 0)->slots, receiver = program_of(graph, 1)->slots;
  CHECK(opcodes_of(sender) == std::vector<ring::Word>{op::kCompute, op::kPut, op::kSignal});
  CHECK(sender.slots[0].args[arg::kCount] == 3000);
  CHECK(sender.slots[1].args[arg::kAfter] == 0);
  CHECK(opcodes_of(receiver) == std::vector<ring::Word>{op::kWait, op::kCompute});
  CHECK(receiver.slots[1].args[arg::kAfter] == 0);
  REQUIRE(receiver.receives.size() == 1);
  CHECK(receiver.receives[0].landings[0].size_bytes == 4096);
  CHECK(receiver.receives[0].landings[0].area.offset_bytes == 64);
  CHECK(space_bytes_of(receiver, 4)[static_cast<std::size_t>(coll::Space::kOutput)] == 4160);
}

TEST_CASE(
    "a need of another rank's slot is a message of 8 bytes; more than two needs are joined; later slots are needed") {
  const SlotGraph graph =
      read(slots("{id = \"z\", needs = [\"1:a\", \"2:a\", \"later\", \"last\"]},\n"
                 "{id = \"later\", time = \"1us\"},\n{id = \"last\", time = \"2us\"},\n"
                 "{rank = 1, id = \"a\", time = \"1us\"},\n{rank = 2, id = \"a\", time = \"1us\"},\n"));
  const coll::SlotProgram first = program_of(graph, 0)->slots;
  CHECK(opcodes_of(first) == std::vector<ring::Word>{op::kWait, op::kWait, op::kCompute, op::kCompute, op::kCompute,
                                                     op::kCompute, op::kCompute});
  CHECK(first.slots[2].args[arg::kAfter] == 0);
  CHECK(first.slots[3].args[arg::kAfter] == 2);
  CHECK(first.slots[4].args[arg::kAlsoAfter] == 6);
  const coll::SlotProgram second = program_of(graph, 1)->slots;
  CHECK(opcodes_of(second) == std::vector<ring::Word>{op::kCompute, op::kPut, op::kSignal});
  CHECK(second.slots[1].args[arg::kCount] == 8);
}

TEST_CASE("a slow rank computes longer; JSON Lines are the same slots") {
  const std::string lines =
      "{\"ranks\": 2, \"speed\": [1, 0.8]}\n{\"rank\": 0, \"id\": \"a\", \"time\": \"4us\"}\n"
      "{\"rank\": 1, \"time\": \"4us\", \"needs\": [\"0:a\"]}\n";
  const SlotGraph graph = read(lines, "graph.jsonl");
  CHECK(graph.ranks[0][0].time_ns == 4000);
  CHECK(graph.ranks[1][0].time_ns == 5000);
  CHECK(graph.ranks[1][0].needs == std::vector<GraphNeed>{{0, 0}});
  CHECK(error_of(lines + "{\"rank\": 1, \"tme\": \"4us\"}\n", "graph.jsonl") ==
        "graph.jsonl:4:14: unknown key 'tme' in [[slot]] (did you mean 'time'?); accepted: rank, id, op, needs, time, "
        "peer, channel, bytes, elements, form, from, with, to, on_chip, loop, tenant, priority, at, begins");
  CHECK(error_of("{\"rank\": 0}\nnot JSON\n", "graph.jsonl") == "graph.jsonl:2:1: expects one JSON object a line");
}

TEST_CASE("what is wrong with a graph is said with its place") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "graph.toml: the file is empty; a scenario has at least [topology] or [[node]]"},
      {"ranks = 2\n", "graph.toml: a slot graph needs [[slot]] tables; meshbed ring program decode prints one"},
      {slots("{id = \"a\", needs = [\"b\"]},\n{id = \"bb\"},\n"),
       "graph.toml:2:21: needs: rank 0 has no slot 'b'; did you mean 'a'?"},
      {slots("{id = \"a\", needs = [\"7:b\"]},\n"), "graph.toml:2:21: needs: '7:b' names no rank; there are 0 to 0"},
      {slots("{id = \"a\"},\n{id = \"a\"},\n"), "graph.toml:3:7: id: rank 0 has two slots 'a'"},
      {slots("{op = \"put\", peer = 0, bytes = 8},\n"),
       "graph.toml:2:21: peer: a put needs another rank, 0 to 0; it has 0"},
      {slots("{op = \"compute\", bytes = 8},\n"),
       "graph.toml:2:26: bytes: op = \"compute\" does not read it; leave it out"},
      {slots("{op = \"copy\", bytes = 8, from = \"stage\"},\n"),
       "graph.toml:2:33: from: 'stage': expects SPACE or SPACE+BYTES, as in input+4096; spaces are input, output, "
       "staging, work, made"},
      {slots("{op = \"wait\"},\n"),
       "graph.toml:2:1: needs: a wait needs one put to rank 0, as in needs = [\"0:ID\"]; this has 0"},
      {"speed = [1]\n" + slots("{rank = 1},\n"), "graph.toml: speed: 1 numbers for 2 ranks"},
  };
  for (const auto& [text, expected] : wrong) CHECK(error_of(text) == expected);
}

TEST_CASE("each built-in program, printed and read again, is the same slots") {
  for (const char* name : {"all_reduce", "all_gather", "fused_all_reduce", "pipeline", "moe", "decode"}) {
    for (const int ranks : {2, 5}) {
      CAPTURE(name);
      const Scenario scenario = parse_scenario(
          fmt::format("[topology]\nkind = \"ring\"\nnodes = {}\n[workload]\nkind = \"megakernel\"\nbytes = 40960\n"
                      "[workload.megakernel]\nprogram = \"{}\"\n{}",
                      ranks, name, std::string(name) == "decode" ? "layers = 3\nexchange = \"one-shot\"\n" : ""),
          "s.toml", {});
      std::vector<GraphProgram> programs;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto made = ring_program(scenario.workload, rank, ranks);
        REQUIRE(made);
        programs.push_back({.slots = made->slots, .begins = made->begins});
      }
      const SlotGraph graph = read(slot_graph_text(programs, "again"));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto again = program_of(graph, rank);
        REQUIRE(again);
        const coll::SlotProgram& was = programs[static_cast<std::size_t>(rank)].slots;
        REQUIRE(opcodes_of(again->slots) == opcodes_of(was));
        CHECK(again->begins == programs[static_cast<std::size_t>(rank)].begins);
        for (std::size_t slot = 0; slot < was.slots.size(); ++slot) {
          for (const ring::Word word : {arg::kFirst, arg::kCount, arg::kAfter, arg::kAlsoAfter, arg::kThird}) {
            CHECK(again->slots.slots[slot].args[word] == was.slots[slot].args[word]);
          }
        }
      }
    }
  }
}

}  // namespace slot_graph_test
