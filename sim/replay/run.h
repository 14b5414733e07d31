#pragma once
// The loops of a replay, over any schedule. Internal to sim/replay.
//
// A schedule S has
//   std::uint32_t streams() const;
//   std::uint32_t steps(std::uint32_t stream) const;              messages that the stream sends
//   std::uint32_t needed(std::uint32_t stream, std::uint32_t index) const;   received before message `index` may go
//   ReplayMessage message(std::uint32_t stream, std::uint32_t index);        called once for each, in order
//   bool arrive(std::uint32_t stream, std::uint32_t index, std::uint32_t tag);
//     message number `index` into the stream's rank; false: it is not the one that the plan has there
//   const Path& path(std::uint32_t stream, std::uint32_t to);
//   static constexpr bool kPaced;   no message waits for another one's arrival

#include <cstdint>
#include <memory>
#include <vector>

#include "plugin/base/units.h"
#include "sim/engine/event_timeline.h"
#include "sim/engine/fabric.h"
#include "sim/engine/network.h"
#include "sim/replay/time_queue.h"

namespace meshbed::sim {

struct ReplayMessage {
  std::uint32_t to = 0;   // the stream of the rank that receives it
  std::uint32_t tag = 0;  // which part of the data it is; checked on arrival
  std::uint64_t bytes = 0;
  Picoseconds wire_ps = 0;  // on the hop's slowest link
  Picoseconds latency_ps = 0;
};

struct ReplayTotals {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t misplaced = 0;  // messages that the plan does not have there
  std::uint64_t digest = 0;
  Picoseconds end_ps = 0;
  bool contended = false;

  void add(std::uint32_t stream, std::uint32_t tag, Picoseconds arrival_ps, std::uint64_t size_bytes, bool in_place) {
    ++messages;
    bytes += size_bytes;
    misplaced += in_place ? 0 : 1;
    // A sum, so that the order in which messages are looked at changes nothing; mixed as splitmix64 does it (Steele,
    // Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
    std::uint64_t mixed = static_cast<std::uint64_t>(arrival_ps) * 0x9e3779b97f4a7c15U +
                          (static_cast<std::uint64_t>(stream) << 32U | tag) * 0xd1342543de82ef95U;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    digest += mixed ^ (mixed >> 27U);
    if (arrival_ps > end_ps) end_ps = arrival_ps;
  }
};

/// Each link serves whole messages as they start. `kShared`: a link may be on the hops of several streams, and
/// the run ends with `contended` at the first message that would have to wait for one of another stream.
template <typename Schedule, bool kShared>
class FifoRun {
 public:
  FifoRun(Schedule& schedule, std::size_t links) : schedule_(schedule), streams_(schedule.streams()) {
    if constexpr (kShared) links_.resize(links);
  }

  ReplayTotals run() {
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) streams_[stream].steps = schedule_.steps(stream);
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) send(stream, 0);
    while (!queue_.empty() && !totals_.contended) {
      const TimedEvent event = queue_.pop();
      Stream& stream = streams_[event.stream];
      if constexpr (!Schedule::kPaced) {
        totals_.misplaced += schedule_.arrive(event.stream, stream.received, event.tag) ? 0 : 1;
        ++stream.received;
      }
      send(event.stream, event.when_ps);
    }
    return totals_;
  }

 private:
  struct Stream {
    Picoseconds free_ps = 0;  // when its last message has left
    std::uint32_t steps = 0;
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
  };
  struct LinkState {
    Picoseconds free_ps = 0;
    std::uint32_t stream = 0;  // that it serves until then
  };

  /// Whether the links are free at `start_ps`; they are taken until `end_ps`.
  bool take_links(std::uint32_t stream, std::uint32_t to, Picoseconds start_ps, Picoseconds end_ps) {
    for (const int index : schedule_.path(stream, to).links) {
      LinkState& link = links_[static_cast<std::size_t>(index)];
      if (link.free_ps > start_ps && link.stream != stream) return false;
      link = {end_ps, stream};
    }
    return true;
  }

  /// Sends all that the stream may send by now.
  void send(std::uint32_t number, Picoseconds now_ps) {
    Stream& stream = streams_[number];
    while (stream.sent < stream.steps && schedule_.needed(number, stream.sent) <= stream.received) {
      const ReplayMessage message = schedule_.message(number, stream.sent);
      const Picoseconds start_ps = stream.free_ps > now_ps ? stream.free_ps : now_ps;
      const Picoseconds end_ps = start_ps + message.wire_ps;
      if constexpr (kShared) {
        if (!take_links(number, message.to, start_ps, end_ps)) {
          totals_.contended = true;
          return;
        }
      }
      stream.free_ps = end_ps;
      const Picoseconds arrival_ps = end_ps + message.latency_ps;
      ++stream.sent;
      if constexpr (Schedule::kPaced) {
        Stream& receiver = streams_[message.to];
        const bool in_place = schedule_.arrive(message.to, receiver.received++, message.tag);
        totals_.add(message.to, message.tag, arrival_ps, message.bytes, in_place);
        if (stream.sent < stream.steps) queue_.push({end_ps, number, 0});
        return;
      } else {
        totals_.add(message.to, message.tag, arrival_ps, message.bytes, true);
        queue_.push({arrival_ps, message.to, message.tag});
      }
    }
  }

  Schedule& schedule_;
  std::vector<Stream> streams_;
  std::vector<LinkState> links_;
  TimeQueue queue_;
  ReplayTotals totals_;
};

/// The same on the chunk fabric: links are shared by those that want them at one time.
template <typename Schedule>
class FabricRun {
 public:
  FabricRun(Schedule& schedule, Network& network)
      : schedule_(schedule), streams_(schedule.streams()), fabric_(make_chunk_fabric(timeline_, network)) {}

  ReplayTotals run() {
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) {
      streams_[stream].run = this;
      streams_[stream].number = stream;
    }
    for (Stream& stream : streams_) send(stream);
    timeline_.run();
    totals_.contended = true;
    return totals_;
  }

 private:
  struct Stream {
    FabricRun* run = nullptr;
    std::uint32_t number = 0;
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    bool busy = false;
    ReplayMessage under_way{};
  };

  void send(Stream& stream) {
    if (stream.busy || stream.sent == schedule_.steps(stream.number)) return;
    if (schedule_.needed(stream.number, stream.sent) > stream.received) return;
    stream.under_way = schedule_.message(stream.number, stream.sent++);
    stream.busy = true;
    fabric_->transfer(schedule_.path(stream.number, stream.under_way.to), stream.under_way.bytes, stream.number,
                      &FabricRun::sent, &stream, 0);
  }

  static void sent(void* self, std::uint64_t) {
    auto& stream = *static_cast<Stream*>(self);
    FabricRun& run = *stream.run;
    const ReplayMessage& message = stream.under_way;
    Stream& receiver = run.streams_[message.to];
    run.totals_.add(message.to, message.tag, run.timeline_.now() + message.latency_ps, message.bytes, true);
    run.timeline_.after(message.latency_ps, static_cast<int>(message.to), &FabricRun::arrived, &receiver, message.tag);
    stream.busy = false;
    run.send(stream);
  }

  static void arrived(void* self, std::uint64_t tag) {
    auto& stream = *static_cast<Stream*>(self);
    FabricRun& run = *stream.run;
    const bool in_place = run.schedule_.arrive(stream.number, stream.received, static_cast<std::uint32_t>(tag));
    run.totals_.misplaced += in_place ? 0 : 1;
    ++stream.received;
    run.send(stream);
  }

  Schedule& schedule_;
  EventTimeline timeline_;
  std::vector<Stream> streams_;
  std::unique_ptr<Fabric> fabric_;
  ReplayTotals totals_;
};

}  // namespace meshbed::sim
