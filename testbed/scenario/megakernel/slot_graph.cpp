#include "testbed/scenario/megakernel/slot_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "plugin/base/check.h"

namespace meshbed::testbed {
namespace {

using coll::Area;
using coll::Landing;
using coll::Space;
using ring::Word;
namespace arg = ring::mesh_arg;

/// The channel of messages that represent needs of other ranks; puts use the channels below.
constexpr int kNeedChannel = 1 << 16;
constexpr std::uint64_t kNeedBytes = 8;

/// A message to the rank, as its receiver names it.
struct Message {
  int channel = 0;
  std::size_t number = 0;  // on its connection
};

class ProgramOfRank {
 public:
  ProgramOfRank(const SlotGraph& graph, int rank)
      : graph_(graph), rank_(rank), slots_(graph.ranks[static_cast<std::size_t>(rank)]) {}

  Result<GraphProgram> make() {
    // Areas that the file names in the staging space are reserved for it.
    std::uint64_t named = 0;
    for (const GraphSlot& slot : slots_) {
      constexpr std::uint64_t kElementMost = 8;
      const std::uint64_t bytes = slot.op == GraphOp::kReduce ? slot.bytes * kElementMost
                                  : slot.op == GraphOp::kWait ? bytes_landing(slot)
                                                              : slot.bytes;
      for (const Area* area : {&slot.from, &slot.with, &slot.to}) {
        if (area->space == Space::kStaging) named = std::max(named, area->offset_bytes + bytes);
      }
    }
    builder_.staged(named);
    expect_all();
    needed_by_ = needs_of_others();
    count_ends();
    for (std::size_t index = 0; index < slots_.size(); ++index) add(index);
    Result<coll::SlotProgram> slots = builder_.take();
    if (!slots) return slots.error();
    begins_.resize(slots->slots.size());
    if (std::all_of(marks_.begin(), marks_.end(), [](const SlotMark& mark) { return mark == SlotMark{}; })) {
      marks_.clear();
    }
    return GraphProgram{.slots = std::move(*slots), .begins = std::move(begins_), .marks = std::move(marks_)};
  }

 private:
  const GraphSlot& slot_of(const GraphNeed& need) const {
    return graph_.ranks[static_cast<std::size_t>(need.rank)][need.slot];
  }
  bool is_put_to(const GraphNeed& need, int rank) const {
    const GraphSlot& slot = slot_of(need);
    return need.rank != rank && slot.op == GraphOp::kPut && slot.peer == rank;
  }
  std::uint64_t bytes_landing(const GraphSlot& wait) const {
    for (const GraphNeed& need : wait.needs) {
      if (is_put_to(need, rank_)) return slot_of(need).bytes;
    }
    return 0;
  }

  /// Messages to this rank in the order of their connections, with their landings.
  void expect_all() {
    std::map<std::pair<int, std::size_t>, Area> landings;  // that waits name
    std::set<std::pair<int, std::size_t>> needed;          // by this rank's slots, of other ranks
    for (const GraphSlot& slot : slots_) {
      for (const GraphNeed& need : slot.needs) {
        if (need.rank == rank_) continue;
        needed.emplace(need.rank, need.slot);
        if (slot.lands && is_put_to(need, rank_)) landings.emplace(std::pair(need.rank, need.slot), slot.to);
      }
    }
    for (int source = 0; source < static_cast<int>(graph_.ranks.size()); ++source) {
      if (source == rank_) continue;
      const std::vector<GraphSlot>& theirs = graph_.ranks[static_cast<std::size_t>(source)];
      std::map<int, std::vector<Landing>> expected;  // by channel
      for (std::size_t index = 0; index < theirs.size(); ++index) {
        const std::pair key(source, index);
        const bool is_put = theirs[index].op == GraphOp::kPut && theirs[index].peer == rank_;
        if (!is_put && !needed.contains(key)) continue;
        const int channel = is_put ? theirs[index].channel : kNeedChannel;
        const std::uint64_t bytes = is_put ? theirs[index].bytes : kNeedBytes;
        const auto named = landings.find(key);
        messages_[key] = {.channel = channel, .number = expected[channel].size()};
        expected[channel].push_back({named != landings.end() ? named->second : builder_.staged(bytes), bytes});
      }
      for (const auto& [channel, all] : expected) builder_.expect_messages(source, channel, all);
    }
  }

  /// [slot] the other ranks that need it, and get a message for it.
  std::vector<std::set<int>> needs_of_others() const {
    std::vector<std::set<int>> needed(slots_.size());
    for (int other = 0; other < static_cast<int>(graph_.ranks.size()); ++other) {
      if (other == rank_) continue;
      for (const GraphSlot& slot : graph_.ranks[static_cast<std::size_t>(other)]) {
        for (const GraphNeed& need : slot.needs) {
          if (need.rank == rank_ && !is_put_to(need, other)) needed[need.slot].insert(other);
        }
      }
    }
    return needed;
  }

  std::size_t waits_before(const GraphSlot& slot) const {
    if (slot.op == GraphOp::kWait) return 0;
    return static_cast<std::size_t>(std::count_if(slot.needs.begin(), slot.needs.end(),
                                                  [this](const GraphNeed& need) { return need.rank != rank_; }));
  }
  /// What has to be done before it, after the waits were added.
  std::size_t ends_before(const GraphSlot& slot) const {
    const auto local = std::count_if(slot.needs.begin(), slot.needs.end(),
                                     [this](const GraphNeed& need) { return need.rank == rank_; });
    return static_cast<std::size_t>(local) + waits_before(slot);
  }
  static std::size_t ends_most(const GraphSlot& slot) { return slot.op == GraphOp::kPut ? 1 : 2; }

  /// The id of the slot that is done last of each: needs may be of slots that come later.
  void count_ends() {
    std::size_t next = 0;
    for (std::size_t index = 0; index < slots_.size(); ++index) {
      const GraphSlot& slot = slots_[index];
      const std::size_t ends = ends_before(slot), most = ends_most(slot);
      next += waits_before(slot) + (ends > most ? ends - most : 0);
      next += slot.op == GraphOp::kPut ? 2 : 1;
      ends_.push_back(static_cast<Word>(next - 1));
      next += 2 * needed_by_[index].size();
    }
  }

  Word wait_for(const GraphNeed& need, Word after, Word also_after) {
    const Message& message = messages_.at({need.rank, need.slot});
    return builder_.add_wait_for(need.rank, message.channel, message.number, after, also_after);
  }

  void add(std::size_t index) {
    const GraphSlot& slot = slots_[index];
    std::vector<Word> after;
    for (const GraphNeed& need : slot.needs) {
      if (need.rank == rank_) {
        after.push_back(ends_[need.slot]);
      } else if (slot.op != GraphOp::kWait) {
        after.push_back(wait_for(need, ring::kNoId, ring::kNoId));
      }
    }
    while (after.size() > ends_most(slot)) {
      const Word join = builder_.add_join(after[0], after[1]);
      after.erase(after.begin());
      after[0] = join;
    }
    after.resize(2, ring::kNoId);
    begins_.resize(builder_.size());
    begins_.push_back(slot.begins);
    switch (slot.op) {
      case GraphOp::kCompute:
        builder_.add_compute(slot.time_ns, after[0], after[1]);
        break;
      case GraphOp::kPut:
        builder_.add_put(slot.peer, slot.channel, slot.from, slot.bytes, after[0]);
        break;
      case GraphOp::kWait:
        for (const GraphNeed& need : slot.needs) {
          if (is_put_to(need, rank_)) wait_for(need, after[0], after[1]);
        }
        break;
      case GraphOp::kReduce:
        builder_.add_reduce(slot.form, slot.from, slot.with, slot.to, slot.bytes, after[0], after[1]);
        if (slot.on_chip) builder_.keep_partial_on_chip();
        break;
      case GraphOp::kCopy:
        builder_.add_copy(slot.from, slot.to, slot.bytes, after[0], after[1]);
        break;
    }
    MESHBED_CHECK_MSG(builder_.size() == ends_[index] + 1U, "a slot's id is the one that others were given");
    for (const int other : needed_by_[index]) {
      builder_.add_put(other, kNeedChannel, builder_.staged(kNeedBytes), kNeedBytes, ends_[index]);
    }
    marks_.resize(builder_.size(), slot.mark);
  }

  const SlotGraph& graph_;
  int rank_;
  const std::vector<GraphSlot>& slots_;
  coll::SlotBuilder builder_;
  std::map<std::pair<int, std::size_t>, Message> messages_;  // by rank and slot
  std::vector<std::set<int>> needed_by_;
  std::vector<Word> ends_;
  std::vector<bool> begins_;
  std::vector<SlotMark> marks_;
};

std::string area_text(Word space, Word offset) { return fmt::format("\"{}+{}\"", kGraphSpaces[space & 0xffU], offset); }

/// Space `index` of a slot's three.
Word space_at(const ring::MeshSlot& slot, unsigned index) {
  return slot.args[arg::kSpaces] >> 8U * (index + 1) & 0xffU;
}

std::string name_of_slot(std::size_t slot) { return fmt::format("s{}", slot); }

class Printer {
 public:
  explicit Printer(const std::vector<GraphProgram>& programs) : programs_(programs) {
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      const coll::SlotProgram& program = programs[rank].slots;
      for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
        const ring::MeshSlot& one = program.slots[slot];
        if (one.opcode != ring::opcode::kSignal) continue;
        const auto& send = program.sends[one.args[arg::kConnection]];
        puts_[{static_cast<int>(rank), send.peer, send.channel, one.args[arg::kMessage]}] = slot;
      }
    }
  }

  std::string text(const std::string& comment) const {
    std::string all = fmt::format("# {}\nranks = {}\nslot = [\n", comment, programs_.size());
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      for (std::size_t slot = 0; slot < programs_[rank].slots.slots.size(); ++slot) add_line(all, rank, slot);
    }
    return all + "]\n";
  }

 private:
  void add_line(std::string& all, std::size_t rank, std::size_t slot) const {
    const coll::SlotProgram& program = programs_[rank].slots;
    const ring::MeshSlot& one = program.slots[slot];
    const Word* const args = one.args;
    if (one.opcode == ring::opcode::kSignal) return;  // written with its put
    const bool is_put = one.opcode == ring::opcode::kPut;
    std::string line = fmt::format("  {{rank = {}, id = \"{}\", op = ", rank, name_of_slot(is_put ? slot + 1 : slot));
    const auto to = std::back_inserter(line);
    std::vector<std::string> needs;
    if (args[arg::kAfter] != ring::kNoId) needs.push_back(name_of_slot(args[arg::kAfter]));
    if (!is_put && args[arg::kAlsoAfter] != ring::kNoId) needs.push_back(name_of_slot(args[arg::kAlsoAfter]));
    switch (one.opcode) {
      case ring::opcode::kPut: {
        const auto& send = program.sends[args[arg::kConnection]];
        fmt::format_to(to, "\"put\", peer = {}", send.peer);
        if (send.channel > 0) fmt::format_to(to, ", channel = {}", send.channel);
        fmt::format_to(to, ", bytes = {}, from = {}", args[arg::kCount],
                       area_text(space_at(one, 0), args[arg::kFirst]));
        break;
      }
      case ring::opcode::kWait: {
        const auto& receive = program.receives[args[arg::kConnection]];
        const Landing& landing = receive.landings[args[arg::kMessage]];
        needs.push_back(fmt::format(
            "{}:{}", receive.peer,
            name_of_slot(puts_.at({receive.peer, static_cast<int>(rank), receive.channel, args[arg::kMessage]}))));
        fmt::format_to(to, "\"wait\", to = {}",
                       area_text(static_cast<Word>(landing.area.space), static_cast<Word>(landing.area.offset_bytes)));
        break;
      }
      case ring::opcode::kReduce:
        fmt::format_to(to, "\"reduce\", form = \"{}\", elements = {}, from = {}, with = {}, to = {}",
                       kGraphForms[args[arg::kSpaces] & arg::kFormMask], args[arg::kCount],
                       area_text(space_at(one, 0), args[arg::kFirst]), area_text(space_at(one, 1), args[arg::kSecond]),
                       area_text(space_at(one, 2), args[arg::kThird]));
        if ((args[arg::kSpaces] & arg::kOnChip) != 0) line += ", on_chip = true";
        break;
      case ring::opcode::kCopy:
        fmt::format_to(to, "\"copy\", bytes = {}, from = {}, to = {}", args[arg::kCount],
                       area_text(space_at(one, 0), args[arg::kFirst]), area_text(space_at(one, 2), args[arg::kThird]));
        break;
      default:
        fmt::format_to(to, "\"compute\", time = \"{}ns\"", args[arg::kCount]);
        break;
    }
    if (programs_[rank].begins[slot]) line += ", begins = true";
    if (!needs.empty()) fmt::format_to(to, ", needs = [\"{}\"]", fmt::join(needs, "\", \""));
    all += line + "},\n";
  }

  const std::vector<GraphProgram>& programs_;
  std::map<std::tuple<int, int, int, Word>, std::size_t> puts_;  // from, to, channel, message
};

}  // namespace

std::size_t SlotGraph::slots() const {
  std::size_t count = 0;
  for (const auto& each : ranks) count += each.size();
  return count;
}

GraphMemory memory_of(const SlotGraph& graph, std::size_t element_bytes) {
  GraphMemory memory;
  for (const std::vector<GraphSlot>& rank : graph.ranks) {
    std::array<std::uint64_t, coll::kSpaces> bytes{};
    const auto take = [&](const Area& area, std::uint64_t size) {
      std::uint64_t& end = bytes[static_cast<std::size_t>(area.space)];
      end = std::max(end, area.offset_bytes + size);
    };
    for (const GraphSlot& slot : rank) {
      const std::uint64_t size = slot.op == GraphOp::kReduce ? slot.bytes * element_bytes : slot.bytes;
      if (slot.op == GraphOp::kPut || slot.op == GraphOp::kCopy || slot.op == GraphOp::kReduce) take(slot.from, size);
      if (slot.op == GraphOp::kCopy || slot.op == GraphOp::kReduce) take(slot.to, size);
      if (slot.op == GraphOp::kReduce) take(slot.with, size);
      if (slot.op != GraphOp::kWait || !slot.lands) continue;
      for (const GraphNeed& need : slot.needs) {
        const GraphSlot& other = graph.ranks[static_cast<std::size_t>(need.rank)][need.slot];
        if (other.op == GraphOp::kPut) take(slot.to, other.bytes);
      }
    }
    for (const std::uint64_t each : bytes) {
      memory.all_bytes += each;
      memory.largest_bytes = std::max(memory.largest_bytes, each);
    }
  }
  return memory;
}

Result<GraphProgram> program_of(const SlotGraph& graph, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= graph.ranks.size()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .scope = Scope::kJob,
                 .text = fmt::format("{} has no rank {}", graph.path, rank)};
  }
  return ProgramOfRank(graph, rank).make();
}

std::array<std::uint64_t, coll::kSpaces> space_bytes_of(const coll::SlotProgram& program, std::size_t element_bytes) {
  std::array<std::uint64_t, coll::kSpaces> bytes{};
  const auto take = [&](Word space, std::uint64_t offset, std::uint64_t size) {
    bytes[space] = std::max(bytes[space], offset + size);
  };
  for (const ring::MeshSlot& slot : program.slots) {
    const Word* const args = slot.args;
    const std::uint64_t count = args[arg::kCount];
    if (slot.opcode == ring::opcode::kPut || slot.opcode == ring::opcode::kCopy) {
      take(space_at(slot, 0), args[arg::kFirst], count);
      if (slot.opcode == ring::opcode::kCopy) take(space_at(slot, 2), args[arg::kThird], count);
    } else if (slot.opcode == ring::opcode::kReduce) {
      take(space_at(slot, 0), args[arg::kFirst], count * element_bytes);
      take(space_at(slot, 1), args[arg::kSecond], count * element_bytes);
      take(space_at(slot, 2), args[arg::kThird], count * element_bytes);
    }
  }
  for (const auto& receive : program.receives) {
    for (const Landing& landing : receive.landings) {
      take(static_cast<Word>(landing.area.space), landing.area.offset_bytes, landing.size_bytes);
    }
  }
  const auto staging = static_cast<std::size_t>(Space::kStaging);
  bytes[staging] = std::max(bytes[staging], program.staging_bytes);
  return bytes;
}

std::string slot_graph_text(const std::vector<GraphProgram>& programs, const std::string& comment) {
  return Printer(programs).text(comment);
}

}  // namespace meshbed::testbed
