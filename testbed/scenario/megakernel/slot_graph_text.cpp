// A slot graph as a file, a line a slot.
#include <fmt/format.h>

#include <iterator>

#include "testbed/scenario/megakernel/slot_graph.h"

namespace meshbed::testbed {
namespace {

std::string area_text(const coll::Area& area) {
  return fmt::format("\"{}+{}\"", kGraphSpaces[static_cast<std::size_t>(area.space)], area.offset_bytes);
}

std::string name_of_slot(const SlotGraph& graph, const GraphNeed& need) {
  const std::string& id = graph.ranks[static_cast<std::size_t>(need.rank)][need.slot].id;
  return id.empty() ? fmt::format("slot{}", need.slot) : id;
}

void add_line(std::string& all, const SlotGraph& graph, int rank, std::size_t index) {
  const GraphSlot& slot = graph.ranks[static_cast<std::size_t>(rank)][index];
  const auto to = std::back_inserter(all);
  fmt::format_to(to, "  {{rank = {}, id = \"{}\", op = \"{}\"", rank, name_of_slot(graph, {rank, index}),
                 kGraphOps[static_cast<std::size_t>(slot.op)]);
  switch (slot.op) {
    case GraphOp::kCompute:
      fmt::format_to(to, ", time = \"{}ns\"", slot.time_ns);
      break;
    case GraphOp::kPut:
      fmt::format_to(to, ", peer = {}", slot.peer);
      if (slot.channel > 0) fmt::format_to(to, ", channel = {}", slot.channel);
      fmt::format_to(to, ", bytes = {}, from = {}", slot.bytes, area_text(slot.from));
      break;
    case GraphOp::kWait:
      if (slot.lands) fmt::format_to(to, ", to = {}", area_text(slot.to));
      break;
    case GraphOp::kReduce:
      fmt::format_to(to, ", form = \"{}\", elements = {}, from = {}, with = {}, to = {}",
                     kGraphForms[static_cast<std::size_t>(slot.form)], slot.bytes, area_text(slot.from),
                     area_text(slot.with), area_text(slot.to));
      break;
    case GraphOp::kCopy:
      fmt::format_to(to, ", bytes = {}, from = {}, to = {}", slot.bytes, area_text(slot.from), area_text(slot.to));
      break;
  }
  if (!graph.tenants.empty()) fmt::format_to(to, ", tenant = \"{}\"", graph.tenants[slot.mark.tenant]);
  if (slot.mark.level != ring::priority::kNormal) {
    fmt::format_to(to, ", priority = \"{}\"", kGraphLevels[slot.mark.level]);
  }
  if (slot.mark.arrives_ns > 0) fmt::format_to(to, ", at = \"{}ns\"", slot.mark.arrives_ns);
  if (slot.begins) all += ", begins = true";
  if (!slot.needs.empty()) all += ", needs = [";
  for (std::size_t need = 0; need < slot.needs.size(); ++need) {
    if (need > 0) all += ", ";
    const GraphNeed& one = slot.needs[need];
    fmt::format_to(to, "\"{}{}\"", one.rank == rank ? "" : fmt::format("{}:", one.rank), name_of_slot(graph, one));
  }
  if (!slot.needs.empty()) all += "]";
  all += "},\n";
}

}  // namespace

std::string slot_graph_text(const SlotGraph& graph, const std::string& comment) {
  std::string all = fmt::format("# {}\nranks = {}\n", comment, graph.ranks.size());
  if (!graph.tenants.empty()) {
    all += "tenant = [";
    for (const std::string& name : graph.tenants) all += fmt::format("{{name = \"{}\"}}, ", name);
    all += "]\n";
  }
  all += "slot = [\n";
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (std::size_t slot = 0; slot < graph.ranks[rank].size(); ++slot) {
      add_line(all, graph, static_cast<int>(rank), slot);
    }
  }
  return all + "]\n";
}

}  // namespace meshbed::testbed
