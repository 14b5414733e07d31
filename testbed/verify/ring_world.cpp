#include "testbed/verify/ring_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plugin/base/check.h"
#include "plugin/base/counted.h"
#include "plugin/ring/abi/control.h"
#include "plugin/ring/kernel/verdict.h"
#include "plugin/ring/kernel/wait_chain.h"
#include "plugin/ring/queue/live_steps.h"

namespace meshbed::testbed {

using ring::Word;
namespace arg = ring::mesh_arg;

namespace {

constexpr Word kMaskedTenant = 1;
constexpr std::size_t kWorldRanksMost = 8;
constexpr std::size_t kNoItem = ~std::size_t{0};

/// Of two ranks that name none.
std::vector<std::vector<RingEnd>> ends_of(const std::vector<std::vector<RingEnd>>& named, std::size_t ranks) {
  if (!named.empty()) return named;
  if (ranks != 2) return std::vector<std::vector<RingEnd>>(ranks);
  return {{{.rank = 1}}, {{.rank = 0}}};
}

ring::MeshBoard explored_board(const RingExploreProgram& program, const std::vector<std::vector<RingEnd>>& sends,
                               const std::vector<std::vector<RingEnd>>& receives) {
  ring::MeshBoard board{.connections = 1, .ids = program.slots};
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::size_t most = std::max(sends[rank].size(), receives[rank].size());
    board.connections = std::max(board.connections, static_cast<Word>(most));
    for (const RingItem& item : program.ranks[rank]) {
      if (ring::opcode::is_mesh(item.what.opcode)) board.ids = std::max(board.ids, item.what.args[arg::kId] + 1);
    }
  }
  return board;
}

/// What PublishSteps writes to.
struct HostMemory {
  const ring::Kernel& kernel;
  static constexpr Word payload_words() { return ring::kSlotWords - 1; }
  Word* slot_place(Word slot, Word word) const { return ring::slot_at(kernel, slot) + word; }
  static Word load(const Word* place, ring::Order /*order*/) { return *place; }
  static void store(Word* place, Word value, ring::Order /*order*/) { *place = value; }
};

}  // namespace

RingWorld::RingWorld(const RingExploreProgram& program)
    : program_(program),
      ranks_(program.ranks.size()),
      sends_(ends_of(program.sends, ranks_.size())),
      receives_(ends_of(program.receives, ranks_.size())),
      board_(explored_board(program, sends_, receives_)) {
  MESHBED_CHECK(program.lanes <= 8 && !ranks_.empty() && ranks_.size() <= kWorldRanksMost);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = ranks_[index];
    rank.put.resize(sends_[index].size());
    rank.signalled = rank.posted = rank.put;
    rank.arrivals.resize(receives_[index].size());
    rank.items_by_id.resize(board_.ids, kNoItem);
    for (std::size_t item = 0; item < program.ranks[index].size(); ++item) {
      const ring::MeshSlot& what = program.ranks[index][item].what;
      if (ring::opcode::is_mesh(what.opcode)) rank.items_by_id[what.args[arg::kId]] = item;
    }
    rank.control.resize(ring::kLayout2026_05.observables + board_.observables());
    rank.slots.resize(std::size_t{program.slots} * ring::kSlotWords);
    rank.control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
    for (Word tenant = 0; tenant < ring::kTenantMasksMost; ++tenant) {
      rank.control[ring::control_word::kTenantMasks + tenant] = ring::kTenantMaskAll;
    }
    const auto levels = ring::levels_of(program.slots);
    std::copy(levels.begin(), levels.end(), rank.control.begin() + ring::kLayout2026_05.priority_offsets);
    rank.kernel = {.control = rank.control.data(),
                   .control_words = static_cast<Word>(rank.control.size()),
                   .ring = rank.slots.data(),
                   .slots = program.slots,
                   .lanes = program.lanes,
                   .mode = program.mode,
                   .by_priority = program.by_priority};
    rank.lanes.resize(program.lanes);
    for (Word lane = 0; lane < program.lanes; ++lane) rank.lanes[lane].index = lane;
    rank.executed.resize(program.slots);
    rank.published.resize(program.slots);
    if (program.places == 0) rank.placed = static_cast<std::uint8_t>((1U << program.lanes) - 1);
    first_control_.push_back(rank.control);
    first_slots_.push_back(rank.slots);
  }
}

bool RingWorld::may_place(const Rank& rank) const {
  Word placed = 0;
  for (Word lane = 0; lane < program_.lanes; ++lane) placed += rank.placed >> lane & 1U;
  return placed < program_.places;
}

void RingWorld::host_options(std::size_t index, std::vector<RingAction>& into) const {
  const Rank& rank = ranks_[index];
  const std::vector<RingItem>& items = program_.ranks[index];
  if (rank.items >= items.size()) return;
  const Word now = rank.slots[std::size_t{items[rank.items].slot} * ring::kSlotWords];
  const auto id = static_cast<std::uint8_t>(index);
  const bool began = rank.wrote_words || rank.wrote_status;
  if (!began && !ring::status::is_free(now)) return;  // the host publishes only into free slots
  if (!rank.wrote_words && !program_.whole_slots) into.push_back({RingActionKind::kHostWords, id, 0});
  if (rank.wrote_words || program_.whole_slots || (program_.weak && !rank.wrote_status)) {
    into.push_back({RingActionKind::kHostStatus, id, 0});
  }
}

void RingWorld::wire_options(std::size_t index, std::vector<RingAction>& into) const {
  const Rank& rank = ranks_[index];
  const auto id = static_cast<std::uint8_t>(index);
  for (std::size_t connection = 0; connection < rank.put.size(); ++connection) {
    const std::uint8_t posted = rank.posted[connection];
    if (posted >= rank.signalled[connection] || posted >= rank.put[connection]) continue;
    into.push_back({RingActionKind::kProxy, id, 0, static_cast<std::uint8_t>(connection)});
  }
  for (std::size_t connection = 0; connection < rank.arrivals.size(); ++connection) {
    const auto at = static_cast<std::uint8_t>(connection);
    bool all_landed = true, all_flagged = true;
    for (std::size_t message = 0; message < rank.arrivals[connection].size(); ++message) {
      const Message& one = rank.arrivals[connection][message];
      const auto number = static_cast<std::uint8_t>(message);
      const bool is_ordered = program_.ordering == RingOrdering::kOrdered;
      if (!one.has_landed && (!is_ordered || (all_landed && all_flagged))) {
        into.push_back({RingActionKind::kData, id, number, at});
      }
      all_landed = all_landed && one.has_landed;
      // Flags are counts: which of two comes first cannot be seen.
      const bool may_flag = program_.ordering == RingOrdering::kUnordered || all_landed;
      if (!one.is_flagged && all_flagged && may_flag) into.push_back({RingActionKind::kFlag, id, number, at});
      all_flagged = all_flagged && one.is_flagged;
    }
  }
}

std::vector<RingAction> RingWorld::options() const {
  std::vector<RingAction> result;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const auto id = static_cast<std::uint8_t>(index);
    host_options(index, result);
    for (Word lane = 0; lane < program_.lanes; ++lane) {
      const auto number = static_cast<std::uint8_t>(lane);
      if ((ranks_[index].placed >> lane & 1U) != 0) {
        result.push_back({RingActionKind::kLane, id, number});
      } else if (may_place(ranks_[index])) {
        result.push_back({RingActionKind::kPlace, id, number});
      }
    }
    wire_options(index, result);
  }
  if (masks_ < program_.masks) result.push_back({RingActionKind::kMask, 0, 0});
  return result;
}

void RingWorld::write(Rank& rank, bool words, bool status) {
  const RingItem& item = program_.ranks[static_cast<std::size_t>(&rank - ranks_.data())][rank.items];
  HostMemory memory{rank.kernel};
  Word slot[ring::kSlotWords] = {};
  slot[ring::slot_word::kOpcode] = item.what.opcode;
  slot[ring::slot_word::kTenant] = item.tenant;
  slot[ring::kLayout2026_05.priority_word] = ring::priority::kNormal;
  std::copy(std::begin(item.what.args), std::end(item.what.args), slot + ring::kLayout2026_05.arg0_word);
  ring::PublishSteps steps{.slot = item.slot, .mode = program_.mode, .at = 1};
  if (words) {
    // Only allowed for a free slot: the host reads its STATUS at the same moment.
    if (!rank.wrote_status) steps.at = 0;
    while (steps.at <= HostMemory::payload_words()) {
      MESHBED_CHECK(steps.step(memory, slot) == ring::Progress::kGoesOn);
    }
    rank.wrote_words = true;
  }
  if (status) {
    steps.at = HostMemory::payload_words() + 1;
    MESHBED_CHECK(steps.step(memory, slot) == ring::Progress::kSucceeded);
    rank.wrote_status = true;
    ++rank.published[item.slot];
  }
  if (!rank.wrote_words || !rank.wrote_status) return;
  rank.wrote_words = rank.wrote_status = false;
  ++rank.items;
}

std::string RingWorld::stale_read(std::uint8_t index, const Word* words) const {
  const Word op = words[ring::slot_word::kOpcode];
  if (!ring::opcode::is_mesh(op)) return "";
  const Word id = words[ring::kLayout2026_05.arg0_word + arg::kId];
  const std::size_t item = id < ranks_[index].items_by_id.size() ? ranks_[index].items_by_id[id] : kNoItem;
  if (item == kNoItem) return "";
  for (const auto& [connection, message] : program_.ranks[index][item].reads) {
    const RingEnd& sender = receives_[index][connection];
    const bool is_put = ranks_[static_cast<std::size_t>(sender.rank)].put[sender.connection] > message;
    const std::vector<Message>& arrivals = ranks_[index].arrivals[connection];
    const bool has_landed = message < arrivals.size() && arrivals[message].has_landed;
    if (!is_put || has_landed) continue;
    return fmt::format("reads message {} of connection {} before its data has landed", message, connection);
  }
  return "";
}

bool RingWorld::Port::put(Word connection, Word /*space*/, Word /*offset*/, Word /*bytes*/, Word /*message*/) {
  ++world->ranks_[rank].put[connection];
  return true;
}

void RingWorld::Port::signal(Word connection, Word puts) {
  std::uint8_t& signalled = world->ranks_[rank].signalled[connection];
  signalled = std::max(signalled, static_cast<std::uint8_t>(puts));
}

Word RingWorld::Port::completed(Word connection) const {
  const RingEnd& to = world->sends_[rank][connection];
  const std::vector<Message>& arrivals = world->ranks_[static_cast<std::size_t>(to.rank)].arrivals[to.connection];
  const auto lands = [](const Message& one) { return one.has_landed; };
  return static_cast<Word>(std::find_if_not(arrivals.begin(), arrivals.end(), lands) - arrivals.begin());
}

void RingWorld::Port::reduce(const Word* /*args*/) {}
void RingWorld::Port::copy(const Word* /*args*/) {}

std::string RingWorld::one_step(std::uint8_t index, ring::KernelLane& lane, ring::Step& now) {
  Rank& rank = ranks_[index];
  Port port{this, index};
  ring::MeshOperations<ring::PlainWords, Port> operations(rank.kernel, board_, port);
  now = ring::step<ring::PlainWords>(rank.kernel, lane, operations);
  const auto wrong = [&](const std::string& what) {
    const Word op = ring::slot_at(rank.kernel, lane.slot)[ring::slot_word::kOpcode];
    return fmt::format("rank {} ring 0 slot {} ({}, block {}) {}", index, lane.slot, ring::operation_name(op),
                       lane.index, what);
  };
  if (now == ring::Step::kRan && lane.ends_as == ring::status::kDone) {
    const std::string stale = stale_read(index, ring::slot_at(rank.kernel, lane.slot));
    if (!stale.empty()) return wrong(stale);
    const std::vector<RingItem>& items = program_.ranks[index];
    const bool is_torn = rank.items < items.size() && items[rank.items].slot == lane.slot && !rank.wrote_words;
    if (is_torn && rank.wrote_status) return wrong("is executed before its words were written");
    if (++rank.executed[lane.slot] > rank.published[lane.slot]) return wrong("is executed twice");
  }
  if (now == ring::Step::kAbandoned) return wrong("is left claimed, its tenant being masked: an abandoned-claim");
  if (now == ring::Step::kEnded && lane.ends_as == ring::status::kFault) return wrong("faults");
  return "";
}

std::string RingWorld::lane_step(const RingAction& action, std::string* description) {
  Rank& rank = ranks_[action.rank];
  ring::KernelLane& lane = rank.lanes[action.index];
  ring::Step now = ring::Step::kNothing;
  const bool began_at_scan = lane.phase == ring::LanePhase::kScan;
  std::string finding = one_step(action.rank, lane, now);
  while (program_.by_turns && finding.empty() && lane.phase != ring::LanePhase::kScan &&
         (began_at_scan ? lane.phase != ring::LanePhase::kRun : lane.phase == ring::LanePhase::kFinish)) {
    finding = one_step(action.rank, lane, now);
  }
  if (description != nullptr) {
    const char* did = "waits in";
    switch (now) {
      case ring::Step::kNothing:
        did = "finds nothing; was last at";
        break;
      case ring::Step::kCandidate:
        did = "sees";
        break;
      case ring::Step::kMissed:
        did = "misses";
        break;
      case ring::Step::kClaimed:
      case ring::Step::kChecked:
        did = now == ring::Step::kClaimed || program_.by_turns ? "claims" : "may run";
        break;
      case ring::Step::kAbandoned:
        did = "leaves, claimed as it is,";
        break;
      case ring::Step::kGivenBack:
        did = "gives back";
        break;
      case ring::Step::kRan:
      case ring::Step::kEnded:
        did = now == ring::Step::kRan || program_.by_turns ? "executes" : "ends";
        break;
      default:
        break;
    }
    const Word op = ring::slot_at(rank.kernel, lane.slot)[ring::slot_word::kOpcode];
    *description = fmt::format("rank {} block {} {} slot {} ({})", action.rank, action.index, did, lane.slot,
                               ring::operation_name(op));
  }
  return finding;
}

/// "message 0", and of which connection where there are several.
std::string RingWorld::message_words(std::uint8_t rank, std::uint8_t connection, int message) const {
  if (receives_[rank].size() < 2) return fmt::format("message {}", message);
  return fmt::format("message {} from rank {} (connection {})", message, receives_[rank][connection].rank, connection);
}

std::string RingWorld::words_of(const RingAction& action) const {
  const int rank = action.rank, index = action.index;
  switch (action.kind) {
    case RingActionKind::kHostWords:
    case RingActionKind::kHostStatus: {
      const RingItem& item = program_.ranks[action.rank][ranks_[action.rank].items];
      return fmt::format("rank {}'s host {} slot {} ({})", rank,
                         action.kind == RingActionKind::kHostWords ? "writes the words of" : "publishes", item.slot,
                         ring::operation_name(item.what.opcode));
    }
    case RingActionKind::kPlace:
      return fmt::format("rank {} block {} gets a place", rank, index);
    case RingActionKind::kProxy:
      return fmt::format(
          "rank {}'s proxy polls, and posts message {}{}", rank, ranks_[action.rank].posted[action.connection],
          sends_[action.rank].size() < 2 ? ""
                                         : fmt::format(" to rank {}", sends_[action.rank][action.connection].rank));
    case RingActionKind::kData:
      return fmt::format("the data of {} lands at rank {}", message_words(action.rank, action.connection, index), rank);
    case RingActionKind::kFlag:
      return fmt::format("the flag of {} is raised at rank {}", message_words(action.rank, action.connection, index),
                         rank);
    case RingActionKind::kMask:
      return fmt::format("tenant {} is {}", kMaskedTenant, masks_ == 0 ? "masked" : "unmasked");
    case RingActionKind::kLane:
      break;
  }
  return "";
}

std::string RingWorld::take(const RingAction& action, std::string* description) {
  Rank& rank = ranks_[action.rank];
  if (description != nullptr) *description = words_of(action);
  switch (action.kind) {
    case RingActionKind::kHostWords:
      write(rank, true, false);
      break;
    case RingActionKind::kHostStatus:
      write(rank, program_.whole_slots, true);
      break;
    case RingActionKind::kPlace:
      rank.placed = static_cast<std::uint8_t>(rank.placed | 1U << action.index);
      break;
    case RingActionKind::kLane:
      return lane_step(action, description);
    case RingActionKind::kProxy: {
      ++rank.posted[action.connection];
      const RingEnd& to = sends_[action.rank][action.connection];
      ranks_[static_cast<std::size_t>(to.rank)].arrivals[to.connection].emplace_back();
      break;
    }
    case RingActionKind::kData:
      rank.arrivals[action.connection][action.index].has_landed = true;
      break;
    case RingActionKind::kFlag:
      rank.arrivals[action.connection][action.index].is_flagged = true;
      ring::PlainWords::add(
          rank.control.data() + ring::kLayout2026_05.observables + board_.arrivals_of(action.connection), 1);
      break;
    case RingActionKind::kMask:
      for (Rank& each : ranks_) {
        each.control[ring::control_word::kTenantMasks + kMaskedTenant] = masks_ == 0 ? 0 : ring::kTenantMaskAll;
      }
      ++masks_;
      break;
  }
  return "";
}

bool RingWorld::ended_well() const {
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const Rank& rank = ranks_[index];
    if (rank.items != program_.ranks[index].size() || rank.executed != rank.published) return false;
    if (ring::tally_of(rank.kernel).queue_depth() > 0) return false;
    if (rank.posted != rank.put) return false;
  }
  return true;
}

std::string RingWorld::stuck() const {
  std::vector<ring::RingWaits> all;
  std::string causes;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const Rank& rank = ranks_[index];
    ring::RingWaits waits{.rank = static_cast<int>(index),
                          .ring = 0,
                          .kernel = &rank.kernel,
                          .lanes = rank.lanes,
                          .board = board_,
                          .sends = {},
                          .receives = {},
                          .completed = {},
                          .resident = {},
                          .stands_still = ""};
    for (const RingEnd& to : sends_[index]) {
      waits.sends.push_back({.rank = to.rank, .ring = 0, .connection = to.connection});
      waits.completed.push_back(0);
    }
    for (const RingEnd& from : receives_[index]) {
      waits.receives.push_back({.rank = from.rank, .ring = 0, .connection = from.connection});
    }
    for (Word lane = 0; lane < program_.lanes; ++lane) waits.resident.push_back((rank.placed >> lane & 1U) != 0);
    all.push_back(std::move(waits));
    const ring::Verdict verdict = ring::verdict_of(rank.kernel, rank.lanes);
    if (verdict.cause == ring::Cause::kDrained) continue;
    causes += fmt::format("{}rank {}: {}", causes.empty() ? "" : ", ", index, ring::name_of(verdict.cause));
  }
  const ring::WaitChain chain = ring::shortest_wait_chain(all);
  if (causes.empty()) {
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
      for (std::size_t connection = 0; connection < sends_[index].size(); ++connection) {
        const int left = ranks_[index].put[connection] - ranks_[index].posted[connection];
        if (left <= 0) continue;
        return fmt::format("rank {} has {} that was put and never signalled", index,
                           counted(static_cast<std::uint64_t>(left), "message"));
      }
    }
    return "not everything that was published was executed";
  }
  return chain.links.empty() ? causes : causes + ": " + chain.text();
}

}  // namespace meshbed::testbed
