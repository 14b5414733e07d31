#include "sim/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

#include "plugin/base/counted.h"
#include "sim/replay/halving_schedule.h"
#include "sim/replay/hops.h"
#include "sim/replay/plugin_ring.h"
#include "sim/replay/run.h"
#include "sim/replay/schedules.h"
#include "sim/replay/torus_schedule.h"

namespace meshbed::sim {
namespace {

Error refused(std::string text) {
  return Error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text)};
}

/// What a schedule comes to, on any links.
struct Planned {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  Picoseconds closed_form_ps = 0;     // 0: none
  std::uint64_t each_stands_for = 1;  // ranks
  std::string contributions;          // what is_whole and `misplaced` have shown
};

bool same(const ReplayHop& one, const ReplayHop& other) {
  return one.rate_bps == other.rate_bps && one.latency_ps == other.latency_ps;
}
bool all_same(const std::vector<ReplayHop>& hops) {
  return std::all_of(hops.begin(), hops.end(), [&](const ReplayHop& hop) { return same(hop, hops.front()); });
}

/// Whether a link is on the paths of two streams.
bool shares_links(const std::vector<ReplayHop>& hops, std::size_t links) {
  std::vector<bool> used(links, false);
  for (const ReplayHop& hop : hops) {
    if (hop.path == nullptr) continue;
    for (const int link : hop.path->links) {
      if (used[static_cast<std::size_t>(link)]) return true;
      used[static_cast<std::size_t>(link)] = true;
    }
  }
  return false;
}

/// `make` gives a fresh schedule.
template <typename Make>
auto run_schedule(const Make& make, bool shared, const ReplayRequest& request, Network& network,
                  ReplayOutcome& outcome) {
  auto schedule = make();
  using Schedule = decltype(schedule);
  const std::size_t links = network.links().size();
  ReplayTotals totals = shared ? FifoRun<Schedule, true>(schedule, links, request).run()
                               : FifoRun<Schedule, false>(schedule, links, request).run();
  if (totals.contended) {
    schedule = make();
    totals = FabricRun<Schedule>(schedule, network, request.on_progress).run();
  }
  outcome.time_ps = totals.end_ps;
  outcome.events = totals.messages - totals.skipped;
  outcome.skipped = totals.skipped;
  outcome.messages = totals.messages;
  outcome.payload_bytes = totals.bytes;
  outcome.contended = totals.contended;
  outcome.gave_up = totals.gave_up;
  outcome.digest = totals.digest;
  return std::pair{std::move(schedule), totals.misplaced};
}

void prove(ReplayOutcome& outcome, const Planned& planned, std::uint64_t misplaced, bool whole) {
  if (outcome.gave_up) return;
  outcome.messages *= planned.each_stands_for;
  outcome.payload_bytes *= planned.each_stands_for;
  outcome.closed_form_ps = planned.closed_form_ps;
  const std::string by = outcome.folded ? fmt::format(" (one rank stands for {})", planned.each_stands_for) : "";
  outcome.proofs.push_back({.name = "each contribution exactly once",
                            .ok = misplaced == 0 && whole,
                            .detail = misplaced == 0 && whole
                                          ? planned.contributions + by
                                          : fmt::format("{} messages are not those of the plan", misplaced)});
  outcome.proofs.push_back({.name = "messages accounted",
                            .ok = outcome.messages == planned.messages,
                            .detail = fmt::format("{} of {}{}", outcome.messages, planned.messages, by)});
  outcome.proofs.push_back({.name = "bytes equal the plan's",
                            .ok = outcome.payload_bytes == planned.bytes,
                            .detail = fmt::format("{} of {}{}", outcome.payload_bytes, planned.bytes, by)});
  constexpr const char* kClosedForm = "uncontended time equals the closed form";
  if (outcome.contended) {
    outcome.proofs.push_back(nothing_to_check(kClosedForm, "messages shared links, so that there is none"));
  } else if (planned.closed_form_ps == 0) {
    outcome.proofs.push_back(nothing_to_check(kClosedForm, "there is none for these ranks and links"));
  } else {
    const double off = std::abs(static_cast<double>(outcome.time_ps) / static_cast<double>(planned.closed_form_ps) - 1);
    outcome.proofs.push_back({.name = kClosedForm,
                              .ok = off <= 1e-9,
                              .detail = fmt::format("{} ps against {} ps", outcome.time_ps, planned.closed_form_ps)});
  }
}

class Replay {
 public:
  explicit Replay(const ReplayRequest& request) : request_(request), hops_(*request.cluster) {}

  Result<ReplayOutcome> ring();
  Result<ReplayOutcome> chain();
  Result<ReplayOutcome> tree();
  Result<ReplayOutcome> halving();
  Result<ReplayOutcome> torus();
  Result<ReplayOutcome> pairs();
  Result<ReplayOutcome> with_plugin();

 private:
  std::uint64_t n() const { return static_cast<std::uint64_t>(request_.ranks); }
  /// Of every channel's ranks to the next one round the ring, those from `first` on.
  Result<std::vector<ReplayHop>> ring_hops(int first, int count);
  Shares parts() const { return {request_.elements, static_cast<std::uint64_t>(request_.channels)}; }
  std::size_t links() { return hops_.network().links().size(); }

  const ReplayRequest& request_;
  ReplayHops hops_;
};

Result<std::vector<ReplayHop>> Replay::ring_hops(int first, int count) {
  std::vector<ReplayHop> hops;
  hops.reserve(static_cast<std::size_t>(request_.channels) * n());
  for (int channel = 0; channel < request_.channels; ++channel) {
    for (int place = 0; place < request_.ranks; ++place) {
      if (place >= count) {
        hops.emplace_back();
        continue;
      }
      const int rank = (first + place) % request_.ranks;
      const auto hop = hops_.hop(rank, (rank + 1) % request_.ranks, channel);
      if (!hop) return hop.error();
      hops.push_back(*hop);
    }
  }
  return hops;
}

Result<ReplayOutcome> Replay::ring() {
  auto hops = ring_hops(0, request_.ranks);
  if (!hops) return hops.error();
  const bool is_all_reduce = request_.collective == Collective::kAllReduce;
  const bool shared = shares_links(*hops, links());
  const std::uint64_t steps = (is_all_reduce ? 2 : 1) * (n() - 1),
                      channels = static_cast<std::uint64_t>(request_.channels);
  // Alike: every hop of a channel is, and so is every chunk; then each rank does at every time what the others do.
  bool alike = !shared;
  Planned planned;
  planned.messages = channels * n() * steps;
  std::vector<ReplayHop> folded;
  for (std::uint64_t channel = 0; channel < channels; ++channel) {
    const auto begin = hops->begin() + static_cast<std::ptrdiff_t>(channel * n());
    const std::vector<ReplayHop> of_channel(begin, begin + static_cast<std::ptrdiff_t>(n()));
    const std::uint64_t part = parts().of(channel);
    const Shares chunks(part, is_all_reduce ? n() : 1);
    const std::uint64_t longest = chunks.base + (chunks.equal() ? 0 : 1);
    // Each chunk crosses all hops but one twice, or each block all hops but one once.
    planned.bytes += request_.element_bytes * part * (is_all_reduce ? 2 * (n() - 1) : n() * (n() - 1));
    const bool same_hops = all_same(of_channel);
    alike = alike && same_hops && chunks.equal();
    if (same_hops && planned.closed_form_ps >= 0) {
      const Picoseconds step_ps = wire_time_ps(longest * request_.element_bytes, begin->rate_bps) + begin->latency_ps;
      planned.closed_form_ps = std::max(planned.closed_form_ps, static_cast<Picoseconds>(steps) * step_ps);
    } else {
      planned.closed_form_ps = -1;
    }
    folded.push_back(*begin);
  }
  planned.closed_form_ps = shared ? 0 : std::max<Picoseconds>(planned.closed_form_ps, 0);
  planned.contributions = is_all_reduce ? fmt::format("{} sums of another rank's part, {} whole chunks passed on",
                                                      planned.messages / 2, planned.messages / 2)
                          : request_.collective == Collective::kReduceScatter
                              ? fmt::format("{} sums of another rank's part", planned.messages)
                              : fmt::format("{} whole blocks passed on", planned.messages);
  ReplayOutcome outcome;
  outcome.folded = request_.fold && alike && n() > 1;
  if (outcome.folded) planned.each_stands_for = n();
  const auto make = [&] { return RingSchedule(request_, outcome.folded ? folded : *hops, outcome.folded); };
  const auto [schedule, misplaced] = run_schedule(make, shared, request_, hops_.network(), outcome);
  prove(outcome, planned, misplaced, true);
  return outcome;
}

Result<ReplayOutcome> Replay::chain() {
  const bool is_broadcast = request_.collective == Collective::kBroadcast;
  const int first = is_broadcast ? request_.root : (request_.root + 1) % request_.ranks;
  auto hops = ring_hops(first, request_.ranks - 1);
  if (!hops) return hops.error();
  const bool shared = shares_links(*hops, links());
  const auto make = [&] { return ChainSchedule(request_, *hops); };
  ReplayOutcome outcome;
  const auto [schedule, misplaced] = run_schedule(make, shared, request_, hops_.network(), outcome);
  Planned planned;
  planned.bytes = (n() - 1) * request_.elements * request_.element_bytes;
  const auto steps = static_cast<Picoseconds>(n() - 1);
  for (std::size_t channel = 0; channel < schedule.channels().size(); ++channel) {
    const ChainSchedule::Channel& each = schedule.channels()[channel];
    planned.messages += (n() - 1) * each.slices;
    const auto begin = hops->begin() + static_cast<std::ptrdiff_t>(channel * n());
    if (!std::all_of(begin, begin + steps, [&](const ReplayHop& hop) { return same(hop, *begin); })) {
      planned.closed_form_ps = -1;
    }
    if (planned.closed_form_ps < 0 || each.slices == 0) continue;
    // The first slice crosses all hops; the others follow it over the last one. A single slice is the last.
    const Picoseconds slice_ps = wire_time_ps(each.slice_bytes, begin->rate_bps);
    const Picoseconds last_ps = wire_time_ps(each.last_bytes, begin->rate_bps);
    const Picoseconds first_ps = each.slices > 1 ? slice_ps : last_ps;
    const Picoseconds behind_ps = each.slices > 1 ? static_cast<Picoseconds>(each.slices - 2) * slice_ps + last_ps : 0;
    planned.closed_form_ps = std::max(planned.closed_form_ps, steps * (first_ps + begin->latency_ps) + behind_ps);
  }
  planned.closed_form_ps = std::max<Picoseconds>(planned.closed_form_ps, 0);
  planned.contributions = fmt::format("{} slices, each once and in order at every rank", planned.messages);
  prove(outcome, planned, misplaced, true);
  return outcome;
}

Result<ReplayOutcome> Replay::tree() {
  if (request_.channels != 1) return refused("a tree has one channel in a replay; set workload.channels = 1");
  std::vector<ReplayHop> up(n()), down(n());
  const auto rank_at = [&](std::uint64_t place) {
    return static_cast<int>((place + static_cast<std::uint64_t>(request_.root)) % n());
  };
  for (std::uint64_t place = 1; place < n(); ++place) {
    const std::uint64_t parent = place & (place - 1);
    const auto to = hops_.hop(rank_at(place), rank_at(parent), 0), from = hops_.hop(rank_at(parent), rank_at(place), 0);
    if (!to) return to.error();
    if (!from) return from.error();
    up[place] = *to;
    down[place] = *from;
  }
  const bool is_both = request_.collective == Collective::kAllReduce;
  const auto make = [&] { return TreeSchedule(request_, up, down); };
  ReplayOutcome outcome;
  const auto [schedule, misplaced] = run_schedule(make, true, request_, hops_.network(), outcome);
  Planned planned;
  planned.messages = (is_both ? 2 : 1) * (n() - 1);
  planned.bytes = planned.messages * request_.elements * request_.element_bytes;
  const bool alike = std::all_of(up.begin() + 1, up.end(), [&](const ReplayHop& hop) { return same(hop, up[1]); }) &&
                     std::all_of(down.begin() + 1, down.end(), [&](const ReplayHop& hop) { return same(hop, up[1]); });
  if (alike && std::has_single_bit(n())) {
    const Picoseconds level_ps =
        wire_time_ps(request_.elements * request_.element_bytes, up[1].rate_bps) + up[1].latency_ps;
    planned.closed_form_ps = (is_both ? 2 : 1) * (std::bit_width(n()) - 1) * level_ps;
  }
  planned.contributions = is_both ? fmt::format("the root's sum has {} ranks, and each rank gets it once", n())
                          : request_.collective == Collective::kReduce
                              ? fmt::format("the root's sum has {} ranks", n())
                              : fmt::format("each of {} ranks gets the buffer once", n());
  prove(outcome, planned, misplaced, schedule.is_whole());
  return outcome;
}

Result<ReplayOutcome> Replay::halving() {
  if (request_.channels != 1) {
    return refused("halving and doubling has one channel in a replay; set workload.channels = 1");
  }
  const HalvingSteps steps(static_cast<std::uint32_t>(request_.ranks));
  std::vector<std::vector<ReplayHop>> hops(n());
  std::optional<ReplayHop> first;
  bool alike = true;
  Planned planned;
  for (std::uint32_t rank = 0; rank < n(); ++rank) {
    planned.messages += steps.count_of(rank);
    for (std::uint32_t index = 0; index < steps.count_of(rank); ++index) {
      const std::uint32_t to = steps.partner(rank, steps.first_of(rank) + index);
      const auto hop = hops_.hop(static_cast<int>(rank), static_cast<int>(to), 0);
      if (!hop) return hop.error();
      if (!first) first = *hop;
      alike = alike && same(*hop, *first);
      hops[rank].push_back(*hop);
    }
  }
  const auto make = [&] { return HalvingSchedule(request_, hops); };
  ReplayOutcome outcome;
  const auto [schedule, misplaced] = run_schedule(make, true, request_, hops_.network(), outcome);
  // Of two positions one gives what the other keeps, at each of the exchanges, both ways; a pair gives all, twice.
  const std::uint64_t power = std::bit_floor(n()), pairs = n() - power;
  planned.bytes = request_.element_bytes * request_.elements * (2 * (power - 1) + 2 * pairs);
  if (alike && pairs == 0 && request_.elements % n() == 0) {
    for (std::uint64_t part = 2; part <= n(); part *= 2) {
      planned.closed_form_ps +=
          2 * (wire_time_ps(request_.elements / part * request_.element_bytes, first->rate_bps) + first->latency_ps);
    }
  }
  planned.contributions = fmt::format("each of {} ranks has all contributions once when it begins to double", power);
  prove(outcome, planned, misplaced, schedule.is_whole());
  return outcome;
}

Result<ReplayOutcome> Replay::torus() {
  if (request_.channels != 1) return refused("a torus has one channel in a replay; set workload.channels = 1");
  const TorusShape shape(request_.shape);
  if (shape.ranks() != n() || shape.dimensions() == 0) {
    return refused("the ranks are no torus of several nodes (topology.kind = torus)");
  }
  const std::uint32_t d = shape.dimensions(), parts = shape.parts();
  if (request_.elements < parts * n()) {
    return refused(fmt::format("{} in {} on {}: a replay needs an element of each for every message",
                               counted(request_.elements, "element"), counted(parts, "part"), counted(n(), "rank")));
  }
  std::vector<ReplayHop> hops;
  bool alike = shape.is_cube() && shape.length(0) > 2 && request_.elements % (parts * n()) == 0;
  for (std::uint32_t rank = 0; rank < n(); ++rank) {
    for (std::uint32_t way = 0; way < parts; ++way) {
      const std::uint32_t to = shape.neighbour(rank, way % d, way < d);
      const auto hop = hops_.hop(static_cast<int>(rank), static_cast<int>(to), 0);
      if (!hop) return hop.error();
      alike = alike && (hops.empty() || same(*hop, hops.front()));
      hops.push_back(*hop);
    }
  }
  // Alike: at every time all parts are in the same phase, in different dimensions or directions.
  ReplayOutcome outcome;
  outcome.folded = request_.fold && alike;
  Planned planned;
  if (outcome.folded) {
    hops.resize(parts);
    planned.each_stands_for = n();
  }
  const auto make = [&] { return TorusSchedule(request_, shape, hops, outcome.folded); };
  const auto [schedule, misplaced] = run_schedule(make, !outcome.folded, request_, hops_.network(), outcome);
  planned.messages = std::uint64_t{parts} * n() * schedule.steps(0);
  // In a ring of a dimension each chunk crosses all hops but one; together the rings of a phase have the part once for
  // each of the ranks that the dimensions before have not divided it among.
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint64_t elements = Shares(request_.elements, parts).of(part);
    std::uint64_t copies = n();
    for (std::uint32_t each = 0; each < d; ++each) {
      const std::uint64_t length = shape.length((part + each) % d);
      copies /= length;
      planned.bytes += 2 * (length - 1) * copies * elements * request_.element_bytes;
    }
  }
  if (alike) {
    std::uint64_t chunk = request_.elements / parts;
    for (std::uint32_t each = 0; each < d; ++each) {
      chunk /= shape.length(0);
      planned.closed_form_ps +=
          2 * static_cast<Picoseconds>(shape.length(0) - 1) *
          (wire_time_ps(chunk * request_.element_bytes, hops.front().rate_bps) + hops.front().latency_ps);
    }
  }
  planned.contributions = fmt::format("all rings of {} parts have passed on every chunk in order", parts);
  prove(outcome, planned, misplaced, schedule.is_whole());
  return outcome;
}

Result<ReplayOutcome> Replay::pairs() {
  if (request_.channels != 1) return refused("an alltoall has one channel in a replay; set workload.channels = 1");
  const auto first = hops_.hop(0, 1, 0);
  if (!first) return first.error();
  bool alike = true;
  if (request_.cluster->switches.size() != 1) {
    return refused(fmt::format("an alltoall is replayed on one switch that joins all ranks; this cluster has {}",
                               counted(request_.cluster->switches.size(), "switch")));
  }
  // Ways over trunks may meet.
  alike = request_.cluster->switches.front().boxes.empty();
  for (int rank = 0; rank < request_.ranks; ++rank) {
    const auto hop = hops_.hop(rank, (rank + 1) % request_.ranks, 0);
    if (!hop) return hop.error();
    alike = alike && same(*hop, *first);
  }
  ReplayOutcome outcome;
  outcome.folded = request_.fold && alike;
  const auto make = [&] { return PairsSchedule(request_, hops_, outcome.folded); };
  // Folded, each rank's messages meet no other's: at step k all ranks send to the one k places on.
  auto [schedule, misplaced] = run_schedule(make, !outcome.folded, request_, hops_.network(), outcome);
  Planned planned;
  if (outcome.folded) planned.each_stands_for = n();
  planned.messages = n() * (n() - 1);
  planned.bytes = planned.messages * request_.elements * request_.element_bytes;
  if (alike) {
    const Picoseconds each_ps = wire_time_ps(request_.elements * request_.element_bytes, first->rate_bps);
    planned.closed_form_ps = static_cast<Picoseconds>(n() - 1) * each_ps + first->latency_ps;
  }
  planned.contributions = fmt::format("each rank has a block of each of {} others", n() - 1);
  prove(outcome, planned, misplaced, schedule.is_whole());
  return outcome;
}

/// Between neighbours that share one cable with no other pair.
Result<ReplayOutcome> Replay::with_plugin() {
  const bool is_chain = request_.collective == Collective::kBroadcast;
  const bool is_known =
      is_chain || request_.collective == Collective::kAllReduce || request_.collective == Collective::kAllGather;
  if (!is_known || request_.algorithm != ReplayAlgorithm::kRing) {
    return refused(fmt::format("detail plugin has all_reduce, all_gather and broadcast round the ring, not {}",
                               name_of(request_.collective)));
  }
  if (request_.channels != 1) return refused("detail plugin has one channel; set workload.channels = 1");
  if (n() < 3) return refused("detail plugin needs three ranks: two send both ways over one cable");
  const int first = is_chain ? request_.root : 0;
  std::vector<PluginHop> hops;
  bool alike = !is_chain && Shares(request_.elements, request_.collective == Collective::kAllReduce ? n() : 1).equal();
  for (int place = 0; place < request_.ranks; ++place) {
    const int rank = (first + place) % request_.ranks, after = (rank + 1) % request_.ranks;
    if (is_chain && place + 1 == request_.ranks) {
      hops.emplace_back();
      break;
    }
    const auto hop = hops_.hop(rank, after, 0);
    if (!hop) return hop.error();
    const models::Node &from = request_.cluster->at(rank), &to = request_.cluster->at(after);
    if (hops_.count(rank, after) > 1) {
      return refused(
          fmt::format("several links join {} and {}, over which the plugin would stripe; detail plugin has one",
                      from.name, to.name));
    }
    if (hop->path->links.size() != 1) {
      return refused(
          fmt::format("clear-to-send writes would share the links between {} and {} with data; detail plugin "
                      "has cables between neighbours alone",
                      from.name, to.name));
    }
    const models::Nic &out = request_.cluster->nic_of(hop->path->source),
                      &in = request_.cluster->nic_of(hop->path->destination);
    hops.push_back({.forth = *hop,
                    .back = hops_.back(*hop),
                    .pmtu_bytes = models::rdma_mtu_bytes(std::min(out.mtu_bytes, in.mtu_bytes))});
    alike = alike && same(hop.value(), hops.front().forth) && hops.back().pmtu_bytes == hops.front().pmtu_bytes;
  }
  ReplayOutcome outcome;
  outcome.folded = request_.fold && alike;
  PluginRing ring(request_, std::move(hops), first, outcome.folded);
  const ReplayTotals totals = ring.run();
  outcome.time_ps = totals.end_ps;
  outcome.messages = outcome.events = totals.messages;
  outcome.payload_bytes = totals.bytes;
  outcome.digest = totals.digest;
  Planned planned;
  if (outcome.folded) planned.each_stands_for = n();
  const std::uint64_t slices = ring.planned_slices() * planned.each_stands_for;
  planned.messages = slices + ring.announcements() * planned.each_stands_for;
  planned.bytes = ring.planned_bytes() * planned.each_stands_for + slices * kClearToSendBytes;
  planned.contributions = fmt::format("{} slices, each of the chunk that its receiver's plan has there", slices);
  prove(outcome, planned, totals.misplaced, ring.announced_receives() == ring.planned_slices());
  return outcome;
}

}  // namespace

Result<ReplayOutcome> replay(const ReplayRequest& request) {
  if (request.ranks < 2) return refused("a replay needs two ranks or more: one rank sends no message");
  if (request.elements == 0) return refused("a replay needs a byte or more: without data no message is sent");
  const bool divides = request.algorithm != ReplayAlgorithm::kTree && request.collective == Collective::kAllReduce;
  const std::uint64_t least =
      static_cast<std::uint64_t>(request.channels) * (divides ? static_cast<std::uint64_t>(request.ranks) : 1U);
  if (request.elements < least) {
    return refused(fmt::format("{} for {} on {}: a replay needs an element of each for every message",
                               counted(request.elements, "element"),
                               counted(static_cast<std::uint64_t>(request.ranks), "rank"),
                               counted(static_cast<std::uint64_t>(request.channels), "channel")));
  }
  Replay run(request);
  if (request.detail == ReplayDetail::kPlugin) return run.with_plugin();
  switch (request.collective) {
    case Collective::kAllReduce:
      if (request.algorithm == ReplayAlgorithm::kTree) return run.tree();
      if (request.algorithm == ReplayAlgorithm::kHalvingDoubling) return run.halving();
      if (request.algorithm == ReplayAlgorithm::kTorus) return run.torus();
      if (request.algorithm == ReplayAlgorithm::kRing) return run.ring();
      break;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      if (request.algorithm == ReplayAlgorithm::kRing) return run.ring();
      break;
    case Collective::kBroadcast:
    case Collective::kReduce:
      if (request.algorithm == ReplayAlgorithm::kTree) return run.tree();
      if (request.algorithm == ReplayAlgorithm::kRing) return run.chain();
      break;
    case Collective::kAllToAll:
      if (request.algorithm == ReplayAlgorithm::kPairs) return run.pairs();
      break;
    default:
      break;
  }
  return refused(fmt::format("{} is not replayed by that algorithm", name_of(request.collective)));
}

}  // namespace meshbed::sim
