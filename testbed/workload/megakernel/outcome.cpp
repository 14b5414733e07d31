#include "testbed/workload/megakernel/outcome.h"

#include <algorithm>

namespace meshbed::testbed {
namespace {

/// One ring, as its events go by.
struct Measure {
  Picoseconds first_ps = -1, last_ps = -1, at_ps = 0;
  std::uint64_t depth = 0, held = 0;  // slots, and lanes that have one
  double depth_time = 0, held_time = 0;

  void go_to(Picoseconds now_ps) {
    if (first_ps < 0) first_ps = at_ps = now_ps;
    const auto passed_ps = static_cast<double>(now_ps - at_ps);
    depth_time += passed_ps * static_cast<double>(depth);
    held_time += passed_ps * static_cast<double>(held);
    at_ps = now_ps;
  }
};

bool lets_go(RingEventKind kind) {
  return kind == RingEventKind::kDone || kind == RingEventKind::kYield || kind == RingEventKind::kRequeue ||
         kind == RingEventKind::kFault || kind == RingEventKind::kAbandoned;
}

}  // namespace

double RingRank::slots_per_s() const {
  return span_ps == 0
             ? 0
             : static_cast<double>(ended) / static_cast<double>(span_ps) * static_cast<double>(kPicosecondsPerSecond);
}

void measure_rings(RingOutcome& outcome) {
  std::vector<Measure> measures(outcome.ranks.size());
  for (const RingEvent& event : outcome.trace.events()) {
    const auto place = static_cast<std::size_t>(event.rank * outcome.rings + event.ring);
    RingRank& ring = outcome.ranks[place];
    Measure& measure = measures[place];
    measure.go_to(event.at_ps);
    if (event.kind == RingEventKind::kPublish) {
      ++ring.published;
      ++measure.depth;
      ring.depth_most = std::max(ring.depth_most, measure.depth);
    } else if (event.kind == RingEventKind::kClaim) {
      ++measure.held;
    } else if (lets_go(event.kind)) {
      measure.held -= measure.held > 0 ? 1 : 0;
      if (event.kind == RingEventKind::kAbandoned) continue;
      ++ring.ended;
      measure.last_ps = event.at_ps;
      measure.depth -= event.kind == RingEventKind::kDone ? 1 : 0;
    }
  }
  for (std::size_t place = 0; place < measures.size(); ++place) {
    RingRank& ring = outcome.ranks[place];
    const Measure& measure = measures[place];
    if (measure.last_ps <= measure.first_ps) continue;
    ring.span_ps = measure.last_ps - measure.first_ps;
    const auto all_ps = static_cast<double>(measure.at_ps - measure.first_ps);
    ring.depth_mean = measure.depth_time / all_ps;
    if (ring.lanes > 0) ring.lanes_idle = std::max(0.0, 1 - measure.held_time / all_ps / ring.lanes);
  }
}

}  // namespace meshbed::testbed
