// Every order of every step of three lanes and one publisher over two slots: the steps are those of LiveRing
// (plugin/ring/queue/live_steps.h), the words are the model's.
//
// Memory is as weak for the publisher as the language lets it be: a relaxed store waits in a buffer, and reaches memory
// in any order with the others; a release store waits until none of the earlier ones is left. (Lanes store nothing but
// STATUS, and that by release.) Loads see memory at once: what acquire keeps apart is ThreadSanitizer's to watch.
//
// Cost: one state for each way in which all words and all places in the steps can stand, each looked at once.
#include <doctest/doctest.h>

#include <deque>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "plugin/ring/queue/live_steps.h"
#include "plugin/ring/telemetry/transitions.h"

namespace model_test {

using namespace meshbed::ring;

namespace {

constexpr Word kLanes = 3, kSlots = 2, kPayloadWords = 2;  // opcode, and tenant
constexpr Word kItems = 3;                                 // published one after the other, into slots 0, 1, 0
constexpr Word kControlWords = 5;                          // up to the masks of two tenants
constexpr Word kWords = kControlWords + kSlots * (1 + kPayloadWords);

constexpr int kPendingMost = kPayloadWords + 1;

struct Pending {
  std::uint8_t place, word;
};

struct State {
  std::uint8_t words[kWords];
  std::uint8_t pending_count;
  Pending pending[kPendingMost];  // the publisher's
  std::uint8_t item;              // that is published next
  std::uint8_t publish_at;
  struct KernelLane {
    std::uint8_t phase;  // 0: claims, 1: reads opcode, 2: finishes
    std::uint8_t slot, at, seen, tenant, base, counted;
  } lanes[kLanes];
  std::uint8_t executed[kItems];
  std::uint8_t done;    // DONEs so far
  std::uint8_t masked;  // how often tenant 1's mask has changed: off, on

  std::string key() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
static_assert(std::has_unique_object_representations_v<State>);

Word tenant_of(Word item) { return item == kItems - 1 ? 1 : 0; }  // slot 0 changes its tenant
Word opcode_of(Word item) { return opcode::kUserFirst + item; }

struct Broken {
  std::string why;
};

/// One thread's view of a state's words, for one step.
class ModelMemory {
 public:
  ModelMemory(State& state, bool buffers, Actor actor) : state_(state), buffers_(buffers), actor_(actor) {}

  Word slot_place(Word slot, Word word) const { return kControlWords + slot * (1 + kPayloadWords) + word; }
  Word control_place(std::uint64_t word) const { return static_cast<Word>(word); }
  Word payload_words() const { return kPayloadWords; }
  std::uint64_t control_words() const { return kControlWords; }

  Word load(Word place, Order) const {
    if (buffers_) {
      for (int at = state_.pending_count; at-- > 0;) {
        if (state_.pending[at].place == place) return state_.pending[at].word;
      }
    }
    return state_.words[place];
  }
  void store(Word place, Word word, Order order) {
    if (buffers_ && order != Order::kRelease) {
      blocked = state_.pending_count == kPendingMost;
      if (blocked) return;
      state_.pending[state_.pending_count++] = {static_cast<std::uint8_t>(place), static_cast<std::uint8_t>(word)};
      return;
    }
    if (buffers_ && state_.pending_count > 0) {
      blocked = true;
      return;
    }
    put(place, word);
  }
  void add(Word place, Word amount) { state_.words[place] = static_cast<std::uint8_t>(state_.words[place] + amount); }
  bool swap(Word place, Word expected, Word desired) {
    if (state_.words[place] != expected) return false;
    put(place, desired);
    return true;
  }
  /// What reaches memory; a status is held against the rules.
  void put(Word place, Word word) {
    if (place >= kControlWords && (place - kControlWords) % (1 + kPayloadWords) == 0) {
      const Word from = state_.words[place];
      // Safe lanes take REQUEUE as the priority kernel does, and leave it as a handler does.
      const Actor actor = actor_ == Actor::kHost ? Actor::kHost : who_may(from, word).value_or(Actor::kKernel);
      if (!may(actor, from, word) || (actor_ != Actor::kHost && actor == Actor::kHost)) {
        throw Broken{status_name(from) + " -> " + status_name(word)};
      }
      if (word == status::kDone) ++state_.done;
    }
    state_.words[place] = static_cast<std::uint8_t>(word);
  }

  bool blocked = false;  // the step cannot be taken before a store has reached memory

 private:
  State& state_;
  bool buffers_;
  Actor actor_;
};

/// False: it has nothing to do.
bool step_publisher(State& state, Mode mode) {
  if (state.item == kItems) return false;
  const Word item = state.item;
  const Word words[] = {0, opcode_of(item), tenant_of(item)};
  ModelMemory memory(state, true, Actor::kHost);
  PublishSteps steps{.slot = item % kSlots, .mode = mode, .at = state.publish_at};
  const Progress progress = steps.step(memory, words);
  if (memory.blocked) return false;
  state.publish_at = progress == Progress::kGoesOn ? static_cast<std::uint8_t>(steps.at) : 0;
  if (progress == Progress::kSucceeded) ++state.item;
  return true;
}

void step_lane(State& state, State::KernelLane& lane, Mode mode) {
  ModelMemory memory(state, false, Actor::kKernel);
  if (lane.phase == 0) {
    ClaimSteps steps{.slot = lane.slot,
                     .mode = mode,
                     .at = static_cast<ClaimSteps::At>(lane.at),
                     .seen = lane.seen,
                     .tenant = lane.tenant,
                     .base = lane.base};
    const Progress progress = steps.step(memory);
    const auto slot = lane.slot;
    lane = {};
    lane.slot = slot;
    if (progress == Progress::kFailed) lane.slot = static_cast<std::uint8_t>((slot + 1) % kSlots);
    if (progress == Progress::kSucceeded) lane.phase = 1;
    if (progress != Progress::kGoesOn) return;
    lane.at = static_cast<std::uint8_t>(steps.at);
    lane.seen = static_cast<std::uint8_t>(steps.seen);
    lane.tenant = static_cast<std::uint8_t>(steps.tenant);
    lane.base = static_cast<std::uint8_t>(steps.base);
    return;
  }
  if (lane.phase == 1) {
    const Word op = memory.load(memory.slot_place(lane.slot, slot_word::kOpcode), Order::kRelaxed);
    const Word item = op - opcode::kUserFirst;
    if (op < opcode::kUserFirst || item >= kItems || item % kSlots != lane.slot) throw Broken{"words never published"};
    if (++state.executed[item] > 1) throw Broken{"an item is executed twice"};
    lane.phase = 2;
    return;
  }
  FinishSteps steps{.slot = lane.slot, .as = status::kDone, .counted = lane.counted != 0};
  if (steps.step(memory) == Progress::kGoesOn) {
    lane.counted = 1;
    return;
  }
  const auto slot = lane.slot;
  lane = {};
  lane.slot = slot;
}

struct Walk {
  std::size_t states = 0, ends = 0, stuck = 0;
  std::size_t put_back = 0;  // states with a slot that is REQUEUE
  std::string broken;        // the first that was found; empty: none
};

/// Stores to one place reach memory in their order.
bool has_earlier(const State& state, int at) {
  for (int earlier = 0; earlier < at; ++earlier) {
    if (state.pending[earlier].place == state.pending[at].place) return true;
  }
  return false;
}

/// All states that can be reached, breadth first; then backwards from the ends, for those that reach none.
Walk walk(Mode mode) {
  State start{};
  start.words[control_word::kTenantBase] = control_word::kTenantMasks;
  start.words[control_word::kTenantMasks] = start.words[control_word::kTenantMasks + 1] = 1;
  std::unordered_map<std::string, std::uint32_t> known{{start.key(), 0}};
  std::deque<State> open{start};
  std::vector<std::vector<std::uint32_t>> before(1);
  std::vector<std::uint32_t> ends;
  Walk found;
  for (std::uint32_t now = 0; !open.empty(); ++now) {
    const State state = open.front();
    open.pop_front();
    const auto reach = [&](const State& next) {
      if (next.words[control_word::kDoneCount] < next.done) throw Broken{"the done count is behind"};
      const auto [at, is_new] = known.try_emplace(next.key(), static_cast<std::uint32_t>(known.size()));
      if (is_new) {
        open.push_back(next);
        before.emplace_back();
      }
      if (at->second != now) before[at->second].push_back(now);
    };
    try {
      State next = state;
      if (step_publisher(next, mode)) reach(next);
      if (state.masked < 2) {  // tenant 1 may not run for a while
        next = state;
        next.words[control_word::kTenantMasks + 1] = next.masked++;
        reach(next);
      }
      for (int at = 0; at < state.pending_count; ++at) {
        if (has_earlier(state, at)) continue;
        next = state;
        ModelMemory(next, false, Actor::kHost).put(next.pending[at].place, next.pending[at].word);
        for (int later = at + 1; later < next.pending_count; ++later) next.pending[later - 1] = next.pending[later];
        next.pending[--next.pending_count] = {};
        reach(next);
      }
      for (Word lane = 0; lane < kLanes; ++lane) {
        next = state;
        step_lane(next, next.lanes[lane], mode);
        reach(next);
      }
    } catch (const Broken& broken) {
      if (found.broken.empty()) found.broken = broken.why;
      return found;
    }
    found.put_back += state.words[kControlWords] == status::kRequeue;
    if (state.item == kItems && state.done == kItems) ends.push_back(now);
  }
  found.states = known.size();
  found.ends = ends.size();
  std::vector<bool> reaches(known.size());
  for (const std::uint32_t end : ends) reaches[end] = true;
  while (!ends.empty()) {
    const std::uint32_t now = ends.back();
    ends.pop_back();
    for (const std::uint32_t one : before[now]) {
      if (reaches[one]) continue;
      reaches[one] = true;
      ends.push_back(one);
    }
  }
  for (const bool one : reaches) found.stuck += !one;
  return found;
}

}  // namespace

TEST_CASE(
    "three lanes, two slots, all orders: in safe mode every item is executed once, and every state can end well") {
  const Walk found = walk(Mode::kSafe);
  CHECK(found.broken == "");
  CHECK(found.stuck == 0);
  CHECK(found.ends > 0);
  CHECK(found.put_back > 0);  // a lane found another's tenant, which may not run
  CHECK(found.states == 198'717);
}

TEST_CASE("three lanes, two slots, all orders: in strict mode a lane can see STATUS before the words") {
  CHECK(walk(Mode::kStrict).broken == "words never published");
}

}  // namespace model_test
