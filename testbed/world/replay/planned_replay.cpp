#include "testbed/world/replay/planned_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugin/base/check.h"

namespace meshbed::testbed {
namespace {

constexpr std::uint64_t kCopyBytes = 1U << 20U;                        // plugin/coll/run/channel_run.cpp
constexpr std::uint32_t kIdlePassesPerLook = 16;                       // plugin/coll/run/executor.cpp
constexpr Picoseconds kStorePeriod = 10 * kPicosecondsPerMillisecond;  // likewise
constexpr Picoseconds kLongest_ps = Picoseconds{1'000'000} * kPicosecondsPerSecond;

/// A rank's progress thread, while it executes a call.
struct Rank {
  std::vector<PlannedRun> runs;
  // Where its pass has come to.
  std::size_t at = 0;
  bool moved = false, finished = true;
  std::uint32_t idle_passes = 0;
  Picoseconds next_look_ps = 0;
};

class PlannedReplay {
 public:
  explicit PlannedReplay(const PlannedRequest& request)
      : request_(request),
        net_(*request.cluster, request.plan.ranks, request.way.protocol),
        runs_(*request.cluster, net_, request.devices),
        ranks_(static_cast<std::size_t>(request.plan.ranks)) {
    for (int rank = 0; rank < request.plan.ranks; ++rank) order_.push_back(rank);
  }

  Result<PlannedOutcome> run() {
    for (int iteration = 0; iteration < request_.iterations; ++iteration) {
      const bool is_measured = iteration + 1 == request_.iterations;
      if (is_measured) net_.begin_measuring(request_.trace);
      if (auto done = run_iteration(is_measured); !done) return done.error();
      if (outcome_.gave_up) return std::move(outcome_);
    }
    // The last acknowledgements.
    while (net_.under_way() > 0 && !net_.timeline().empty()) {
      outcome_.events += net_.timeline().run_instant();
      net_.woken().clear();
    }
    outcome_.totals = net_.totals();
    outcome_.connections = runs_.connections();
    outcome_.under_way = net_.under_way();
    outcome_.links = net_.network().links();
    return std::move(outcome_);
  }

 private:
  Result<void> run_iteration(bool is_measured) {
    const Picoseconds start_ps = net_.timeline().now();
    for (int number = 0; number < request_.plan.ranks; ++number) {
      coll::PlanRequest plan = request_.plan;
      plan.rank = number;
      auto made = runs_.make(plan, request_.way, request_.in_place);
      if (!made) return made.error();
      Rank& rank = ranks_[static_cast<std::size_t>(number)];
      rank = {};
      // Its looks begin anew. In a run they go on where the iteration before ended, which shows where there are rails.
      static_cast<void>(net_.poll_of(number).signal());
      rank.runs = std::move(*made);
      if (request_.in_place) {
        for (PlannedRun& each : rank.runs) each.copy_bytes = std::min<std::uint64_t>(each.copy_bytes, 1);
      }
    }
    if (is_measured && !request_.arrivals.empty()) order_ = request_.arrivals;
    // The last one to come opens the gate for the others, and is ahead of them.
    std::rotate(order_.begin(), order_.end() - 1, order_.end());
    for (const int rank : std::exchange(order_, {})) round_.push_back({.rank = rank});
    for (;;) {
      while (!round_.empty() || !net_.woken().empty()) {
        for (const PlannedThread& thread : round_) {
          thread.is_service ? net_.signal(thread.rank) : go_on(thread.rank);
        }
        round_ = std::exchange(net_.woken(), {});
      }
      if (order_.size() == ranks_.size()) break;
      if (auto stepped = step(); !stepped) return stepped;
      if (outcome_.gave_up) return ok();
    }
    outcome_.time_ps = net_.timeline().now() - start_ps;
    outcome_.end_ps = net_.timeline().now();
    if (!is_measured) return ok();
    for (const Rank& rank : ranks_) {
      for (const PlannedRun& each : rank.runs) {
        outcome_.planned_bytes += each.run->counters().bytes_sent;
        outcome_.received_bytes += each.run->counters().bytes_received;
      }
    }
    return ok();
  }

  /// To the next instant that wakes a rank.
  Result<void> step() {
    PlannedTimeline& timeline = net_.timeline();
    while (net_.woken().empty()) {
      if (timeline.empty()) return stalled();
      if (timeline.next_ps() > (request_.give_up_ps > 0 ? request_.give_up_ps : kLongest_ps)) {
        outcome_.gave_up = true;
        return ok();
      }
      constexpr std::uint64_t kProgressEvery = 1U << 18U;
      const std::uint64_t before = outcome_.events;
      outcome_.events += timeline.run_instant();
      if (request_.on_progress != nullptr && before / kProgressEvery != outcome_.events / kProgressEvery) {
        request_.on_progress(net_.totals().messages, timeline.now());
      }
    }
    return ok();
  }

  Error stalled() const {
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      for (const PlannedRun& each : ranks_[number].runs) {
        if (each.run->finished()) continue;
        return {ErrorCode::kInternal, Scope::kJob, fmt::format("rank {} waits: {}", number, each.run->waiting_for())};
      }
    }
    return {ErrorCode::kInternal, Scope::kJob, "nothing happens any more"};
  }

  static bool has_finished(const PlannedRun& each) { return each.copy_bytes == 0 && each.run->finished(); }

  /// As execute() of plugin/coll/run/executor.cpp, until the rank stands still or has ended.
  void go_on(int number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    PlannedPoll& poll = net_.poll_of(number);
    poll.go_on();
    if (poll.goes_on() && rank.at == rank.runs.size()) {  // it stood still in the look at its store
      poll.has_gone_on();
      begin_pass(rank);
    }
    for (;;) {
      for (; rank.at < rank.runs.size(); ++rank.at) {
        PlannedRun& each = rank.runs[rank.at];
        if (has_finished(each)) continue;
        advance(rank, each);
        if (poll.stands()) return net_.arm(number);
        copy_some(rank, each);
        rank.finished &= has_finished(each);
      }
      if (rank.finished) return order_.push_back(number);
      if (!rank.moved && ++rank.idle_passes % kIdlePassesPerLook == 0 && net_.timeline().now() >= rank.next_look_ps) {
        rank.next_look_ps = net_.timeline().now() + kStorePeriod;
        net_.look_at_store(number);
        if (poll.stands()) return net_.arm(number);
      }
      begin_pass(rank);
    }
  }

  static void begin_pass(Rank& rank) {
    rank.at = 0;
    rank.moved = false;
    rank.finished = true;
  }

  void advance(Rank& rank, PlannedRun& each) {
    const auto advanced = each.run->advance();
    MESHBED_CHECK_MSG(bool(advanced), "a channel run without data fails nowhere");
    rank.moved |= net_.take_moved();
  }

  static void copy_some(Rank& rank, PlannedRun& each) {
    if (each.copy_bytes == 0) return;
    each.copy_bytes -= std::min(each.copy_bytes, kCopyBytes);
    rank.moved = true;
  }

  const PlannedRequest& request_;
  PlannedNet net_;
  PlannedRuns runs_;
  std::vector<Rank> ranks_;
  std::vector<PlannedThread> round_;
  std::vector<int> order_;  // of those that have ended; before an iteration, in which they come to it
  PlannedOutcome outcome_;
};

}  // namespace

Result<PlannedOutcome> replay_plan(const PlannedRequest& request) { return PlannedReplay(request).run(); }

}  // namespace meshbed::testbed
