// ring program: a built-in program as a slot graph.
#include <fmt/format.h>

#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/ring/ring.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/megakernel/names.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/megakernel/slot_programs.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kRanksMost = 1024;

Scenario scenario_of(const std::string& name, std::uint64_t ranks, const std::vector<std::string>& overrides) {
  // A routing matrix gives bytes of its own.
  const bool is_routed = std::any_of(overrides.begin(), overrides.end(), [](const std::string& each) {
    return each.starts_with("workload.megakernel.routing=");
  });
  const std::string text = fmt::format(
      "[topology]\nkind = \"ring\"\nnodes = {}\n[workload]\nkind = \"megakernel\"\n{}[workload.megakernel]\n"
      "program = \"{}\"\n",
      ranks, is_routed ? "dtype = \"bfloat16\"\n" : "bytes = \"48K\"\n", name);
  return parse_scenario(text, "ring program " + name, overrides);
}

}  // namespace

int ring_program_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  std::string name, ranks = "4";
  std::vector<std::string> overrides;
  Syntax syntax("ring program NAME [options]");
  syntax.operands.add_options()("name", po::value(&name)->required()->value_name("NAME"),
                                "all_reduce, all_gather, fused_all_reduce, pipeline, moe, decode or task_graph");
  syntax.positions.add("name", 1);
  syntax.options.add_options()("ranks", po::value(&ranks)->value_name("N")->default_value(ranks),
                               "2 to 64; of task_graph, and of moe with a routing matrix, to 1024")(
      "set", po::value(&overrides)->value_name("KEY=VALUE"),
      "a field of [workload] or [workload.megakernel], as in workload.bytes=16K, workload.megakernel.layers=8");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string> names = ring_program_names();
  std::erase(names, "queue");
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string close = closest_name(name, names);
    throw std::runtime_error(fmt::format(
        "ring program {}: {}{}; there are {}", name,
        name == "queue" ? "a queue's items come as they arrive; it has no program" : "there is no such program",
        close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close), list_names(names)));
  }
  const std::uint64_t count = parse_count("--ranks", ranks, 2, kRanksMost);
  const Scenario scenario = scenario_of(name, count, overrides);
  std::string set;
  for (const std::string& each : overrides) set += " --set " + each;
  const std::string comment = fmt::format("Slots of each rank: meshbed ring program {} --ranks {}{}", name, count, set);
  if (const auto& graph = scenario.workload.megakernel.graph) {
    out << slot_graph_text(*graph, comment);
    return kExitOk;
  }
  std::vector<GraphProgram> programs;
  for (int rank = 0; rank < static_cast<int>(count); ++rank) {
    const Result<RingProgram> program = ring_program(scenario.workload, rank, static_cast<int>(count));
    if (!program) throw std::runtime_error(program.error().text);
    programs.push_back({.slots = program->slots, .begins = program->begins});
  }
  out << slot_graph_text(programs, comment);
  return kExitOk;
}

}  // namespace meshbed::testbed
