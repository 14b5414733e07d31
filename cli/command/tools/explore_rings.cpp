#include "cli/command/tools/explore_rings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <ostream>
#include <stdexcept>
#include <string>

#include "plugin/base/counted.h"
#include "testbed/base/checked_text.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/scenario.h"
#include "testbed/verify/ring_graph.h"
#include "testbed/verify/ring_walk.h"

namespace meshbed::testbed {
namespace {

std::string orders_text(const RingWalkReport& report) {
  if (!report.whole) return "?";
  return std::isinf(report.orders) ? "endless" : fmt::format("{:.4g}", report.orders);
}

}  // namespace

RingExploreProgram explored_graph_of(const ExploreGraph& wanted) {
  RingGraphOptions options;
  const auto count = [](const char* option, const std::string& text, std::uint64_t most, ring::Word& into) {
    if (!text.empty()) into = static_cast<ring::Word>(parse_count(option, text, 1, most));
  };
  count("--lanes", wanted.lanes, 8, options.lanes);
  count("--places", wanted.places, 8, options.places);
  count("--slots", wanted.slots, 1000, options.slots);
  if (!wanted.flag_qp.empty()) require_choice("--flag-qp", "queue pair", wanted.flag_qp, {"same", "other"});
  options.other_flag_queue = wanted.flag_qp == "other";
  options.masks = wanted.masked ? 1 : 0;
  Diagnostics diagnostics(wanted.path);
  const SlotGraph graph = parse_slot_graph(read_scenario_text(wanted.path), wanted.path, diagnostics);
  diagnostics.throw_if_any();
  Result<RingExploreProgram> program = explored_graph(graph, options);
  if (!program) throw std::runtime_error(program.error().text);
  return *std::move(program);
}

void list_explored_rings(std::ostream& out) {
  for (const RingExploreProgram& one : ring_explore_programs()) out << fmt::format("{:<19} {}\n", one.name, one.about);
}

int explore_rings(const ExploreRings& wanted, std::ostream& out) {
  out << fmt::format("{:<19} {:>8} {:>9} {:>10} {:>5} {:>8}  must find\n", "rings", "states", "steps", "orders", "ends",
                     "longest")
      << std::flush;
  std::uint64_t states = 0, broken = 0;
  bool whole = true;
  for (const RingExploreProgram* const program : wanted.programs) {
    const RingWalkReport report = walk_rings(*program, wanted.states_max);
    const std::string finds = program->finds;
    out << fmt::format("{:<19} {:>8} {:>9} {:>10} {:>5} {:>8}  {}{}\n", program->name, report.states, report.steps,
                       orders_text(report), report.ends, report.longest, finds.empty() ? "nothing" : finds,
                       report.whole ? "" : "; not all of them: --states-max");
    const std::string promise = broken_promise(*program, report);
    if (!promise.empty()) {
      out << fmt::format("  BROKEN: {}\n", promise);
      ++broken;
    } else if (!report.finding.empty()) {
      out << fmt::format("  {}\n", report.finding);
    }
    const bool prints = wanted.prints_schedules || !promise.empty();
    if (!report.schedule.empty()) {
      out << fmt::format("  the shortest way there has {}{}\n", counted(report.schedule.size(), "step"),
                         prints ? ":" : fmt::format("; fuzz --explore --only {} prints them", program->name));
    }
    for (std::size_t step = 0; prints && step < report.schedule.size(); ++step) {
      out << fmt::format("  {:>4}  {}\n", step + 1, report.schedule[step]);
    }
    out << std::flush;
    states += report.states;
    whole = whole && report.whole;
  }
  out << fmt::format("{} of rings: {}, {}; {} broken\n", counted(wanted.programs.size(), "program"),
                     counted(states, "state"), whole ? "every order" : "not every order", broken);
  return broken == 0 ? kExitOk : kExitBroken;
}

}  // namespace meshbed::testbed
