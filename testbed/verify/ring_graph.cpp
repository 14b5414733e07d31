#include "testbed/verify/ring_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "testbed/scenario/megakernel/slot_programs.h"

namespace meshbed::testbed {
namespace {

using ring::Word;
namespace arg = ring::mesh_arg;

constexpr std::size_t kExploredRanksMost = 8, kExploredSlotsMost = 200;
constexpr Word kExploredLanesMost = 8;
constexpr std::uint64_t kElementBytes = 4;  // of the workload's default type

Error too_large(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text)};
}

/// Of a list of connections the one with that rank on that channel.
template <typename Connections>
Word explored_connection(const Connections& all, int rank, int channel) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.peer == rank && one.channel == channel; });
  return static_cast<Word>(found - all.begin());
}

/// Landings that the operand `index` of a slot overlaps.
void add_reads(const coll::SlotProgram& program, const ring::MeshSlot& slot, unsigned index, std::uint64_t offset,
               std::uint64_t bytes, std::vector<std::pair<Word, Word>>& reads) {
  const auto space = static_cast<coll::Space>(slot.args[arg::kSpaces] >> 8U * (index + 1) & 0xffU);
  for (std::size_t connection = 0; connection < program.receives.size(); ++connection) {
    const auto& landings = program.receives[connection].landings;
    for (std::size_t message = 0; message < landings.size(); ++message) {
      const coll::Landing& landing = landings[message];
      const std::uint64_t begin = landing.area.offset_bytes, end = begin + landing.size_bytes;
      if (landing.area.space != space || offset >= end || begin >= offset + bytes) continue;
      reads.emplace_back(static_cast<Word>(connection), static_cast<Word>(message));
    }
  }
}

RingItem explored_item(const coll::SlotProgram& program, std::size_t index, Word slots) {
  RingItem item{.slot = static_cast<Word>(index) % slots, .what = slot_of_epoch(program, static_cast<Word>(index), 1)};
  const Word* const args = item.what.args;
  const std::uint64_t count = args[arg::kCount];
  if (item.what.opcode == ring::opcode::kPut || item.what.opcode == ring::opcode::kCopy) {
    add_reads(program, item.what, 0, args[arg::kFirst], count, item.reads);
  } else if (item.what.opcode == ring::opcode::kReduce) {
    add_reads(program, item.what, 0, args[arg::kFirst], count * kElementBytes, item.reads);
    add_reads(program, item.what, 1, args[arg::kSecond], count * kElementBytes, item.reads);
  }
  return item;
}

}  // namespace

Result<RingExploreProgram> explored_graph(const SlotGraph& graph, const RingGraphOptions& options) {
  if (graph.ranks.size() > kExploredRanksMost) {
    return too_large(fmt::format("{}: {} ranks; every order can be walked of {} at most", graph.path,
                                 graph.ranks.size(), kExploredRanksMost));
  }
  RingExploreProgram explored{.name = graph.path,
                              .about = "a slot graph",
                              .finds = "",
                              .slots = 1,
                              .lanes = std::min(options.lanes, kExploredLanesMost),
                              .places = options.places,
                              .masks = options.masks,
                              .by_turns = true,
                              .whole_slots = true,
                              .ranks = {}};
  if (options.other_flag_queue) explored.ordering = RingOrdering::kUnordered;
  std::vector<GraphProgram> programs;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    Result<GraphProgram> program = program_of(graph, static_cast<int>(rank));
    if (!program) return program.error();
    const std::size_t slots = program->slots.slots.size();
    if (slots > kExploredSlotsMost) {
      return too_large(fmt::format("{}: rank {} has {} slots; every order can be walked of {} at most", graph.path,
                                   rank, slots, kExploredSlotsMost));
    }
    explored.slots = std::max(explored.slots, static_cast<Word>(slots));
    programs.push_back(*std::move(program));
  }
  if (options.slots > 0) explored.slots = options.slots;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const coll::SlotProgram& program = programs[rank].slots;
    std::vector<RingItem>& items = explored.ranks.emplace_back();
    for (std::size_t index = 0; index < program.slots.size(); ++index) {
      items.push_back(explored_item(program, index, explored.slots));
      if (index < programs[rank].marks.size()) items.back().tenant = programs[rank].marks[index].tenant;
    }
    const auto own = static_cast<int>(rank);
    std::vector<RingEnd>& sends = explored.sends.emplace_back();
    for (const coll::SlotProgram::Sending& send : program.sends) {
      const auto& theirs = programs[static_cast<std::size_t>(send.peer)].slots.receives;
      sends.push_back({.rank = send.peer, .connection = explored_connection(theirs, own, send.channel)});
    }
    std::vector<RingEnd>& receives = explored.receives.emplace_back();
    for (const coll::SlotProgram::Receiving& receive : program.receives) {
      const auto& theirs = programs[static_cast<std::size_t>(receive.peer)].slots.sends;
      receives.push_back({.rank = receive.peer, .connection = explored_connection(theirs, own, receive.channel)});
    }
  }
  return explored;
}

}  // namespace meshbed::testbed
