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

void Interleaver::sit_down(int rank) {
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  seat.thread = sim::World::current();
  seat.seen_epoch = seat.thread->process().epoch;
  if (++sitting_ < options_.ranks) return;
  dealer_ = &sim::World::get().spawn(seat.thread->process(), "dealer", [this] { play(); });
}

void Interleaver::get_up(int rank) {
  seats_[static_cast<std::size_t>(rank)].is = Seat::Is::kGone;
  sim::World::get().wake(*dealer_);
}

Interleaver::Answer Interleaver::take(int rank, const std::string& name, Look look, const std::function<bool()>& ready,
                                      const std::function<Answer()>& call) {
  sim::World& world = sim::World::get();
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  seat.call = name;
  seat.circle = look.circle;
  seat.ready = ready;
  seat.is = Seat::Is::kWaiting;
  if (dealer_ != nullptr) world.wake(*dealer_);
  while (seat.is != Seat::Is::kCalling) world.block({.what = "its turn"});

  const Picoseconds before_ps = world.now();
  const Trace before = trace_of(*seat.thread);
  seat.seen += fmt::format("\n{} {}", seat.thread->process().epoch, name);
  const std::size_t seen = seat.seen.size();
  const Answer answer = call();
  seat.step = {.instant = world.now() == before_ps,
               .changed = look.first || answer == Answer::kDone || trace_of(*seat.thread) != before};
  if (!seat.step.changed) seat.seen.resize(seat.seen.rfind('\n'));
  if (answer == Answer::kDone) {
    seat.stale = 0;
    last_progress_ = world.now();
    pauses_ = 0;
  } else {
    seat.stale = seat.thread->process().epoch == seat.seen_epoch ? seat.stale + 1 : 1;
  }
  seat.seen_epoch = seat.thread->process().epoch;
  print(fmt::format("rank {} {}{}{}", rank, name, answer == Answer::kDone ? "" : ": not yet",
                    seat.step.changed && seat.seen.size() > seen ? ":" + seat.seen.substr(seen) : ""));
  seat.is = Seat::Is::kAway;
  world.wake(*dealer_);
  return answer;
}

void Interleaver::play() {
  for (;;) {
    await_calls();
    if (std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.is == Seat::Is::kGone; })) return;
    if (std::exchange(rested_, false)) chooser_.is_in(state(), static_cast<unsigned>(interrupted_));
    const std::string choices = options();
    if (choices.empty()) {
      if (pauses_ > 0) chooser_.idle([this] { return idle_beat(); });
      pause();
      continue;
    }
    const char option = chooser_.choose(choices);
    option == 'w' || option == '.' ? let_time_pass(option) : let_call(seats_[static_cast<std::size_t>(option - '0')]);
  }
}

/// Waits until every rank has announced its next call.
void Interleaver::await_calls() {
  sim::World& world = sim::World::get();
  const Picoseconds give_up = world.now() + kTurnAtMost;
  const auto busy = [](const Seat& seat) { return seat.is == Seat::Is::kAway || seat.is == Seat::Is::kCalling; };
  while (std::any_of(seats_.begin(), seats_.end(), busy)) {
    if (world.block_until(give_up, {.what = "a call to end"})) continue;
    const auto seat = std::find_if(seats_.begin(), seats_.end(), busy);
    broken(fmt::format("rank {} does not come back from {}: no call may wait for what another rank has yet to do",
                       seat - seats_.begin(), seat->call));
  }
}

bool Interleaver::has_turn(const Seat& seat) const {
  if (seat.is != Seat::Is::kWaiting || (seat.ready && !seat.ready())) return false;
  return seat.stale < seat.circle || seat.thread->process().epoch != seat.seen_epoch;
}

std::string Interleaver::options() const {
  std::string result;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (has_turn(seats_[rank])) result.push_back(static_cast<char>('0' + rank));
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
  for (const Seat& seat : seats_) {
    result += fmt::format("\n{} {} {} {} {} {}{}", static_cast<int>(seat.is), seat.call, seat.circle, seat.stale,
                          seat.thread->process().epoch - seat.seen_epoch, seat.thread->process().epoch, seat.seen);
  }
  return result;
}

void Interleaver::let_call(Seat& seat) {
  call(seat);
  between_ = false;
  chooser_.took(seat.step);
}

void Interleaver::call(Seat& seat) {
  seat.is = Seat::Is::kCalling;
  sim::World::get().wake(*seat.thread);
  await_calls();
  if (!seat.step.changed && seat.step.instant) return;
  under_way_ = true;
  pause_ = 0;
}

bool Interleaver::idle_beat() {
  pause();
  for (;;) {
    for (Seat& seat : seats_) {
      while (has_turn(seat)) {
        call(seat);
        if (seat.step.changed) return false;
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
  for (Seat& seat : seats_) seat.stale = 0;
}

bool Interleaver::moment(Picoseconds limit) {
  sim::World& world = sim::World::get();
  const auto reached = [this] {
    std::uint64_t sum = 0;
    for (const Seat& seat : seats_) sum += seat.thread->process().epoch;
    return sum;
  };
  const std::uint64_t before = reached();
  const Picoseconds end = world.now() + limit;
  while (reached() == before && world.now() < end) {
    // As if the dealer polled in every rank's process: every event that ends one of their polls wakes it.
    for (const Seat& seat : seats_) seat.thread->process().spinning.push_back(dealer_);
    world.block_until(end, {.what = "something to reach a rank"});
    for (const Seat& seat : seats_) std::erase(seat.thread->process().spinning, dealer_);
  }
  if (reached() == before) return false;
  world.sleep(1);
  return true;
}

std::string Interleaver::waiting() const {
  std::string text;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    text += fmt::format("{}rank {} {}", text.empty() ? "" : ", ", rank,
                        seats_[rank].is == Seat::Is::kGone ? "has ended" : "waits in " + seats_[rank].call);
  }
  return text;
}

}  // namespace meshbed::testbed
