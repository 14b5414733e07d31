#include "testbed/verify/interleaver.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::testbed {
namespace {

constexpr Picoseconds kPauseMin = 100 * kPicosecondsPerMicrosecond;
constexpr Picoseconds kPauseMax = kPicosecondsPerSecond;
/// A call must not wait for another rank, which has no turn meanwhile.
constexpr Picoseconds kTurnAtMost = 30 * kPicosecondsPerSecond;

/// The externally visible state that a call may have changed.
struct Trace {
  std::uint64_t activity = 0, bytes = 0, descriptors = 0, objects = 0;
  bool operator==(const Trace&) const = default;
};

Trace trace_of(const sim::Thread& thread) {
  const sim::HostCounters& host = sim::host_counters();
  return {thread.activity(), host.management_bytes, host.open_descriptors, sim::verbs_counters().live_objects};
}

}  // namespace

void Interleaver::print(const std::string& text) const {
  if (!options_.print) return;
  options_.print(fmt::format("{:>14.6f} us  {}", static_cast<double>(sim::World::get().now()) / 1e6, text));
}

void Interleaver::enter(int rank) {
  RankTurn& turn = ranks_[static_cast<std::size_t>(rank)];
  turn.thread = sim::World::current();
  turn.seen_epoch = turn.thread->process().epoch;
  if (++entered_ < options_.ranks) return;
  scheduler_ = &sim::World::get().spawn(turn.thread->process(), "scheduler", [this] { run(); });
}

void Interleaver::leave(int rank) {
  ranks_[static_cast<std::size_t>(rank)].is = RankTurn::Is::kGone;
  sim::World::get().wake(*scheduler_);
}

Interleaver::Answer Interleaver::take(int rank, const std::string& name, Look look, const std::function<bool()>& ready,
                                      const std::function<Answer()>& call) {
  sim::World& world = sim::World::get();
  RankTurn& turn = ranks_[static_cast<std::size_t>(rank)];
  turn.call = name;
  turn.circle = look.circle;
  turn.ready = ready;
  turn.is = RankTurn::Is::kWaiting;
  if (scheduler_ != nullptr) world.wake(*scheduler_);
  while (turn.is != RankTurn::Is::kCalling) world.block({.what = "its turn"});

  const Picoseconds before_ps = world.now();
  const Trace before = trace_of(*turn.thread);
  turn.seen += fmt::format("\n{} {}", turn.thread->process().epoch, name);
  const std::size_t seen = turn.seen.size();
  const Answer answer = call();
  turn.step = {.instant = world.now() == before_ps,
               .changed = look.first || answer == Answer::kDone || trace_of(*turn.thread) != before};
  if (!turn.step.changed) turn.seen.resize(turn.seen.rfind('\n'));
  if (answer == Answer::kDone) {
    turn.stale = 0;
    last_progress_ = world.now();
    pauses_ = 0;
  } else {
    turn.stale = turn.thread->process().epoch == turn.seen_epoch ? turn.stale + 1 : 1;
  }
  turn.seen_epoch = turn.thread->process().epoch;
  print(fmt::format("rank {} {}{}{}", rank, name, answer == Answer::kDone ? "" : ": not yet",
                    turn.step.changed && turn.seen.size() > seen ? ":" + turn.seen.substr(seen) : ""));
  turn.is = RankTurn::Is::kAway;
  world.wake(*scheduler_);
  return answer;
}

void Interleaver::run() {
  for (;;) {
    await_calls();
    if (std::all_of(ranks_.begin(), ranks_.end(), [](const RankTurn& turn) { return turn.is == RankTurn::Is::kGone; }))
      return;
    if (std::exchange(rested_, false)) chooser_.is_in(state(), static_cast<unsigned>(interrupted_));
    const std::string choices = options();
    if (choices.empty()) {
      if (pauses_ > 0) chooser_.idle([this] { return idle_pause(); });
      pause();
      continue;
    }
    const char option = chooser_.choose(choices);
    option == 'w' || option == '.' ? let_time_pass(option) : let_call(ranks_[static_cast<std::size_t>(option - '0')]);
  }
}

/// Waits until every rank has announced its next call.
void Interleaver::await_calls() {
  sim::World& world = sim::World::get();
  const Picoseconds give_up = world.now() + kTurnAtMost;
  const auto busy = [](const RankTurn& turn) {
    return turn.is == RankTurn::Is::kAway || turn.is == RankTurn::Is::kCalling;
  };
  while (std::any_of(ranks_.begin(), ranks_.end(), busy)) {
    if (world.block_until(give_up, {.what = "a call to end"})) continue;
    const auto turn = std::find_if(ranks_.begin(), ranks_.end(), busy);
    broken(fmt::format("rank {} does not come back from {}: no call may wait for what another rank has yet to do",
                       turn - ranks_.begin(), turn->call));
  }
}

bool Interleaver::has_turn(const RankTurn& turn) const {
  if (turn.is != RankTurn::Is::kWaiting || (turn.ready && !turn.ready())) return false;
  return turn.stale < turn.circle || turn.thread->process().epoch != turn.seen_epoch;
}

std::string Interleaver::options() const {
  std::string result;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (has_turn(ranks_[rank])) result.push_back(static_cast<char>('0' + rank));
  }
  // After '.', 'w' would repeat what it gave before.
  if (under_way_ && !between_) result.push_back('w');
  if (under_way_ && (between_ || interrupted_ < options_.interruptions)) result.push_back('.');
  return result;
}

std::string Interleaver::state() const {
  const sim::HostCounters& host = sim::host_counters();
  const sim::VerbsCounters& verbs = sim::verbs_counters();
  std::string result =
      fmt::format("{} {} {} | {} {} {} | {} {} {} {} {}", options_.late == kNoBound ? 0 : late_, pause_, pauses_,
                  host.management_bytes, host.open_descriptors, host.live_threads, verbs.messages, verbs.delivered,
                  verbs.payload_bytes, verbs.in_flight, verbs.live_objects);
  for (const RankTurn& turn : ranks_) {
    result += fmt::format("\n{} {} {} {} {} {}{}", static_cast<int>(turn.is), turn.call, turn.circle, turn.stale,
                          turn.thread->process().epoch - turn.seen_epoch, turn.thread->process().epoch, turn.seen);
  }
  return result;
}

void Interleaver::let_call(RankTurn& turn) {
  call(turn);
  between_ = false;
  chooser_.took(turn.step);
}

void Interleaver::call(RankTurn& turn) {
  turn.is = RankTurn::Is::kCalling;
  sim::World::get().wake(*turn.thread);
  await_calls();
  if (!turn.step.changed && turn.step.instant) return;
  under_way_ = true;
  pause_ = 0;
}

bool Interleaver::idle_pause() {
  pause();
  for (;;) {
    for (RankTurn& turn : ranks_) {
      while (has_turn(turn)) {
        call(turn);
        if (turn.step.changed) return false;
      }
    }
    if (!under_way_ || !moment(kQuiet)) break;
  }
  under_way_ = false;
  return true;
}

void Interleaver::let_time_pass(char option) {
  if (!between_ && chooser_.late() && ++late_ > options_.late) return chooser_.took({.leave = true});
  ChoiceStep step{.changed = moment(kQuiet)};
  if (option == '.') {
    interrupted_ += between_ ? 0 : 1;
    between_ = true;
    step.leave = !step.changed;  // it would be quiet, as after 'w'
  } else {
    while (moment(kQuiet)) continue;
    under_way_ = false;
    rested_ = true;
  }
  chooser_.took(step);
}

/// Called if no rank has a turn and the wire is quiet.
void Interleaver::pause() {
  if (sim::World::get().now() - last_progress_ > kHopeless) {
    broken(fmt::format("deadlock: no rank makes progress for {} s; {}", kHopeless / kPicosecondsPerSecond, waiting()));
  }
  pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  under_way_ = moment(pause_);
  ++pauses_;
  rested_ = !under_way_;
  for (RankTurn& turn : ranks_) turn.stale = 0;
}

bool Interleaver::moment(Picoseconds limit) {
  sim::World& world = sim::World::get();
  const auto reached = [this] {
    std::uint64_t sum = 0;
    for (const RankTurn& turn : ranks_) sum += turn.thread->process().epoch;
    return sum;
  };
  const std::uint64_t before = reached();
  const Picoseconds end = world.now() + limit;
  while (reached() == before && world.now() < end) {
    // As if the scheduler polled in every rank's process: every event that ends one of their polls wakes it.
    for (const RankTurn& turn : ranks_) turn.thread->process().spinning.push_back(scheduler_);
    world.block_until(end, {.what = "something to reach a rank"});
    for (const RankTurn& turn : ranks_) std::erase(turn.thread->process().spinning, scheduler_);
  }
  if (reached() == before) return false;
  world.sleep(1);
  return true;
}

std::string Interleaver::waiting() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    text += fmt::format("{}rank {} {}", text.empty() ? "" : ", ", rank,
                        ranks_[rank].is == RankTurn::Is::kGone ? "has ended" : "waits in " + ranks_[rank].call);
  }
  return text;
}

}  // namespace meshbed::testbed
