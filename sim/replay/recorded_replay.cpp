#include "sim/replay/recorded_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>

#include "models/link.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/fabric.h"
#include "sim/trace/recorder.h"

namespace meshbed::sim {
namespace {

/// Events, and at the end of each instant what was left for it.
class InstantTimeline final : public Timeline {
 public:
  void at(Picoseconds when, int host, EventFunction function, void* self, std::uint64_t argument) override {
    queue_.push({when, host, function, self, argument});
  }
  bool has_event_now() const { return !queue_.empty() && queue_.next_ps() == now_ps_; }
  bool is_empty() const { return queue_.empty(); }
  Picoseconds next_ps() const { return queue_.next_ps(); }
  void step() {
    const Event event = queue_.pop();
    now_ps_ = event.when_ps;
    event.function(event.self, event.argument);
  }

 private:
  EventQueue queue_;
};

constexpr Picoseconds kLongest_ps = Picoseconds{1'000'000} * kPicosecondsPerSecond;

Error invalid(const std::string& text) { return {ErrorCode::kInvalidArgument, Scope::kJob, text}; }

class RecordedReplay {
 public:
  RecordedReplay(const RecordedSchedule& schedule, const models::Cluster& cluster)
      : schedule_(schedule),
        cluster_(cluster),
        network_(cluster),
        fabric_(make_chunk_fabric(timeline_, network_)),
        first_rank_sequence_(static_cast<std::uint32_t>(schedule.streams.size())),
        streams_(schedule.streams.size()),
        sequences_(schedule.streams.size() + 2 * static_cast<std::size_t>(schedule.ranks)),
        signals_(sequences_.size() + schedule.streams.size()) {
    outcome_.times.resize(schedule.items.size());
  }

  Result<RecordedOutcome> run(const RecordedReplayOptions& options) {
    if (auto found = find_paths(); !found) return found.error();
    for (std::uint32_t item = 0; item < schedule_.items.size(); ++item)
      sequences_[sequence_of(item)].items.push_back(item);
    for (Stream& stream : streams_) stream.done.resize(sequences_[stream.number].items.size());
    if (auto checked = check_counts(); !checked) return checked.error();
    for (std::uint32_t sequence = 0; sequence < sequences_.size(); ++sequence) look_at(sequence);
    while (!timeline_.is_empty() || !ready_.empty()) {
      if (!ready_.empty() && !timeline_.has_event_now()) {
        while (!ready_.empty()) post_ready();
        continue;
      }
      if (timeline_.next_ps() > (options.give_up_ps > 0 ? options.give_up_ps : kLongest_ps)) {
        outcome_.gave_up = true;
        break;
      }
      timeline_.step();
      constexpr std::uint64_t kProgressEvery = 1U << 18U;
      if (++outcome_.events % kProgressEvery == 0 && options.on_progress != nullptr) {
        options.on_progress(acknowledged_, timeline_.now());
      }
    }
    if (!outcome_.gave_up) {
      if (auto all = check_all_happened(); !all) return all.error();
    }
    outcome_.end_ps = timeline_.now();
    outcome_.links = network_.links();
    return std::move(outcome_);
  }

 private:
  /// Items of one kind that happen one after the other: a stream's messages, a rank's begins, a rank's ends.
  struct Sequence {
    std::vector<std::uint32_t> items;
    std::size_t next = 0;             // of items
    std::uint32_t waits_open = 0;     // of the next item
    Picoseconds waited_until_ps = 0;  // when the last of what items so far waited for happened
  };
  struct Waiting {
    std::uint64_t count;
    std::uint32_t sequence;
  };
  struct Signal {
    std::vector<Picoseconds> times;  // of each time that it happened
    std::vector<Waiting> waiting;
  };
  struct Stream {
    RecordedReplay* replay = nullptr;
    std::uint32_t number = 0;
    const Path* path = nullptr;  // nullptr: within one port
    int source_node = 0, destination_node = 0;
    std::uint64_t port_bps = 0;  // where there is no path
    const Path* back = nullptr;  // of responses
    std::size_t posted = 0, started = 0, arrived = 0, completed = 0;
    std::vector<bool> done;  // acknowledged, or with their response; they complete in order
    bool is_busy = false;
    // Reads and atomics.
    std::uint32_t reads_under_way = 0;
    std::vector<std::size_t> responses;  // to reads that have arrived, in order
    std::size_t responses_started = 0, responses_arrived = 0;
    bool response_busy = false;
  };

  std::uint32_t sequence_of(std::uint32_t item) const {
    const ScheduleItem& each = schedule_.items[item];
    if (each.kind == ItemKind::kPost) return each.index;
    return first_rank_sequence_ + 2 * each.index + (each.kind == ItemKind::kEnd ? 1 : 0);
  }

  // Completions of streams, begins and ends have the numbers of their sequences; arrivals come behind them.
  std::uint32_t number_of(const ScheduleSignal& signal) const {
    switch (signal.kind) {
      case SignalKind::kArrival:
        return static_cast<std::uint32_t>(sequences_.size()) + signal.index;
      case SignalKind::kCompletion:
        return signal.index;
      case SignalKind::kBegin:
      case SignalKind::kEnd:
        break;
    }
    return first_rank_sequence_ + 2 * signal.index + (signal.kind == SignalKind::kEnd ? 1 : 0);
  }

  Result<void> find_paths() {
    const std::map<std::string, models::PortRef> ports = ports_by_name(cluster_);
    for (std::uint32_t number = 0; number < streams_.size(); ++number) {
      const ScheduleStream& known = schedule_.streams[number];
      Stream& stream = streams_[number];
      const auto source = ports.find(known.source_port), destination = ports.find(known.destination_port);
      if (source == ports.end() || destination == ports.end()) {
        return invalid(fmt::format("stream {}: the cluster has no port {}", number,
                                   source == ports.end() ? known.source_port : known.destination_port));
      }
      for (const auto& port : {source, destination}) {
        if (cluster_.nic_of(port->second).link_up) continue;
        return invalid(fmt::format("stream {}: the link of {} is down", number, port->first));
      }
      const std::uint32_t mtu_bytes = mtu_between(cluster_, source->second, destination->second);
      if (mtu_bytes != known.mtu_bytes) {
        return invalid(
            fmt::format("stream {}: it was recorded with packets of {} bytes, and {} and {} have {}; record it "
                        "with these",
                        number, known.mtu_bytes, known.source_port, known.destination_port, mtu_bytes));
      }
      stream.replay = this;
      stream.number = number;
      stream.source_node = source->second.node;
      stream.destination_node = destination->second.node;
      stream.port_bps = cluster_.nic_of(source->second).rate_bps;
      if (source->second == destination->second) continue;
      stream.path = network_.path(source->second, destination->second, known.flow);
      stream.back = network_.path(destination->second, source->second, known.flow);
      if (stream.path == nullptr || stream.back == nullptr) {
        return invalid(fmt::format("stream {}: no cable and no switch joins {} and {}", number, known.source_port,
                                   known.destination_port));
      }
    }
    return ok();
  }

  Result<void> check_counts() const {
    for (std::uint32_t number = 0; number < schedule_.items.size(); ++number) {
      const ScheduleItem& item = schedule_.items[number];
      for (std::uint32_t at = item.first_wait; at < item.first_wait + item.waits; ++at) {
        const ScheduleWait& wait = schedule_.waits[at];
        const bool is_arrival = wait.signal.kind == SignalKind::kArrival;
        const std::uint32_t sequence = is_arrival ? wait.signal.index : number_of(wait.signal);
        const std::size_t most = sequence < sequences_.size() ? sequences_[sequence].items.size() : 0;
        if (wait.count > most) {
          return invalid(fmt::format("item {} waits for {}, and there are {}", number + 1, text_of(wait), most));
        }
      }
    }
    return ok();
  }

  Result<void> check_all_happened() const {
    std::uint32_t first = static_cast<std::uint32_t>(schedule_.items.size());
    for (const Sequence& sequence : sequences_) {
      if (sequence.next < sequence.items.size()) first = std::min(first, sequence.items[sequence.next]);
    }
    if (first == schedule_.items.size()) return ok();
    const ScheduleItem& item = schedule_.items[first];
    for (std::uint32_t at = item.first_wait; at < item.first_wait + item.waits; ++at) {
      const ScheduleWait& wait = schedule_.waits[at];
      if (signals_[number_of(wait.signal)].times.size() < wait.count) {
        return invalid(fmt::format("item {} waits for {}, which waits for it in turn", first + 1, text_of(wait)));
      }
    }
    return invalid(fmt::format("item {} never happens", first + 1));
  }

  /// The next item of `sequence`: waits for what has not happened, or is due.
  void look_at(std::uint32_t number) {
    Sequence& sequence = sequences_[number];
    if (sequence.next == sequence.items.size()) return;
    const ScheduleItem& item = schedule_.items[sequence.items[sequence.next]];
    for (std::uint32_t at = item.first_wait; at < item.first_wait + item.waits; ++at) {
      const ScheduleWait& wait = schedule_.waits[at];
      Signal& signal = signals_[number_of(wait.signal)];
      if (signal.times.size() < wait.count) {
        signal.waiting.push_back({wait.count, number});
        ++sequence.waits_open;
      } else {
        sequence.waited_until_ps = std::max(sequence.waited_until_ps, signal.times[wait.count - 1]);
      }
    }
    if (sequence.waits_open == 0) make_due(number);
  }

  void make_due(std::uint32_t number) {
    const Sequence& sequence = sequences_[number];
    const ScheduleItem& item = schedule_.items[sequence.items[sequence.next]];
    const Picoseconds due_ps = sequence.waited_until_ps + item.delay_ps;
    if (due_ps <= timeline_.now()) {
      add_ready(sequence.items[sequence.next]);
    } else {
      timeline_.at(due_ps, node_of(number), &RecordedReplay::item_due, this, sequence.items[sequence.next]);
    }
  }

  int node_of(std::uint32_t sequence) const { return sequence < streams_.size() ? streams_[sequence].source_node : 0; }

  static void item_due(void* self, std::uint64_t item) {
    static_cast<RecordedReplay*>(self)->add_ready(static_cast<std::uint32_t>(item));
  }

  void add_ready(std::uint32_t item) { ready_.push(item); }

  void post_ready() {
    const std::uint32_t item = ready_.top();
    ready_.pop();
    const std::uint32_t number = sequence_of(item);
    Sequence& sequence = sequences_[number];
    ++sequence.next;
    outcome_.times[item].posted_ps = timeline_.now();
    if (schedule_.items[item].kind == ItemKind::kPost) {
      ++streams_[number].posted;
      pump(streams_[number]);
    } else {
      happened(number);
    }
    look_at(number);
  }

  void happened(std::uint32_t number) {
    Signal& signal = signals_[number];
    signal.times.push_back(timeline_.now());
    for (std::size_t at = 0; at < signal.waiting.size();) {
      if (signal.waiting[at].count > signal.times.size()) {
        ++at;
        continue;
      }
      const std::uint32_t waiter = signal.waiting[at].sequence;
      signal.waiting.erase(signal.waiting.begin() + static_cast<std::ptrdiff_t>(at));
      Sequence& sequence = sequences_[waiter];
      sequence.waited_until_ps = std::max(sequence.waited_until_ps, timeline_.now());
      if (--sequence.waits_open == 0) make_due(waiter);
    }
  }

  std::uint32_t item_of(const Stream& stream, std::size_t message) const {
    return sequences_[stream.number].items[message];
  }

  void pump(Stream& stream) {
    if (stream.is_busy || stream.started == stream.posted) return;
    const std::uint32_t number = item_of(stream, stream.started);
    const ScheduleItem& item = schedule_.items[number];
    if (item.is_fenced && stream.reads_under_way > 0) return;
    if (item.response_bytes > 0) {
      if (stream.reads_under_way == schedule_.streams[stream.number].reads_most) return;
      ++stream.reads_under_way;
    }
    ++stream.started;
    outcome_.times[number].started_ps = timeline_.now();
    stream.is_busy = true;
    put_on_wire(stream, stream.path, item.wire_bytes, stream.number, &RecordedReplay::sent);
  }

  void put_on_wire(Stream& stream, const Path* path, std::uint64_t bytes, std::uint64_t flow, EventFunction done) {
    if (path != nullptr) return fabric_->transfer(*path, bytes, flow, done, &stream, 0);
    timeline_.after(wire_time_ps(bytes, stream.port_bps), stream.source_node, done, &stream, 0);
  }

  static Picoseconds latency_of(const Stream& stream) { return stream.path != nullptr ? stream.path->latency_ps : 0; }

  static void sent(void* self, std::uint64_t) {
    auto& stream = *static_cast<Stream*>(self);
    stream.is_busy = false;
    stream.replay->timeline_.after(latency_of(stream), stream.destination_node, &RecordedReplay::arrives, &stream, 0);
    stream.replay->pump(stream);
  }

  static void arrives(void* self, std::uint64_t) {
    auto& stream = *static_cast<Stream*>(self);
    RecordedReplay& replay = *stream.replay;
    const std::size_t message = stream.arrived++;
    const std::uint32_t item = replay.item_of(stream, message);
    replay.outcome_.times[item].delivered_ps = replay.timeline_.now();
    replay.happened(replay.number_of({SignalKind::kArrival, stream.number}));
    if (replay.schedule_.items[item].response_bytes > 0) {
      stream.responses.push_back(message);
      return replay.respond(stream);
    }
    replay.timeline_.after(latency_of(stream), stream.source_node, &RecordedReplay::acknowledged, &stream, message);
  }

  void respond(Stream& stream) {
    if (stream.response_busy || stream.responses_started == stream.responses.size()) return;
    const std::uint32_t item = item_of(stream, stream.responses[stream.responses_started++]);
    stream.response_busy = true;
    put_on_wire(stream, stream.back, schedule_.items[item].response_bytes, streams_.size() + stream.number,
                &RecordedReplay::responded);
  }

  static void responded(void* self, std::uint64_t) {
    auto& stream = *static_cast<Stream*>(self);
    stream.response_busy = false;
    const Picoseconds latency_ps = stream.back != nullptr ? stream.back->latency_ps : 0;
    stream.replay->timeline_.after(latency_ps, stream.source_node, &RecordedReplay::response_arrives, &stream, 0);
    stream.replay->respond(stream);
  }

  static void response_arrives(void* self, std::uint64_t) {
    auto& stream = *static_cast<Stream*>(self);
    --stream.reads_under_way;
    stream.replay->complete(stream, stream.responses[stream.responses_arrived++]);
    stream.replay->pump(stream);
  }

  static void acknowledged(void* self, std::uint64_t message) {
    auto& stream = *static_cast<Stream*>(self);
    stream.replay->complete(stream, message);
  }

  void complete(Stream& stream, std::size_t message) {
    stream.done[message] = true;
    while (stream.completed < stream.done.size() && stream.done[stream.completed]) {
      outcome_.times[item_of(stream, stream.completed++)].completed_ps = timeline_.now();
      ++acknowledged_;
      happened(stream.number);
    }
  }

  const RecordedSchedule& schedule_;
  const models::Cluster& cluster_;
  InstantTimeline timeline_;
  Network network_;
  std::unique_ptr<Fabric> fabric_;
  const std::uint32_t first_rank_sequence_;
  std::vector<Stream> streams_;
  std::vector<Sequence> sequences_;
  std::vector<Signal> signals_;
  // Items that are posted at the end of this instant, in the order of the schedule.
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready_;
  std::uint64_t acknowledged_ = 0;
  RecordedOutcome outcome_;
};

}  // namespace

std::uint32_t mtu_between(const models::Cluster& cluster, models::PortRef one, models::PortRef other) {
  return models::rdma_mtu_bytes(std::min(cluster.nic_of(one).mtu_bytes, cluster.nic_of(other).mtu_bytes));
}

std::map<std::string, models::PortRef> ports_by_name(const models::Cluster& cluster) {
  std::map<std::string, models::PortRef> ports;
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < cluster.nodes[node].nics.size(); ++nic) {
      const models::PortRef port{static_cast<int>(node), static_cast<int>(nic)};
      ports.emplace(endpoint_name(cluster, port), port);
    }
  }
  return ports;
}

Result<RecordedOutcome> replay_schedule(const RecordedSchedule& schedule, const models::Cluster& cluster,
                                        const RecordedReplayOptions& options) {
  return RecordedReplay(schedule, cluster).run(options);
}

}  // namespace meshbed::sim
