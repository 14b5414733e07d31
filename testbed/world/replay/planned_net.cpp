#include "testbed/world/replay/planned_net.h"

#include <algorithm>
#include <utility>

#include "models/link.h"
#include "plugin/base/check.h"
#include "plugin/base/prng.h"

namespace meshbed::testbed {
namespace {

constexpr std::uint64_t kRingEntries = 256;         // plugin/net/wire/ring.h
constexpr std::uint64_t kEnoughBytes = 192 * kKiB;  // plugin/net/rdma/receive.h
constexpr std::uint64_t kSignalEvery = 32;          // likewise
constexpr std::uint64_t kFirstEntryBytes = 4096;    // plugin/net/rdma/receive.cpp
constexpr std::uint32_t kAtOnce = 16;               // plugin/net/link/connection.h
constexpr std::uint64_t kUnrecorded = ~std::uint64_t{0};

}  // namespace

/// A queue pair's messages one way.
struct PlannedNet::Stream {
  static constexpr std::uint64_t kPostedMost = 2 * kWindow;
  struct Posted {
    std::uint64_t payload_bytes = 0;
    std::uint32_t parts = 0;             // receives that a clear-to-send announces; 0: data
    std::uint64_t record = kUnrecorded;  // of the trace
    bool counts = false;
  };

  PlannedNet* net = nullptr;
  Connection* connection = nullptr;
  const sim::Path* path = nullptr;
  std::uint32_t mtu_bytes = 0;
  std::uint32_t number = 0;  // of the fabric's flow
  bool is_data = false, is_busy = false;
  std::uint64_t posted = 0, started = 0, arrived = 0, acknowledged = 0;
  std::array<Posted, kPostedMost> messages;

  Posted& at(std::uint64_t message) { return messages[message % kPostedMost]; }
};

struct PlannedNet::End {
  struct Request {
    End* end = nullptr;
    std::uint64_t size_bytes = 0;  // as the channel run has it
    std::uint64_t wire_bytes = 0;
    bool done = false;
  };

  Connection* connection = nullptr;
  bool sends = false;
  int rank = 0;
  std::uint32_t queue = 0;               // its completion queue
  std::uint32_t completions = 0;         // in it: of messages,
  std::uint32_t controls = 0;            // and of clear-to-send writes
  std::uint64_t posted = 0, served = 0;  // requests
  std::array<Request, kWindow> requests;

  Request& at(std::uint64_t request) { return requests[request % kWindow]; }
};

struct PlannedNet::Connection {
  End sender, receiver;
  Stream data, clear_to_send;
  // Clear-to-send entries that have arrived at the sender; the receiver's entries that it has announced.
  std::uint64_t known = 0, announced = 0;
  std::uint64_t announcements = 0;  // writes
  std::uint64_t entry_bytes = 0;    // as receive.h's entry_bytes_

  bool may_hold_back() const {
    const std::uint64_t told = announced - receiver.served, held = receiver.posted - announced;
    return held <= told && (told - 1) * entry_bytes >= kEnoughBytes;
  }
  bool holds_back() const { return announced != receiver.posted; }
};

std::uint64_t PlannedTimeline::run_instant() {
  now_ps_ = queue_.next_ps();
  std::uint64_t events = 0;
  for (; !queue_.empty() && queue_.next_ps() == now_ps_; ++events) {
    const sim::Event event = queue_.pop();
    event.function(event.self, event.argument);
  }
  return events;
}

PlannedNet::PlannedNet(const models::Cluster& cluster, int ranks, coll::Protocol protocol)
    : cluster_(cluster),
      network_(cluster),
      fabric_(sim::make_chunk_fabric(timeline_, network_)),
      protocol_(protocol),
      polls_(static_cast<std::size_t>(ranks)) {}

PlannedNet::~PlannedNet() = default;

PlannedNet::Connection* PlannedNet::find(int from, int to, int number) {
  const auto ranks = static_cast<std::uint64_t>(polls_.size());
  const std::uint64_t key = (static_cast<std::uint64_t>(number) * ranks + static_cast<std::uint64_t>(from)) * ranks +
                            static_cast<std::uint64_t>(to);
  const auto found = by_ends_.find(key);
  return found == by_ends_.end() ? nullptr : found->second;
}

PlannedNet::Connection& PlannedNet::connection(int from, int to, int number, const PlannedWay& way) {
  if (Connection* known = find(from, to, number)) return *known;
  const auto ranks = static_cast<std::uint64_t>(polls_.size());
  const auto index = static_cast<std::uint32_t>(connections_.size());
  Connection& made = connections_.emplace_back();
  by_ends_.emplace((static_cast<std::uint64_t>(number) * ranks + static_cast<std::uint64_t>(from)) * ranks +
                       static_cast<std::uint64_t>(to),
                   &made);
  const auto stream = [&](Stream& each, models::PortRef source, models::PortRef destination, bool is_data) {
    each.net = this;
    each.connection = &made;
    each.number = 2 * index + (is_data ? 0 : 1);
    each.path = network_.path(source, destination, index);
    each.mtu_bytes = way.mtu_bytes;
    each.is_data = is_data;
    MESHBED_CHECK(each.path != nullptr);
  };
  stream(made.data, way.from, way.to, true);
  stream(made.clear_to_send, way.to, way.from, false);
  const auto end = [&](End& each, int rank, bool sends) {
    each.connection = &made;
    each.sends = sends;
    each.rank = rank;
    each.queue = 2 * index + (sends ? 1 : 2);  // 0 is the store
    for (End::Request& request : each.requests) request.end = &each;
  };
  end(made.sender, from, true);
  end(made.receiver, to, false);
  return made;
}

void* PlannedNet::sender_of(Connection& connection) { return &connection.sender; }
void* PlannedNet::receiver_of(Connection& connection) { return &connection.receiver; }

// --- what channel runs call ---

int PlannedNet::send(void* comm, void*, std::uint64_t size_bytes, int, void*, void** request) {
  End& end = *static_cast<End*>(comm);
  Connection& connection = *end.connection;
  *request = nullptr;
  if (poll_of(end.rank).passes_over() || connection.known == end.posted) look(end, PlannedLook::Call::kSend);
  if (poll_of(end.rank).passes_over() || connection.known == end.posted) return 0;
  End::Request& next = end.at(end.posted++);
  next.size_bytes = size_bytes;
  next.wire_bytes = coll::lined_bytes(protocol_, size_bytes);
  next.done = false;
  poll_of(end.rank).note_activity();
  post(connection.data, next.wire_bytes, 0);
  *request = &next;
  moved_ = true;
  return 0;
}

int PlannedNet::receive(void* comm, void*, std::uint64_t size_bytes, int, void*, void** request) {
  End& end = *static_cast<End*>(comm);
  Connection& connection = *end.connection;
  *request = nullptr;
  if (poll_of(end.rank).passes_over()) return 0;
  // One write covers one contiguous part of the ring.
  if (connection.holds_back() && end.posted % kRingEntries < connection.announced % kRingEntries) announce(end);
  End::Request& next = end.at(end.posted++);
  next.size_bytes = size_bytes;
  next.wire_bytes = coll::lined_bytes(protocol_, size_bytes);
  next.done = false;
  poll_of(end.rank).note_activity();
  if (!connection.may_hold_back()) announce(end);
  *request = &next;
  moved_ = true;
  return 0;
}

int PlannedNet::test(void* request, bool* done, std::uint64_t* size_bytes) {
  End::Request& tested = *static_cast<End::Request*>(request);
  End& end = *tested.end;
  *done = false;
  if (poll_of(end.rank).passes_over() || !tested.done) look(end, PlannedLook::Call::kTest);
  if (poll_of(end.rank).passes_over() || !tested.done) return 0;
  *done = true;
  *size_bytes = tested.size_bytes;
  moved_ = true;
  return 0;
}

void PlannedNet::look(End& end, PlannedLook::Call call) {
  const bool is_empty = end.completions == 0 && end.controls == 0;
  const auto answer = poll_of(end.rank).ask({.queue = end.queue, .call = call}, is_empty, timeline_.now());
  if (answer == PlannedPoll::Answer::kLook) drain(end);
}

void PlannedNet::drain(End& end) {
  if (end.completions == 0 && end.controls == 0) return;
  poll_of(end.rank).note_activity();
  Connection& connection = *end.connection;
  MESHBED_CHECK(end.completions + end.controls <= kAtOnce);
  end.controls = 0;
  for (; end.completions > 0; --end.completions) {
    End::Request& oldest = end.at(end.served++);
    oldest.done = true;
    if (end.sends) continue;
    connection.entry_bytes = std::min(oldest.wire_bytes, 2 * connection.entry_bytes + kFirstEntryBytes);
  }
  if (!end.sends && connection.holds_back() && !connection.may_hold_back()) announce(end);
}

void PlannedNet::announce(End& receiver) {
  Connection& connection = *receiver.connection;
  const auto parts = static_cast<std::uint32_t>(receiver.posted - connection.announced);
  connection.announced = receiver.posted;
  ++connection.announcements;
  poll_of(receiver.rank).note_activity();
  post(connection.clear_to_send, parts * kClearToSendBytes, parts);
}

void PlannedNet::look_at_store(int rank) {
  static_cast<void>(poll_of(rank).ask({.queue = 0, .call = PlannedLook::Call::kStore}, true, timeline_.now()));
}

void PlannedNet::arm(int rank) {
  PlannedPoll& poll = poll_of(rank);
  // One event a rank: a queued one that is due earlier arms itself again.
  if (poll.timer_ps >= 0 && poll.timer_ps <= poll.deadline_ps()) return;
  poll.timer_ps = poll.deadline_ps();
  timeline_.at(poll.timer_ps, rank, &PlannedNet::pause_over, this, static_cast<std::uint64_t>(rank));
}

void PlannedNet::pause_over(void* self, std::uint64_t rank) {
  auto& net = *static_cast<PlannedNet*>(self);
  PlannedPoll& poll = net.poll_of(static_cast<int>(rank));
  const Picoseconds now_ps = net.timeline_.now();
  if (poll.timer_ps != now_ps) return;  // superseded by an earlier one
  poll.timer_ps = -1;
  if (!poll.stands()) return;
  if (poll.deadline_ps() > now_ps) return net.arm(static_cast<int>(rank));
  if (poll.pause_ended(now_ps)) net.woken_.push_back(static_cast<int>(rank));
}

// --- messages ---

void PlannedNet::begin_measuring(std::vector<sim::ReplayRecord>* trace) {
  measures_ = true;
  start_ps_ = timeline_.now();
  trace_ = trace;
  totals_ = {};
}

sim::ReplayRecord* PlannedNet::record_of(std::uint64_t number) {
  return number == kUnrecorded ? nullptr : &(*trace_)[number];
}

void PlannedNet::post(Stream& stream, std::uint64_t payload_bytes, std::uint32_t parts) {
  MESHBED_CHECK(stream.posted - stream.acknowledged < Stream::kPostedMost);
  Stream::Posted& message = stream.at(stream.posted++);
  message = {.payload_bytes = payload_bytes, .parts = parts, .record = kUnrecorded, .counts = measures_};
  ++under_way_;
  if (measures_) {
    ++totals_.messages;
    totals_.data_messages += stream.is_data ? 1 : 0;
    totals_.payload_bytes += payload_bytes;
    if (trace_ != nullptr) {
      message.record = trace_->size();
      const int from = stream.connection->sender.rank, to = stream.connection->receiver.rank;
      trace_->push_back({.posted_ps = timeline_.now() - start_ps_,
                         .source = stream.is_data ? from : to,
                         .destination = stream.is_data ? to : from,
                         .payload_bytes = payload_bytes,
                         .is_data = stream.is_data});
    }
  }
  pump(stream);
}

void PlannedNet::pump(Stream& stream) {
  if (stream.is_busy || stream.started == stream.posted) return;
  const Stream::Posted& message = stream.at(stream.started++);
  if (sim::ReplayRecord* record = record_of(message.record)) record->started_ps = timeline_.now() - start_ps_;
  stream.is_busy = true;
  const std::uint32_t extended = models::kRethBytes + (stream.is_data ? models::kImmBytes : 0);
  fabric_->transfer(*stream.path, models::wire_bytes(message.payload_bytes, stream.mtu_bytes, extended), stream.number,
                    &PlannedNet::sent, &stream, 0);
}

void PlannedNet::sent(void* self, std::uint64_t) {
  Stream& stream = *static_cast<Stream*>(self);
  stream.is_busy = false;
  stream.net->timeline_.after(stream.path->latency_ps, stream.path->destination.node, &PlannedNet::arrived, &stream, 0);
  stream.net->pump(stream);
}

void PlannedNet::arrived(void* self, std::uint64_t) {
  Stream& stream = *static_cast<Stream*>(self);
  PlannedNet& net = *stream.net;
  Connection& connection = *stream.connection;
  const std::uint64_t number = stream.arrived++;
  const Stream::Posted& message = stream.at(number);
  const Picoseconds now_ps = net.timeline_.now();
  if (sim::ReplayRecord* record = net.record_of(message.record)) record->delivered_ps = now_ps - net.start_ps_;
  if (stream.is_data) {
    ++connection.receiver.completions;
    if (message.counts) {
      net.totals_.digest += mix64(mix64(stream.number) ^ number ^ static_cast<std::uint64_t>(now_ps - net.start_ps_));
    }
    net.signal(connection.receiver.rank);
  } else {
    connection.known += message.parts;
    net.signal(connection.sender.rank);
  }
  net.timeline_.after(stream.path->latency_ps, stream.path->source.node, &PlannedNet::acknowledged, &stream, 0);
}

void PlannedNet::acknowledged(void* self, std::uint64_t) {
  Stream& stream = *static_cast<Stream*>(self);
  PlannedNet& net = *stream.net;
  const std::uint64_t number = stream.acknowledged++;
  const Stream::Posted& message = stream.at(number);
  --net.under_way_;
  if (sim::ReplayRecord* record = net.record_of(message.record)) {
    record->completed_ps = net.timeline_.now() - net.start_ps_;
  }
  End& end = stream.is_data ? stream.connection->sender : stream.connection->receiver;
  if (!stream.is_data && (number + 1) % kSignalEvery != 0) return;
  ++(stream.is_data ? end.completions : end.controls);
  net.signal(end.rank);
}

}  // namespace meshbed::testbed
