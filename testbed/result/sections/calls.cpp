// When each rank called each collective, and when it had its result.
//
// Nomenclature: skew - from the first rank's call to the last rank's. late - from the first rank's call to this one's.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

constexpr std::size_t kIterationsMost = 1000, kCallsMost = 2000;

double call_ns(Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e3; }

struct OneCall {
  int iteration = 0;  // warm-ups are negative
  const CallTime* time = nullptr;
};

/// By iteration, then as they ended. A rank makes its calls in order.
std::vector<OneCall> ordered_calls(const RunResult& result) {
  std::vector<OneCall> calls;
  std::map<int, int> made;  // by rank
  for (const CallTime& time : result.calls.times) {
    calls.push_back({.iteration = made[time.rank]++ - result.warmup, .time = &time});
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const OneCall& left, const OneCall& right) { return left.iteration < right.iteration; });
  return calls;
}

Section calls_shape() {
  Section section{.key = "calls", .title = "Calls", .empty = Empty::kNull};
  section.with({integer("count", "",
                        "calls that succeeded, of all ranks; the tables have 1000 iterations and 2000 "
                        "calls at most, the first ones")});
  section.with(Table{.key = "iterations",
                     .meaning = "each collective, warm-ups with negative numbers",
                     .columns = {integer("iteration", "", "its number"), number("start_ns", "ns", "of the first rank"),
                                 number("skew_ns", "ns", "from the first rank's call to the last rank's"),
                                 integer("last_rank", "", "that called last; null without skew").or_null(),
                                 number("time_ns", "ns", "from the first call to the last rank's result"),
                                 integer("slowest_rank", "", "that had its result last")}});
  section.with(Table{.key = "by_rank",
                     .meaning = "each rank over its timed calls, on average",
                     .columns = {integer("rank", "", "the rank"), integer("calls", "", "timed"),
                                 number("late_ns", "ns", "from the first rank's call to this one's"),
                                 number("time_ns", "ns", "from its call to its result"),
                                 number("busbw_GBps", "GB/s", "of that time, as nccl-tests defines it")}});
  return section.with(
      Table{.key = "calls",
            .meaning = "each rank's calls, by iteration",
            .columns = {integer("iteration", "", "its number"), integer("rank", "", "that called"),
                        number("start_ns", "ns", "of the call"), number("end_ns", "ns", "the rank has its result")}});
}

struct RankCalls {
  std::size_t count = 0;
  Picoseconds late_ps = 0, time_ps = 0;
};

void fill_calls(Section& section, const RunView& run) {
  const std::vector<OneCall> calls = ordered_calls(run.result);
  section.has_values = !calls.empty();
  section.set("count", calls.size());
  std::map<int, RankCalls> ranks;
  std::size_t iterations = 0;
  for (auto begin = calls.begin(); begin != calls.end();) {
    const auto end =
        std::find_if(begin, calls.end(), [&](const OneCall& call) { return call.iteration != begin->iteration; });
    const auto by_start = [](const OneCall& left, const OneCall& right) {
      return left.time->start_ps < right.time->start_ps;
    };
    const auto [first, last] = std::minmax_element(begin, end, by_start);
    const auto slowest = std::max_element(
        begin, end, [](const OneCall& left, const OneCall& right) { return left.time->end_ps < right.time->end_ps; });
    for (auto call = begin; call != end && call->iteration >= 0; ++call) {
      RankCalls& rank = ranks[call->time->rank];
      ++rank.count;
      rank.late_ps += call->time->start_ps - first->time->start_ps;
      rank.time_ps += call->time->end_ps - call->time->start_ps;
    }
    if (++iterations <= kIterationsMost) {
      section.table("iterations")
          .add({begin->iteration, call_ns(first->time->start_ps), call_ns(last->time->start_ps - first->time->start_ps),
                known_value(last->time->start_ps > first->time->start_ps, last->time->rank),
                call_ns(slowest->time->end_ps - first->time->start_ps), slowest->time->rank});
    }
    begin = end;
  }
  for (const auto& [rank, of_rank] : ranks) {
    const auto count = static_cast<Picoseconds>(of_rank.count);
    section.table("by_rank").add({rank, of_rank.count, call_ns(of_rank.late_ps / count),
                                  call_ns(of_rank.time_ps / count),
                                  run.result.algbw_GBps(of_rank.time_ps / count) * run.result.busbw_factor});
  }
  for (const OneCall& call : calls) {
    if (section.table("calls").rows.size() == kCallsMost) break;
    section.table("calls").add(
        {call.iteration, call.time->rank, call_ns(call.time->start_ps), call_ns(call.time->end_ps)});
  }
}

const RunSection calls_here(1320, calls_shape, fill_calls);

}  // namespace
}  // namespace meshbed::testbed::document
