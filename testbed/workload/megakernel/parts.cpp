#include "testbed/workload/megakernel/parts.h"

#include <algorithm>
#include <cstddef>

namespace meshbed::testbed {

const char* name_of(RingPart part) {
  constexpr std::array<const char*, kRingParts> kNames{"launch", "compute", "wire", "queue", "waiting"};
  return kNames[static_cast<std::size_t>(part)];
}

void RingParts::add(int rank, RingPart part, Picoseconds begin_ps, Picoseconds end_ps) {
  if (end_ps <= begin_ps) return;
  steps_[static_cast<std::size_t>(rank)].push_back({.begin_ps = begin_ps, .end_ps = end_ps, .part = part});
}

void RingParts::posted(int source, int destination, int channel, Picoseconds at_ps) {
  on_their_way_[{source, destination, channel}].push_back(at_ps);
}

void RingParts::arrived(int source, int destination, int channel, Picoseconds at_ps) {
  std::deque<Picoseconds>& posts = on_their_way_[{source, destination, channel}];
  if (posts.empty()) return;
  add(destination, RingPart::kWire, posts.front(), at_ps);
  posts.pop_front();
}

RingPartTimes RingParts::take(int rank, Picoseconds begin_ps, Picoseconds end_ps) {
  std::vector<Step>& steps = steps_[static_cast<std::size_t>(rank)];
  struct Border {
    Picoseconds at_ps;
    std::size_t part;
    int change;
  };
  std::vector<Border> borders;
  for (const Step& step : steps) {
    const Picoseconds from = std::max(step.begin_ps, begin_ps), to = std::min(step.end_ps, end_ps);
    if (to <= from) continue;
    borders.push_back({from, static_cast<std::size_t>(step.part), 1});
    borders.push_back({to, static_cast<std::size_t>(step.part), -1});
  }
  steps.clear();
  std::sort(borders.begin(), borders.end(),
            [](const Border& left, const Border& right) { return left.at_ps < right.at_ps; });
  RingPartTimes times{};
  std::array<int, kRingParts> open{};
  Picoseconds now_ps = begin_ps;
  const auto count_until = [&](Picoseconds at_ps) {
    std::size_t part = 0;
    while (part < static_cast<std::size_t>(RingPart::kWaiting) && open[part] == 0) ++part;
    times[part] += at_ps - now_ps;
    now_ps = at_ps;
  };
  for (const Border& border : borders) {
    count_until(border.at_ps);
    open[border.part] += border.change;
  }
  count_until(end_ps);
  return times;
}

}  // namespace meshbed::testbed
