#include "plugin/coll/plan/play.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "plugin/base/check.h"
#include "plugin/base/units.h"
#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/earlier_receives.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/schedule.h"

namespace meshbed::coll {
namespace {

/// What a relay hands on at a time (docs/relays.md).
constexpr double kPieceBytes = 64.0 * kKiB;

/// One end of a connection: where in the rank's list it is.
struct PlayedEnd {
  int rank = 0;
  bool receives = false;
  std::vector<std::size_t> transfers;  // in the rank's list
  std::size_t at = 0;                  // in `transfers`
  std::uint64_t offset = 0;            // elements of it
  bool is_first = true;                // nothing has gone over it
};

struct PlayedConnection {
  int from = 0, to = 0;
  PlayedEnd sender, receiver;
  std::deque<double> arrivals;  // of slices that the receiver has not digested
};

/// A slice on its way.
struct Flight {
  std::size_t connection = 0, hop = 0;  // hop: index of the cable on the way
  double bytes = 0, latency_ns = 0;
  double behind_ns = 0;  // its last bit has left the cable before
};

struct Cable {
  double ns_per_byte = 0;
  double relayed_ns_per_byte = 0;  // of what only passes: it is not striped over parallel cables (docs/relays.md)
  bool busy = false;
  std::map<std::size_t, std::deque<Flight>> lines;  // by connection
  std::size_t last_line = 0;                        // served last
};

/// The steps of a plan (plan.h) as transfers, all rounds in one: a step sends what the step before has brought.
Schedule ring_schedule(const PlanRequest& request) {
  Schedule schedule;
  schedule.algorithm = Algorithm::kRing;
  schedule.request = request;
  schedule.slice_count = std::max<std::uint64_t>(make_plan(request).slice_count, 1);
  const int ranks = request.ranks, rank = request.rank;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const auto add = [&](bool receives, const Range& range, bool partial) {
    Transfer transfer;
    transfer.peer = receives ? previous : next;
    transfer.receives = receives;
    transfer.range = range;
    transfer.partial = partial;
    schedule.transfers.push_back(transfer);
  };
  const bool reduces = request.collective == Collective::kReduce;
  if (reduces || request.collective == Collective::kBroadcast) {
    const int first = reduces ? (request.root + 1) % ranks : request.root;
    const int place = (rank + ranks - first) % ranks;  // in the chain
    const Range whole{0, request.count};
    if (place > 0) add(true, whole, reduces && place > 1);
    if (place < ranks - 1) add(false, whole, reduces && place > 0);
    return schedule;
  }
  const bool all = request.collective == Collective::kAllReduce;
  const bool is_reduced_first = all || request.collective == Collective::kReduceScatter;
  const auto chunk = [&](int number) -> Range {
    const auto index = static_cast<std::uint64_t>((number + 2 * ranks) % ranks);
    if (all) return part_of(request.count, static_cast<std::uint64_t>(ranks), index);
    return {index * request.count, request.count};
  };
  for (int step = 0; step < (all ? 2 : 1) * (ranks - 1); ++step) {
    const bool partial = is_reduced_first && step > 0 && step < ranks - 1;
    add(false, chunk(rank - step), partial);
    add(true, chunk(rank - step - 1), partial);
  }
  return schedule;
}

class Player {
 public:
  Player(Algorithm algorithm, const PlanRequest& request, const CostModel& model, double wire_per_byte,
         double mbps_most)
      : request_(request), mesh_(*request.mesh), model_(model), wire_per_byte_(wire_per_byte) {
    cables_.resize(mesh_.cables.count());
    for (std::size_t cable = 0; cable < cables_.size(); ++cable) {
      const int mbps = mesh_.cables.mbps[cable];
      const double striped_mbps = std::min<double>(mbps, mbps_most);
      // Several channels begin on different devices, and so their relays use different ones of parallel cables.
      const double one_mbps = request.channels > 1 ? striped_mbps : std::min(striped_mbps, link_mbps_of(model));
      cables_[cable].ns_per_byte = kNsPerByteAtOneMbps / striped_mbps;
      cables_[cable].relayed_ns_per_byte = kNsPerByteAtOneMbps / one_mbps;
    }
    for (int rank = 0; rank < request.ranks; ++rank) {
      PlanRequest own = request;
      own.rank = rank;
      schedules_.push_back(algorithm == Algorithm::kRing ? ring_schedule(own) : make_schedule(algorithm, own));
    }
  }

  Played play() {
    do {
      begin_round();
      for (int rank = 0; rank < request_.ranks; ++rank) advance(rank);
      while (!events_.empty()) {
        const Event event = events_.top();
        events_.pop();
        take(event);
      }
    } while (next_rounds());
    return {now_ns_, steps_};
  }

 private:
  enum class What { kArrival, kFreeCable, kHandOn };
  struct Event {
    double at_ns = 0;
    std::uint64_t number = 0;  // among those of one time the first one first
    What what = What::kArrival;
    std::size_t index = 0;  // of a rank, a cable, a flight
    bool operator<(const Event& other) const { return std::tie(at_ns, number) > std::tie(other.at_ns, other.number); }
  };

  void at(double at_ns, What what, std::size_t index) { events_.push({at_ns, events_made_++, what, index}); }

  void take(const Event& event) {
    now_ns_ = event.at_ns;
    if (event.what == What::kArrival) return advance(static_cast<int>(event.index));
    if (event.what == What::kFreeCable) return serve_next(event.index);
    enqueue(handed_on_[event.index]);
  }

  void begin_round() {
    connections_.clear();
    ends_.assign(schedules_.size(), {});
    digested_.assign(schedules_.size(), {});
    earlier_.resize(schedules_.size());
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) earlier_[rank].find(schedules_[rank].transfers);
    std::map<std::tuple<int, int, int>, std::size_t> known;  // from, to, way
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      const std::vector<Transfer>& list = schedules_[rank].transfers;
      for (std::size_t index = 0; index < list.size(); ++index) {
        const Transfer& transfer = list[index];
        digested_[rank].push_back(transfer.range.begin);
        if (transfer.range.count == 0) continue;
        const int own = static_cast<int>(rank);
        const int from = transfer.receives ? transfer.peer : own, to = transfer.receives ? own : transfer.peer;
        const auto [entry, is_new] = known.try_emplace({from, to, transfer.way}, connections_.size());
        if (is_new) {
          connections_.push_back({.from = from, .to = to, .sender = {}, .receiver = {}, .arrivals = {}});
          ends_[static_cast<std::size_t>(from)].push_back(entry->second);
          ends_[static_cast<std::size_t>(to)].push_back(entry->second);
        }
        PlayedConnection& connection = connections_[entry->second];
        (transfer.receives ? connection.receiver : connection.sender).transfers.push_back(index);
      }
    }
  }

  bool next_rounds() {
    bool any = false;
    for (Schedule& schedule : schedules_) any |= schedule.algorithm != Algorithm::kRing && next_round(schedule);
    return any;
  }

  /// As ChannelSchedule's: every earlier receive has digested what it shares with `slice`.
  bool may_touch(std::size_t rank, std::size_t transfer, const Range& slice) const {
    return earlier_[rank].have_digested(transfer, slice, schedules_[rank].transfers, digested_[rank]);
  }

  /// The stream's next slice; false: there is none, or it has to wait.
  bool next_slice(std::size_t rank, PlayedEnd& stream, Range* slice, const Transfer** transfer) const {
    if (stream.at == stream.transfers.size()) return false;
    *transfer = &schedules_[rank].transfers[stream.transfers[stream.at]];
    const Range& all = (*transfer)->range;
    *slice = {all.begin + stream.offset, std::min(all.count - stream.offset, schedules_[rank].slice_count)};
    return may_touch(rank, stream.transfers[stream.at], *slice);
  }

  static void pass(PlayedEnd& stream, const Range& slice, const Transfer& transfer) {
    stream.offset += slice.count;
    if (stream.offset < transfer.range.count) return;
    stream.offset = 0;
    ++stream.at;
  }

  /// What the rank has received and may send now.
  void advance(int of) {
    const auto rank = static_cast<std::size_t>(of);
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::size_t index : ends_[rank]) {
        PlayedConnection& connection = connections_[index];
        moved |= connection.to == of ? receive(rank, connection) : send(rank, index);
      }
    }
  }

  bool receive(std::size_t rank, PlayedConnection& connection) {
    bool moved = false;
    Range slice;
    const Transfer* transfer = nullptr;
    while (!connection.arrivals.empty() && connection.arrivals.front() <= now_ns_ &&
           next_slice(rank, connection.receiver, &slice, &transfer)) {
      connection.arrivals.pop_front();
      digested_[rank][connection.receiver.transfers[connection.receiver.at]] = end_of(slice);
      pass(connection.receiver, slice, *transfer);
      moved = true;
    }
    return moved;
  }

  bool send(std::size_t rank, std::size_t index) {
    bool moved = false;
    PlayedConnection& connection = connections_[index];
    Range slice;
    const Transfer* transfer = nullptr;
    while (next_slice(rank, connection.sender, &slice, &transfer)) {
      const double bytes = static_cast<double>(slice.count * wire_bytes_of(request_, *transfer)) * wire_per_byte_;
      const double further = mesh_.hops(connection.from, connection.to) - 1;
      // What waits for nothing finds relays whose ends know nothing of it yet.
      const double hop_ns = now_ns_ == 0 ? model_.hop_ns : model_.message_ns;
      enqueue({.connection = index, .hop = 0, .bytes = bytes, .latency_ns = model_.message_ns + further * hop_ns});
      pass(connection.sender, slice, *transfer);
      moved = true;
    }
    return moved;
  }

  std::size_t cable_of(const Flight& flight) const {
    const PlayedConnection& connection = connections_[flight.connection];
    int from = connection.from;
    for (std::size_t hop = 0; hop < flight.hop; ++hop) from = mesh_.next_on_way(from, connection.to);
    return mesh_.cables.find(from, mesh_.next_on_way(from, connection.to));
  }

  void enqueue(const Flight& flight) {
    const std::size_t cable = cable_of(flight);
    cables_[cable].lines[flight.connection].push_back(flight);
    if (!cables_[cable].busy) serve_next(cable);
  }

  /// The next line's first slice enters the cable.
  void serve_next(std::size_t index) {
    Cable& cable = cables_[index];
    cable.busy = false;
    auto line = cable.lines.upper_bound(cable.last_line);
    if (line == cable.lines.end()) line = cable.lines.begin();
    if (line == cable.lines.end()) return;
    Flight flight = line->second.front();
    line->second.pop_front();
    cable.last_line = line->first;
    if (line->second.empty()) cable.lines.erase(line);
    cable.busy = true;
    ++steps_;
    PlayedConnection& connection = connections_[flight.connection];
    const int hops = mesh_.hops(connection.from, connection.to);
    const double ns_per_byte = hops > 1 ? cable.relayed_ns_per_byte : cable.ns_per_byte;
    const double end_ns = std::max(now_ns_ + flight.bytes * ns_per_byte, flight.behind_ns);
    at(end_ns, What::kFreeCable, index);
    ++flight.hop;
    if (static_cast<int>(flight.hop) == hops) {
      const double arrival_ns =
          std::max(end_ns + flight.latency_ns, connection.arrivals.empty() ? 0 : connection.arrivals.back());
      connection.arrivals.push_back(arrival_ns);
      at(arrival_ns, What::kArrival, static_cast<std::size_t>(connection.to));
      return;
    }
    const double piece_ns = std::min(flight.bytes, kPieceBytes) * ns_per_byte;
    flight.behind_ns = end_ns + piece_ns;
    at(now_ns_ + piece_ns, What::kHandOn, handed_on_.size());
    handed_on_.push_back(flight);
  }

  const PlanRequest& request_;
  const Mesh& mesh_;
  const CostModel& model_;
  const double wire_per_byte_;
  std::vector<Schedule> schedules_;  // [rank]
  std::vector<PlayedConnection> connections_;
  std::vector<std::vector<std::size_t>> ends_;        // [rank] of which connections it has one
  std::vector<EarlierReceives> earlier_;              // [rank]
  std::vector<std::vector<std::uint64_t>> digested_;  // [rank][transfer] up to which element
  std::vector<Cable> cables_;                         // as in mesh_.cables
  std::vector<Flight> handed_on_;                     // by relays
  std::priority_queue<Event> events_;
  double now_ns_ = 0;
  std::uint64_t events_made_ = 0, steps_ = 0;
};

}  // namespace

Played play(Algorithm algorithm, const PlanRequest& request, const CostModel& model, double wire_per_byte,
            double mbps_most) {
  MESHBED_CHECK(request.mesh != nullptr && request.ranks > 1);
  return Player(algorithm, request, model, wire_per_byte, mbps_most).play();
}

}  // namespace meshbed::coll
