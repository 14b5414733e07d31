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
//   static constexpr bool kPaced;   no message waits for another one's arrival: a run needs no event for it
//   static constexpr bool kRepeats;  many messages of a stream are alike, and all that need an earlier one's arrival
//   need
//                                    as many more as they come later; then it also has
//     std::uint32_t alike(std::uint32_t stream) const;   its first messages that have the same bytes, hop and receiver,
//     std::uint64_t alike_bytes(std::uint32_t stream) const;   and how many bytes each of them has
//     void skip(std::uint32_t stream, std::uint32_t sent, std::uint32_t received);   as if that had been
//     std::uint32_t tag_after(std::uint32_t stream, std::uint32_t tag, std::uint32_t skipped) const;
//       of a message to the stream, that of the one behind it by so many

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plugin/base/units.h"
#include "sim/engine/event_timeline.h"
#include "sim/engine/fabric.h"
#include "sim/engine/network.h"
#include "sim/replay/replay.h"
#include "sim/replay/steady_state.h"
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
  bool gave_up = false;
  ReplayProgress on_progress = nullptr;
  std::uint64_t skipped = 0;  // of the messages, those that were not simulated (sim/replay/steady_state.h)

  void add(std::uint32_t stream, std::uint32_t tag, Picoseconds arrival_ps, std::uint64_t size_bytes, bool in_place) {
    constexpr std::uint64_t kProgressEvery = 1U << 18U;
    if (++messages % kProgressEvery == 0 && on_progress != nullptr) on_progress(messages, arrival_ps);
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
  /// Periods that repeat exactly are not simulated where request.fold is set.
  FifoRun(Schedule& schedule, std::size_t links, const ReplayRequest& request)
      : schedule_(schedule), streams_(schedule.streams()), skip_(request.fold), give_up_ps_(request.give_up_ps) {
    totals_.on_progress = request.on_progress;
    if constexpr (kShared) links_.resize(links);
  }

  ReplayTotals run() {
    for (std::uint32_t number = 0; number < streams_.size(); ++number) {
      Stream& stream = streams_[number];
      stream.steps = schedule_.steps(number);
      stream.waits = stream.steps > 0 && schedule_.needed(number, stream.steps - 1) > 0;
    }
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) send(stream, 0);
    while (!queue_.empty() && !totals_.contended) {
      const TimedEvent event = queue_.pop();
      if (give_up_ps_ > 0 && event.when_ps > give_up_ps_) {
        totals_.gave_up = true;
        break;
      }
      Stream& stream = streams_[event.stream];
      if (event.tag == kWake) {
        stream.wakes = false;
      } else {
        totals_.misplaced += schedule_.arrive(event.stream, stream.received, event.tag) ? 0 : 1;
        ++stream.received;
        stream.idle += stream.wakes ? 0U : 1U;
      }
      send(event.stream, event.when_ps);
      if constexpr (Schedule::kRepeats) {
        // Arrivals at the last stream mark the moments: along a chain it receives after all others.
        if (skip_ && event.stream + 1 == streams_.size() && event.tag != kWake) skip_periods(event.when_ps);
      }
    }
    return totals_;
  }

 private:
  using Stream = StreamState;
  static constexpr std::uint32_t kWake = ~std::uint32_t{0};  // a tag that no message has

  /// How many messages the stream could send without another arrival.
  std::uint32_t ready(std::uint32_t number) const {
    const Stream& stream = streams_[number];
    if (!stream.waits) return stream.steps - stream.sent;
    const std::uint32_t needed = schedule_.needed(number, stream.sent);
    return stream.received < needed ? 0 : stream.received - needed + 1;
  }

  /// How many periods of that kind lie ahead, all of messages that are alike. The last such message is always
  /// simulated: when it arrives, all before it have.
  std::uint32_t periods_ahead(const Period& period) const {
    std::uint32_t times = ~std::uint32_t{0};
    for (std::uint32_t number = 0; number < streams_.size(); ++number) {
      const std::uint32_t sent = period.sent[number], received = period.received[number];
      if (sent == 0) continue;
      const std::uint32_t alike = schedule_.alike(number), first = streams_[number].sent;
      times = std::min(times, alike > first ? (alike - first - 1) / sent : 0);
      // A backlog gets shorter: it has to last.
      if (received >= sent || !streams_[number].waits) continue;
      const std::uint32_t backlog = ready(number);
      times = std::min(times, backlog > sent ? (backlog - sent - 1) / (sent - received) : 0);
    }
    return times == ~std::uint32_t{0} ? 0 : times;
  }

  void skip_periods(Picoseconds now_ps) {
    const std::optional<Period> period =
        steady_.look({.now_ps = now_ps, .streams = streams_, .links = links_, .queue = queue_});
    if (!period) return;
    const std::uint32_t times = periods_ahead(*period);
    steady_.forget();
    if (times == 0) return;
    const Picoseconds time_ps = period->time_ps * times;
    queue_.delay(time_ps, [&](TimedEvent& event) {
      if (event.tag == kWake) return;
      event.tag = schedule_.tag_after(event.stream, event.tag, period->received[event.stream] * times);
    });
    for (std::uint32_t number = 0; number < streams_.size(); ++number) {
      const std::uint32_t sent = period->sent[number] * times, received = period->received[number] * times;
      Stream& stream = streams_[number];
      totals_.messages += sent;
      totals_.skipped += sent;
      totals_.bytes += sent == 0 ? 0 : sent * schedule_.alike_bytes(number);
      stream.sent += sent;
      stream.received += received;
      stream.free_ps += time_ps;
      schedule_.skip(number, sent, received);
    }
    for (LinkState& link : links_) link.free_ps += time_ps;
  }

  /// Whether the links are free at `start_ps`; they are taken until `end_ps`.
  bool take_links(std::uint32_t stream, std::uint32_t to, Picoseconds start_ps, Picoseconds end_ps) {
    for (const int index : schedule_.path(stream, to).links) {
      LinkState& link = links_[static_cast<std::size_t>(index)];
      if (link.free_ps > start_ps && link.stream != stream) return false;
      link = {end_ps, stream};
    }
    return true;
  }

  /// Sends the stream's next message, if it may be sent by now and the stream is free; else when it is.
  void send(std::uint32_t number, Picoseconds now_ps) {
    Stream& stream = streams_[number];
    if (stream.sent == stream.steps || schedule_.needed(number, stream.sent) > stream.received) return;
    if (stream.free_ps > now_ps) {
      wake(number);
      return;
    }
    const ReplayMessage message = schedule_.message(number, stream.sent);
    stream.free_ps = now_ps + message.wire_ps;
    if constexpr (kShared) {
      if (!take_links(number, message.to, now_ps, stream.free_ps)) {
        totals_.contended = true;
        return;
      }
    }
    const Picoseconds arrival_ps = stream.free_ps + message.latency_ps;
    ++stream.sent;
    if constexpr (Schedule::kPaced) {
      Stream& receiver = streams_[message.to];
      const bool in_place = schedule_.arrive(message.to, receiver.received++, message.tag);
      totals_.add(message.to, message.tag, arrival_ps, message.bytes, in_place);
    } else {
      totals_.add(message.to, message.tag, arrival_ps, message.bytes, true);
      queue_.push({arrival_ps, message.to, message.tag});
    }
    if (stream.sent < stream.steps && schedule_.needed(number, stream.sent) <= stream.received) wake(number);
  }

  void wake(std::uint32_t number) {
    Stream& stream = streams_[number];
    if (stream.wakes) return;
    stream.wakes = true;
    queue_.push({stream.free_ps, number, kWake});
  }

  Schedule& schedule_;
  std::vector<Stream> streams_;
  std::vector<LinkState> links_;
  TimeQueue queue_;
  bool skip_;
  Picoseconds give_up_ps_;
  SteadyState steady_;
  ReplayTotals totals_;
};

/// The same on the chunk fabric: links are shared by those that want them at one time.
template <typename Schedule>
class FabricRun {
 public:
  FabricRun(Schedule& schedule, Network& network, ReplayProgress on_progress)
      : schedule_(schedule), streams_(schedule.streams()), fabric_(make_chunk_fabric(timeline_, network)) {
    totals_.on_progress = on_progress;
  }

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
