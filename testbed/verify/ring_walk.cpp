#include "testbed/verify/ring_walk.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>

#include "testbed/verify/ring_world.h"

namespace meshbed::testbed {
namespace {

struct RingState {
  const std::string* bytes = nullptr;
  std::uint32_t from = 0, depth = 0;
  RingAction by;
  bool is_end = false;
  std::vector<std::uint32_t> next;
};

class RingWalk {
 public:
  RingWalk(const RingExploreProgram& program, std::uint64_t states_max)
      : program_(program), states_max_(states_max), world_(program) {}

  RingWalkReport run() {
    come_to(world_.state(), 0, {});
    for (std::uint32_t here = 0; here < states_.size(); ++here) {
      if (states_.size() >= states_max_) {
        report_.whole = false;
        break;
      }
      go_on(here);
    }
    report_.states = states_.size();
    report_.longest = states_.back().depth;
    if (report_.whole) count_orders();
    return report_;
  }

 private:
  /// The state's number.
  std::uint32_t come_to(std::string bytes, std::uint32_t from, const RingAction& by) {
    const auto [place, is_new] = numbers_.emplace(std::move(bytes), static_cast<std::uint32_t>(states_.size()));
    if (is_new) {
      const std::uint32_t depth = states_.empty() ? 0 : states_[from].depth + 1;
      states_.push_back({.bytes = &place->first, .from = from, .depth = depth, .by = by, .is_end = false, .next = {}});
    }
    return place->second;
  }

  void go_on(std::uint32_t here) {
    const std::string& bytes = *states_[here].bytes;
    world_.restore(bytes);
    std::vector<std::uint32_t> next;
    for (const RingAction& action : world_.options()) {
      const std::string finding = world_.take(action);
      std::string now = world_.state();
      if (!finding.empty()) {
        // What is wrong ends the order: a state like no other.
        ++report_.steps;
        next.push_back(kBroken);
        found(finding, here, &action);
      } else if (now != bytes) {
        ++report_.steps;
        next.push_back(come_to(std::move(now), here, action));
      } else {
        continue;  // it came to nothing, and the world is as it was
      }
      world_.restore(bytes);
    }
    if (next.empty()) {
      states_[here].is_end = true;
      ++report_.ends;
      if (!world_.ended_well()) found(world_.stuck(), here, nullptr);
    }
    states_[here].next = std::move(next);
  }

  void found(const std::string& finding, std::uint32_t state, const RingAction* last) {
    const std::size_t length = states_[state].depth + (last == nullptr ? 0U : 1U);
    if (!report_.finding.empty() && length >= report_.schedule.size()) return;
    std::vector<RingAction> way;
    if (last != nullptr) way.push_back(*last);
    for (std::uint32_t at = state; at != 0; at = states_[at].from) way.push_back(states_[at].by);
    std::reverse(way.begin(), way.end());
    report_.finding = finding;
    report_.schedule.clear();
    RingWorld again(program_);
    for (const RingAction& action : way) again.take(action, &report_.schedule.emplace_back());
  }

  /// Ways to an end, by Kahn's order; where states remain there is a circle that an order may go round for ever.
  void count_orders() {
    std::vector<std::uint32_t> ways_in(states_.size());
    for (const RingState& state : states_) {
      for (const std::uint32_t to : state.next) {
        if (to != kBroken) ++ways_in[to];
      }
    }
    std::vector<double> orders(states_.size());
    std::vector<std::uint32_t> ready{0};
    orders[0] = 1;
    std::size_t done = 0;
    if (ways_in[0] == 0) {
      for (; done < ready.size(); ++done) {
        const RingState& state = states_[ready[done]];
        if (state.is_end) report_.orders += orders[ready[done]];
        for (const std::uint32_t to : state.next) {
          if (to == kBroken) {
            report_.orders += orders[ready[done]];
            continue;
          }
          orders[to] += orders[ready[done]];
          if (--ways_in[to] == 0) ready.push_back(to);
        }
      }
    }
    if (done == states_.size()) return;
    report_.orders = std::numeric_limits<double>::infinity();
    look_for_endless();
  }

  /// A state from which no end can be reached any more, though something can always be done.
  void look_for_endless() {
    std::vector<std::vector<std::uint32_t>> before(states_.size());
    std::vector<std::uint32_t> ready;
    std::vector<bool> ends(states_.size());
    for (std::uint32_t state = 0; state < states_.size(); ++state) {
      const std::vector<std::uint32_t>& next = states_[state].next;
      for (const std::uint32_t to : next) {
        if (to != kBroken) before[to].push_back(state);
      }
      if (!states_[state].is_end && std::find(next.begin(), next.end(), kBroken) == next.end()) continue;
      ends[state] = true;
      ready.push_back(state);
    }
    for (std::size_t at = 0; at < ready.size(); ++at) {
      for (const std::uint32_t from : before[ready[at]]) {
        if (ends[from]) continue;
        ends[from] = true;
        ready.push_back(from);
      }
    }
    const auto endless = std::find(ends.begin(), ends.end(), false);
    if (endless == ends.end()) return;
    found("from here on something can always be done, and no end is reached",
          static_cast<std::uint32_t>(endless - ends.begin()), nullptr);
  }

  static constexpr std::uint32_t kBroken = std::numeric_limits<std::uint32_t>::max();

  const RingExploreProgram& program_;
  std::uint64_t states_max_;
  RingWorld world_;
  RingWalkReport report_;
  std::vector<RingState> states_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace

RingWalkReport walk_rings(const RingExploreProgram& program, std::uint64_t states_max) {
  return RingWalk(program, states_max).run();
}

std::string broken_promise(const RingExploreProgram& program, const RingWalkReport& report) {
  const std::string finds = program.finds;
  if (finds.empty()) return report.finding;
  if (report.finding.empty()) return report.whole ? "nothing was found, and '" + finds + "' should have been" : "";
  if (report.finding.find(finds) != std::string::npos) return "";
  return "'" + finds + "' should have been found, and was not: " + report.finding;
}

}  // namespace meshbed::testbed
