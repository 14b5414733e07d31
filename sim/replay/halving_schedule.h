#pragma once
// HalvingSchedule: an all_reduce by exchanges of halves, then of twice as much again (plugin/coll/plan/schedule.h), as
// sim/replay/run.h wants it. Internal to sim/replay.
//
// n = p + r ranks, p a power of two: of r pairs of neighbours the lower rank hands all to the upper one in step 0, and
// gets the result in the last step. Steps 1 .. log2(p) halve, as many more double. Stream: rank.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/replay/hops.h"
#include "sim/replay/replay.h"
#include "sim/replay/run.h"

namespace meshbed::sim {

/// Who sends to whom in which step.
class HalvingSteps {
 public:
  explicit HalvingSteps(std::uint32_t ranks)
      : power_(std::bit_floor(ranks)),
        pairs_(ranks - power_),
        exchanges_(static_cast<std::uint32_t>(std::bit_width(power_)) - 1) {}

  std::uint32_t last() const { return 2 * exchanges_ + 1; }
  std::uint32_t exchanges() const { return exchanges_; }
  bool is_paired(std::uint32_t rank) const { return rank < 2 * pairs_; }
  bool is_lower(std::uint32_t rank) const { return is_paired(rank) && rank % 2 == 0; }
  std::uint32_t first_of(std::uint32_t rank) const { return is_lower(rank) ? 0 : 1; }
  std::uint32_t count_of(std::uint32_t rank) const {
    return is_lower(rank) ? 1 : 2 * exchanges_ + (is_paired(rank) ? 1 : 0);
  }
  std::uint32_t position(std::uint32_t rank) const { return is_paired(rank) ? rank / 2 : rank - pairs_; }
  /// In steps in which the rank sends.
  std::uint32_t partner(std::uint32_t rank, std::uint32_t step) const {
    if (step == 0) return rank + 1;
    if (step == last()) return rank - 1;
    const std::uint32_t there = position(rank) ^ std::uint32_t{1} << exchange(step);
    return there < pairs_ ? 2 * there + 1 : there + pairs_;
  }
  /// A bit for each step in which the rank receives.
  std::uint64_t received_in(std::uint32_t rank) const {
    const std::uint64_t of_pair = std::uint64_t{1} << (is_lower(rank) ? last() : 0);
    const std::uint64_t of_exchanges = (std::uint64_t{1} << last()) - 2;
    return is_lower(rank) ? of_pair : of_exchanges | (is_paired(rank) ? of_pair : 0);
  }
  /// Which of the exchanges: the same when halving and when doubling.
  std::uint32_t exchange(std::uint32_t step) const { return step <= exchanges_ ? step - 1 : 2 * exchanges_ - step; }

 private:
  std::uint32_t power_, pairs_, exchanges_;
};

class HalvingSchedule {
 public:
  static constexpr bool kPaced = false, kRepeats = false;

  /// `hops`: [rank] those of its steps, one after the other.
  HalvingSchedule(const ReplayRequest& request, std::vector<std::vector<ReplayHop>> hops)
      : ranks_(static_cast<std::uint32_t>(request.ranks)),
        steps_(ranks_),
        elements_(request.elements),
        element_bytes_(request.element_bytes),
        hops_(std::move(hops)),
        arrived_(ranks_, 0),
        reduced_(std::size_t{ranks_} * (steps_.exchanges() + 1), 0) {}

  std::uint32_t streams() const { return ranks_; }
  std::uint32_t steps(std::uint32_t rank) const { return steps_.count_of(rank); }
  /// A partner may be a step ahead: not how many messages have come counts, but which.
  std::uint32_t needed(std::uint32_t rank, std::uint32_t index) const {
    const std::uint64_t before = (std::uint64_t{1} << (steps_.first_of(rank) + index)) - 1;
    const std::uint64_t wanted = steps_.received_in(rank) & before;
    return (arrived_[rank] & wanted) == wanted ? 0 : ~std::uint32_t{0};
  }
  const Path& path(std::uint32_t rank, std::uint32_t to) const {
    std::uint32_t index = 0;
    while (steps_.partner(rank, steps_.first_of(rank) + index) != to) ++index;
    return *hops_[rank][index].path;
  }

  /// The tag is the step, and how many ranks' contributions the message holds.
  ReplayMessage message(std::uint32_t rank, std::uint32_t index) {
    const std::uint32_t step = steps_.first_of(rank) + index;
    const ReplayHop& hop = hops_[rank][index];
    const std::uint64_t bytes = elements_of(rank, step) * element_bytes_;
    return {.to = steps_.partner(rank, step),
            .tag = step << kContributionBits | held(rank, step),
            .bytes = bytes,
            .wire_ps = wire_time_ps(bytes, hop.rate_bps),
            .latency_ps = hop.latency_ps};
  }

  bool arrive(std::uint32_t rank, std::uint32_t, std::uint32_t tag) {
    const std::uint32_t step = tag >> kContributionBits, from_there = tag & ((1U << kContributionBits) - 1);
    const std::uint64_t bit = std::uint64_t{1} << step;
    const bool is_awaited = (steps_.received_in(rank) & bit) != 0 && (arrived_[rank] & bit) == 0;
    arrived_[rank] |= bit;
    if (step > steps_.exchanges()) return is_awaited && from_there == ranks_;
    reduced(rank, step) = from_there;
    return is_awaited;
  }

  /// Every rank has all messages, and those that halve have each contribution once.
  bool is_whole() const {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (arrived_[rank] != steps_.received_in(rank)) return false;
      if (!steps_.is_lower(rank) && held(rank, steps_.last()) != ranks_) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kContributionBits = 24;

  std::uint32_t& reduced(std::uint32_t rank, std::uint32_t step) {
    return reduced_[std::size_t{rank} * (steps_.exchanges() + 1) + step];
  }
  /// Ranks whose contributions it holds before that step: its own, and what earlier ones have brought.
  std::uint32_t held(std::uint32_t rank, std::uint32_t step) const {
    const auto begin = reduced_.begin() + std::ptrdiff_t{rank} * (steps_.exchanges() + 1);
    return std::accumulate(begin, begin + std::min(step, steps_.exchanges() + 1), std::uint32_t{1});
  }
  /// What a rank gives in that step. When halving, the lower of two positions gives the upper half.
  std::uint64_t elements_of(std::uint32_t rank, std::uint32_t step) const {
    if (step == 0 || step == steps_.last()) return elements_;
    const bool halves = step <= steps_.exchanges();
    const std::uint32_t position = steps_.position(rank), last = steps_.exchange(step);
    std::uint64_t count = elements_;
    for (std::uint32_t each = 0; each <= last; ++each) {
      const bool is_upper = (position >> each & 1U) != 0;
      const bool takes_upper = each == last && halves ? !is_upper : is_upper;
      count = takes_upper ? count / 2 : count - count / 2;
    }
    return count;
  }

  std::uint32_t ranks_;
  HalvingSteps steps_;
  std::uint64_t elements_, element_bytes_;
  std::vector<std::vector<ReplayHop>> hops_;
  std::vector<std::uint64_t> arrived_;  // [rank] a bit for each step
  std::vector<std::uint32_t> reduced_;  // [rank][step] contributions that came when halving
};

}  // namespace meshbed::sim
