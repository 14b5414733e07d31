#include "testbed/verify/ring_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plugin/base/check.h"
#include "plugin/ring/abi/control.h"
#include "plugin/ring/kernel/verdict.h"
#include "plugin/ring/kernel/wait_chain.h"
#include "plugin/ring/queue/live_steps.h"

namespace meshbed::testbed {

using ring::Word;
namespace arg = ring::mesh_arg;

namespace {

constexpr Word kTenants = 2, kMaskedTenant = 1;

ring::MeshBoard explored_board(const RingExploreProgram& program) { return {.connections = 1, .ids = program.slots}; }

/// What tells lanes apart; one that looks for work has nothing of the slot that it had.
struct LaneBytes {
  std::uint8_t phase = 0, slot = 0, seen = 0, level = 0, ends_as = 0;
};

/// What PublishSteps writes to.
struct HostMemory {
  const ring::Kernel& kernel;
  static constexpr Word payload_words() { return ring::kSlotWords - 1; }
  Word* slot_place(Word slot, Word word) const { return ring::slot_at(kernel, slot) + word; }
  static Word load(const Word* place, ring::Order /*order*/) { return *place; }
  static void store(Word* place, Word value, ring::Order /*order*/) { *place = value; }
};

}  // namespace

RingWorld::RingWorld(const RingExploreProgram& program) : program_(program), ranks_(program.ranks.size()) {
  MESHBED_CHECK(program.lanes <= 8 && !ranks_.empty() && ranks_.size() <= 2);
  for (Rank& rank : ranks_) {
    const ring::MeshBoard board = explored_board(program);
    rank.control.resize(ring::kLayout2026_05.observables + board.observables());
    rank.slots.resize(std::size_t{program.slots} * ring::kSlotWords);
    rank.control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
    for (Word tenant = 0; tenant < kTenants; ++tenant) {
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
  if (!began && !ring::status::is_free(now)) return;  // the host publishes into none but free slots
  if (!rank.wrote_words) into.push_back({RingActionKind::kHostWords, id, 0});
  if (rank.wrote_words || (program_.weak && !rank.wrote_status)) into.push_back({RingActionKind::kHostStatus, id, 0});
}

void RingWorld::wire_options(std::size_t index, std::vector<RingAction>& into) const {
  const Rank& rank = ranks_[index];
  const auto id = static_cast<std::uint8_t>(index);
  if (rank.posted < rank.signalled && rank.posted < rank.put) into.push_back({RingActionKind::kProxy, id, 0});
  bool all_landed = true, all_flagged = true;
  for (std::size_t message = 0; message < rank.arrivals.size(); ++message) {
    const Message& one = rank.arrivals[message];
    const auto number = static_cast<std::uint8_t>(message);
    const bool is_ordered = program_.ordering == RingOrdering::kOrdered;
    if (!one.has_landed && (!is_ordered || (all_landed && all_flagged))) {
      into.push_back({RingActionKind::kData, id, number});
    }
    all_landed = all_landed && one.has_landed;
    // Flags are counts: which of two comes first nobody can tell.
    const bool may_flag = program_.ordering == RingOrdering::kUnordered || all_landed;
    if (!one.is_flagged && all_flagged && may_flag) into.push_back({RingActionKind::kFlag, id, number});
    all_flagged = all_flagged && one.is_flagged;
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
    // That the slot is free is why this may be done: the look at its STATUS comes at the same moment.
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

void RingWorld::read(std::uint8_t rank, Word space, Word message) {
  if (space != kLandingSpace) return;
  const std::vector<Message>& arrivals = ranks_[rank].arrivals;
  if (message < arrivals.size() && arrivals[message].has_landed) return;
  stale_ = fmt::format("reads message {} of connection 0 before its data has landed", message);
}

bool RingWorld::Port::put(Word /*connection*/, Word space, Word offset, Word /*bytes*/, Word /*message*/) {
  world->read(rank, space, offset);
  ++world->ranks_[rank].put;
  return true;
}

void RingWorld::Port::signal(Word /*connection*/, Word puts) {
  std::uint8_t& signalled = world->ranks_[rank].signalled;
  signalled = std::max(signalled, static_cast<std::uint8_t>(puts));
}

Word RingWorld::Port::completed(Word /*connection*/) const {
  const std::vector<Message>& arrivals = world->peer_of(rank).arrivals;
  const auto lands = [](const Message& one) { return one.has_landed; };
  return static_cast<Word>(std::find_if_not(arrivals.begin(), arrivals.end(), lands) - arrivals.begin());
}

void RingWorld::Port::reduce(const Word* args) {
  world->read(rank, args[arg::kSpaces] >> 8U & 0xffU, args[arg::kFirst]);
}
void RingWorld::Port::copy(const Word* args) { world->read(rank, args[arg::kSpaces] >> 8U & 0xffU, args[arg::kFirst]); }

std::string RingWorld::one_step(std::uint8_t index, ring::KernelLane& lane, ring::Step& now) {
  Rank& rank = ranks_[index];
  Port port{this, index};
  ring::MeshOperations<ring::PlainWords, Port> operations(rank.kernel, explored_board(program_), port);
  stale_.clear();
  now = ring::step<ring::PlainWords>(rank.kernel, lane, operations);
  const auto wrong = [&](const std::string& what) {
    const Word op = ring::slot_at(rank.kernel, lane.slot)[ring::slot_word::kOpcode];
    return fmt::format("rank {} ring 0 slot {} ({}, block {}) {}", index, lane.slot, ring::operation_name(op),
                       lane.index, what);
  };
  if (!stale_.empty()) return wrong(stale_);
  if (now == ring::Step::kRan && lane.ends_as == ring::status::kDone) {
    const std::vector<RingItem>& items = program_.ranks[index];
    const bool is_torn = rank.items < items.size() && items[rank.items].slot == lane.slot && !rank.wrote_words;
    if (is_torn && rank.wrote_status) return wrong("is executed before its words were written");
    if (++rank.executed[lane.slot] > rank.published[lane.slot]) return wrong("is executed twice");
  }
  if (now == ring::Step::kAbandoned) return wrong("is left claimed, its tenant being masked: an abandoned-claim");
  if (now == ring::Step::kEnded && lane.ends_as == ring::status::kFault) return wrong("faults");
  return "";
}

std::string RingWorld::lane_step(const RingAction& action, std::string* told) {
  Rank& rank = ranks_[action.rank];
  ring::KernelLane& lane = rank.lanes[action.index];
  ring::Step now = ring::Step::kNothing;
  const bool began_at_scan = lane.phase == ring::LanePhase::kScan;
  std::string finding = one_step(action.rank, lane, now);
  while (program_.by_turns && finding.empty() && lane.phase != ring::LanePhase::kScan &&
         (began_at_scan ? lane.phase != ring::LanePhase::kRun : lane.phase == ring::LanePhase::kFinish)) {
    finding = one_step(action.rank, lane, now);
  }
  if (told != nullptr) {
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
    *told = fmt::format("rank {} block {} {} slot {} ({})", action.rank, action.index, did, lane.slot,
                        ring::operation_name(op));
  }
  return finding;
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
      return fmt::format("rank {}'s proxy polls, and posts message {}", rank, ranks_[action.rank].posted);
    case RingActionKind::kData:
      return fmt::format("the data of message {} lands at rank {}", index, rank);
    case RingActionKind::kFlag:
      return fmt::format("the flag of message {} is raised at rank {}", index, rank);
    case RingActionKind::kMask:
      return fmt::format("tenant {} is {}", kMaskedTenant, masks_ == 0 ? "masked" : "unmasked");
    case RingActionKind::kLane:
      break;
  }
  return "";
}

std::string RingWorld::take(const RingAction& action, std::string* told) {
  Rank& rank = ranks_[action.rank];
  if (told != nullptr) *told = words_of(action);
  switch (action.kind) {
    case RingActionKind::kHostWords:
      write(rank, true, false);
      break;
    case RingActionKind::kHostStatus:
      write(rank, false, true);
      break;
    case RingActionKind::kPlace:
      rank.placed = static_cast<std::uint8_t>(rank.placed | 1U << action.index);
      break;
    case RingActionKind::kLane:
      return lane_step(action, told);
    case RingActionKind::kProxy:
      ++rank.posted;
      peer_of(action.rank).arrivals.emplace_back();
      break;
    case RingActionKind::kData:
      rank.arrivals[action.index].has_landed = true;
      break;
    case RingActionKind::kFlag:
      rank.arrivals[action.index].is_flagged = true;
      ring::PlainWords::add(
          rank.control.data() + ring::kLayout2026_05.observables + explored_board(program_).arrivals_of(0), 1);
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

namespace {

/// State as bytes: words that differ from the first ones by place and value, then the rest as it is.
class StateWriter {
 public:
  template <typename Value>
  void put(Value value) {
    char bytes[sizeof(Value)];
    std::memcpy(bytes, &value, sizeof(Value));
    text_.append(bytes, sizeof(Value));
  }
  void put_changes(const std::vector<Word>& now, const std::vector<Word>& first) {
    const std::size_t count_at = text_.size();
    std::uint16_t count = 0;
    put(count);
    for (std::size_t word = 0; word < now.size(); ++word) {
      if (now[word] == first[word]) continue;
      put(static_cast<std::uint16_t>(word));
      put(now[word]);
      ++count;
    }
    std::memcpy(text_.data() + count_at, &count, sizeof(count));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class StateReader {
 public:
  explicit StateReader(const std::string& text) : text_(text) {}
  template <typename Value>
  Value get() {
    Value value;
    std::memcpy(&value, text_.data() + at_, sizeof(Value));
    at_ += sizeof(Value);
    return value;
  }
  void get_changes(std::vector<Word>& now, const std::vector<Word>& first) {
    std::copy(first.begin(), first.end(), now.begin());
    for (auto left = get<std::uint16_t>(); left > 0; --left) {
      const auto word = get<std::uint16_t>();
      now[word] = get<Word>();
    }
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string RingWorld::state() const {
  StateWriter writer;
  writer.put(masks_);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const Rank& rank = ranks_[index];
    writer.put_changes(rank.control, first_control_[index]);
    writer.put_changes(rank.slots, first_slots_[index]);
    for (const ring::KernelLane& lane : rank.lanes) {
      LaneBytes bytes{.phase = static_cast<std::uint8_t>(lane.phase)};
      if (lane.phase != ring::LanePhase::kScan) {
        bytes = {.phase = bytes.phase,
                 .slot = static_cast<std::uint8_t>(lane.slot),
                 .seen = static_cast<std::uint8_t>(lane.seen),
                 .level = static_cast<std::uint8_t>(lane.level),
                 .ends_as = static_cast<std::uint8_t>(lane.phase == ring::LanePhase::kFinish ? lane.ends_as : 0)};
      }
      writer.put(bytes);
    }
    for (Word slot = 0; slot < program_.slots; ++slot) {
      writer.put(rank.executed[slot]);
      writer.put(rank.published[slot]);
    }
    for (const std::uint8_t byte : {rank.placed, rank.items, static_cast<std::uint8_t>(rank.wrote_words),
                                    static_cast<std::uint8_t>(rank.wrote_status), rank.put, rank.signalled, rank.posted,
                                    static_cast<std::uint8_t>(rank.arrivals.size())}) {
      writer.put(byte);
    }
    for (const Message& message : rank.arrivals) writer.put(message);
  }
  return writer.take();
}

void RingWorld::restore(const std::string& state) {
  StateReader reader(state);
  masks_ = reader.get<std::uint8_t>();
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = ranks_[index];
    reader.get_changes(rank.control, first_control_[index]);
    reader.get_changes(rank.slots, first_slots_[index]);
    for (ring::KernelLane& lane : rank.lanes) {
      const auto bytes = reader.get<LaneBytes>();
      lane = {.index = lane.index,
              .phase = static_cast<ring::LanePhase>(bytes.phase),
              .slot = bytes.slot,
              .seen = bytes.seen,
              .level = bytes.level,
              .ends_as = bytes.ends_as};
    }
    for (Word slot = 0; slot < program_.slots; ++slot) {
      rank.executed[slot] = reader.get<std::uint8_t>();
      rank.published[slot] = reader.get<std::uint8_t>();
    }
    rank.placed = reader.get<std::uint8_t>();
    rank.items = reader.get<std::uint8_t>();
    rank.wrote_words = reader.get<std::uint8_t>() != 0;
    rank.wrote_status = reader.get<std::uint8_t>() != 0;
    rank.put = reader.get<std::uint8_t>();
    rank.signalled = reader.get<std::uint8_t>();
    rank.posted = reader.get<std::uint8_t>();
    rank.arrivals.resize(reader.get<std::uint8_t>());
    for (Message& message : rank.arrivals) message = reader.get<Message>();
  }
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
    const int other = 1 - static_cast<int>(index);
    ring::RingWaits waits{.rank = static_cast<int>(index),
                          .ring = 0,
                          .kernel = &rank.kernel,
                          .lanes = rank.lanes,
                          .board = explored_board(program_),
                          .sends = {},
                          .receives = {},
                          .completed = {},
                          .resident = {},
                          .stands_still = ""};
    if (ranks_.size() > 1) {
      waits.sends = waits.receives = {{.rank = other, .ring = 0, .connection = 0}};
      waits.completed = {0};
    }
    for (Word lane = 0; lane < program_.lanes; ++lane) waits.resident.push_back((rank.placed >> lane & 1U) != 0);
    all.push_back(std::move(waits));
    const ring::Verdict verdict = ring::verdict_of(rank.kernel, rank.lanes);
    if (verdict.cause == ring::Cause::kDrained) continue;
    causes += fmt::format("{}rank {}: {}", causes.empty() ? "" : ", ", index, ring::name_of(verdict.cause));
  }
  const ring::WaitChain chain = ring::shortest_wait_chain(all);
  if (causes.empty()) return "not everything that was published was executed";
  return chain.links.empty() ? causes : causes + ": " + chain.text();
}

}  // namespace meshbed::testbed
