#include "testbed/world/replay/planned_net.h"

#include <algorithm>
#include <utility>

#include "models/link.h"
#include "plugin/base/check.h"
#include "plugin/base/prng.h"
#include "plugin/net/rdma/striping.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::testbed {
namespace {

constexpr std::uint64_t kEnoughBytes = 192 * kKiB;  // plugin/net/rdma/receive.h
constexpr std::uint64_t kSignalEvery = 32;          // likewise
constexpr std::uint64_t kFirstEntryBytes = 4096;    // plugin/net/rdma/receive.cpp
constexpr std::uint32_t kAtOnce = 16;               // plugin/net/link/connection.h
// plugin/net/process/config.h: NCCL_MESH_STRIPE_BYTES, NCCL_MESH_RING_BALANCE_THRESHOLD.
constexpr std::uint64_t kStripedFromBytes = 8192, kHysteresisBytes = 1U << 20U;
constexpr std::uint64_t kMegabit = 1'000'000;
constexpr std::uint64_t kUnrecorded = ~std::uint64_t{0};

}  // namespace

/// A queue pair's messages one way.
struct PlannedNet::Stream {
  static constexpr std::uint64_t kPostedMost = 4 * kWindow;
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
  std::uint64_t* load = nullptr;  // of its port, in bytes
  Rail* rail = nullptr;           // whose it is; nullptr: the first queue pair's
  std::uint64_t posted = 0, started = 0, arrived = 0, acknowledged = 0;
  std::array<Posted, kPostedMost> messages;

  Posted& at(std::uint64_t message) { return messages[message % kPostedMost]; }
};

/// A further queue pair of a connection, over another cable.
struct PlannedNet::Rail {
  Stream stream;
  std::array<std::uint32_t, 2> queues{};  // the sender's completion queue, and the receiver's
  std::array<PlannedMark, 2> marks{};
  std::array<std::uint32_t, 2> completions{};  // in them
  std::array<std::uint64_t, 2> seen{};         // taken from them
  std::uint64_t rate_mbps = 0;
};

struct PlannedNet::End {
  struct Request {
    End* end = nullptr;
    std::uint64_t size_bytes = 0;  // as the channel run has it
    std::uint64_t wire_bytes = 0;
    std::uint64_t stripes = 0;  // on each rail, of this one and those before it
    bool done = false;
  };

  Connection* connection = nullptr;
  bool sends = false;
  int rank = 0;
  std::uint32_t queue = 0;  // its completion queue
  PlannedMark mark = 0;
  std::uint32_t completions = 0;         // in it: of messages,
  std::uint32_t controls = 0;            // and of clear-to-send writes
  std::uint64_t posted = 0, served = 0;  // requests
  std::uint64_t seen = 0;                // of their completions on the first queue pair
  std::uint64_t stripes = 0;             // on each rail, of all posted ones
  std::array<Request, kWindow> requests;

  Request& at(std::uint64_t request) { return requests[request % kWindow]; }
};

struct PlannedNet::Connection {
  End sender, receiver;
  Stream data, clear_to_send;
  // Clear-to-send entries that have arrived at the sender; the receiver's entries that it has announced.
  std::uint64_t known = 0, announced = 0;
  std::uint64_t entry_bytes = 0;  // as receive.h's entry_bytes_
  bool staged_keys = false;       // likewise
  std::uint64_t rate_mbps = 0;    // of the sender's first port
  std::vector<std::unique_ptr<Rail>> rails;

  bool may_hold_back() const {
    const std::uint64_t open = announced - receiver.served, held = receiver.posted - announced;
    return held <= open && (open - 1) * entry_bytes >= kEnoughBytes;
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
      polls_(static_cast<std::size_t>(ranks)),
      holds_(static_cast<std::size_t>(ranks)),
      store_marks_(static_cast<std::size_t>(ranks)) {}

PlannedNet::~PlannedNet() = default;

std::uint64_t PlannedNet::key_of(int from, int to, int number) const {
  const auto ranks = static_cast<std::uint64_t>(polls_.size());
  return (static_cast<std::uint64_t>(number) * ranks + static_cast<std::uint64_t>(from)) * ranks +
         static_cast<std::uint64_t>(to);
}

PlannedNet::Connection* PlannedNet::find(int from, int to, int number) {
  const auto found = by_ends_.find(key_of(from, to, number));
  return found == by_ends_.end() ? nullptr : found->second;
}

PlannedNet::Connection& PlannedNet::connection(int from, int to, int number, const PlannedWay& way) {
  if (Connection* known = find(from, to, number)) return *known;
  Connection& made = connections_.emplace_back();
  by_ends_.emplace(key_of(from, to, number), &made);
  const PlannedLink& first = way.front();
  const auto rate_mbps = [&](const PlannedLink& link) { return cluster_.nic_of(link.from).rate_bps / kMegabit; };
  add_stream(made.data, made, first, true);
  add_stream(made.clear_to_send, made, {.from = first.to, .to = first.from, .mtu_bytes = first.mtu_bytes}, false);
  made.rate_mbps = rate_mbps(first);
  const auto end = [&](End& each, int rank, bool sends) {
    each.connection = &made;
    each.sends = sends;
    each.rank = rank;
    each.queue = queues_++;
    for (End::Request& request : each.requests) request.end = &each;
  };
  end(made.sender, from, true);
  end(made.receiver, to, false);
  for (std::size_t number = 1; number < way.size(); ++number) {
    Rail& rail = *made.rails.emplace_back(std::make_unique<Rail>());
    add_stream(rail.stream, made, way[number], true).rail = &rail;
    rail.queues = {queues_++, queues_++};
    rail.rate_mbps = rate_mbps(way[number]);
  }
  return made;
}

PlannedNet::Stream& PlannedNet::add_stream(Stream& stream, Connection& connection, const PlannedLink& link,
                                           bool is_data) {
  stream.net = this;
  stream.connection = &connection;
  stream.number = streams_++;
  stream.path = network_.path(link.from, link.to, stream.number);
  stream.mtu_bytes = link.mtu_bytes;
  stream.is_data = is_data;
  if (is_data) stream.load = &load_of(link.from);
  MESHBED_CHECK(stream.path != nullptr);
  return stream;
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
  next.stripes = end.stripes += is_striped(connection, next.wire_bytes) ? 1 : 0;
  post_data(connection, next.wire_bytes);
  *request = &next;
  moved_ = true;
  return 0;
}

int PlannedNet::receive(void* comm, void*, std::uint64_t size_bytes, int, void*, void** request) {
  End& end = *static_cast<End*>(comm);
  Connection& connection = *end.connection;
  *request = nullptr;
  if (poll_of(end.rank).passes_over()) return 0;
  // One write covers one contiguous part of the ring, and entries with keys are not mixed with entries without.
  const std::uint64_t wire_bytes = coll::lined_bytes(protocol_, size_bytes);
  const bool has_keys = is_striped(connection, wire_bytes);
  const bool wraps = end.posted % net::kRingEntries < connection.announced % net::kRingEntries;
  if (connection.holds_back() && (wraps || has_keys != connection.staged_keys)) announce(end);
  connection.staged_keys = has_keys;
  End::Request& next = end.at(end.posted++);
  next.size_bytes = size_bytes;
  next.wire_bytes = wire_bytes;
  next.done = false;
  next.stripes = end.stripes += has_keys ? 1 : 0;
  poll_of(end.rank).note_activity();
  if (connection.may_hold_back()) {
    hold_back(end.rank);
  } else {
    announce(end);
  }
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
  PlannedPoll& poll = poll_of(end.rank);
  const auto wants = [&](std::uint32_t queue, bool is_empty, PlannedMark& mark) {
    return poll.ask({.queue = queue, .call = call}, is_empty, timeline_.now(), mark) == PlannedPoll::Answer::kLook;
  };
  bool any = wants(end.queue, end.completions == 0 && end.controls == 0, end.mark) && drain(end);
  const std::size_t side = end.sends ? 0 : 1;
  for (const auto& rail : end.connection->rails) {
    any |= wants(rail->queues[side], rail->completions[side] == 0, rail->marks[side]) && drain(end, *rail);
  }
  const Connection& connection = *end.connection;
  if (any && !end.sends && connection.holds_back() && !connection.may_hold_back()) announce(end);
}

bool PlannedNet::drain(End& end) {
  if (end.completions == 0 && end.controls == 0) return false;
  MESHBED_CHECK(end.completions + end.controls <= kAtOnce);
  poll_of(end.rank).note_activity();
  end.controls = 0;
  Connection& connection = *end.connection;
  for (; end.completions > 0; --end.completions) {
    if (end.sends) *connection.data.load -= connection.data.at(end.seen).payload_bytes;
    ++end.seen;
    serve(end);
  }
  return true;
}

bool PlannedNet::drain(End& end, Rail& rail) {
  const std::size_t side = end.sends ? 0 : 1;
  if (rail.completions[side] == 0) return false;
  MESHBED_CHECK(rail.completions[side] <= kAtOnce);
  poll_of(end.rank).note_activity();
  for (; rail.completions[side] > 0; --rail.completions[side]) {
    if (end.sends) *rail.stream.load -= rail.stream.at(rail.seen[side]).payload_bytes;
    ++rail.seen[side];
    serve(end);
  }
  return true;
}

void PlannedNet::serve(End& end) {
  Connection& connection = *end.connection;
  for (; end.served < end.seen; ++end.served) {
    End::Request& oldest = end.at(end.served);
    for (const auto& rail : connection.rails) {
      if (rail->seen[end.sends ? 0 : 1] < oldest.stripes) return;
    }
    oldest.done = true;
    if (end.sends) continue;
    connection.entry_bytes = std::min(oldest.wire_bytes, 2 * connection.entry_bytes + kFirstEntryBytes);
  }
}

void PlannedNet::announce(End& receiver) {
  Connection& connection = *receiver.connection;
  const auto parts = static_cast<std::uint32_t>(receiver.posted - connection.announced);
  connection.announced = receiver.posted;
  if (connection.staged_keys) post(connection.clear_to_send, parts * sizeof(net::RailKeys), 0);
  post(connection.clear_to_send, parts * sizeof(net::ClearToSend), parts);
}

bool PlannedNet::is_striped(const Connection& connection, std::uint64_t wire_bytes) const {
  return !connection.rails.empty() && wire_bytes >= kStripedFromBytes;
}

/// Over the rails first, as DirectSendPath::write_stripes().
void PlannedNet::post_data(Connection& connection, std::uint64_t wire_bytes) {
  if (!is_striped(connection, wire_bytes)) {
    post(connection.data, wire_bytes, 0);
    *connection.data.load += wire_bytes;
    return;
  }
  std::array<net::PathLoad, net::kMostPaths> loads;
  std::array<std::uint64_t, net::kMostPaths> shares{};
  const std::size_t rails = connection.rails.size();
  for (std::size_t number = 0; number < rails; ++number) {
    const Rail& rail = *connection.rails[number];
    loads[number] = {.rate_mbps = rail.rate_mbps, .in_flight_bytes = *rail.stream.load};
  }
  loads[rails] = {.rate_mbps = connection.rate_mbps, .in_flight_bytes = *connection.data.load};
  net::split_message(wire_bytes, std::span(loads).first(rails + 1), kHysteresisBytes,
                     std::span(shares).first(rails + 1));
  for (std::size_t number = 0; number < rails; ++number) {
    Stream& stream = connection.rails[number]->stream;
    post(stream, shares[number], 0);
    *stream.load += shares[number];
  }
  post(connection.data, shares[rails], 0);
  *connection.data.load += shares[rails];
}

/// The first time that a rank holds something back, the plugin's service thread starts its timer (cts_timer.h): it
/// wakes in the next round, and what it does wakes the rank where it stands still.
void PlannedNet::hold_back(int rank) {
  auto holds = holds_.begin() + rank;
  if (*holds) return;
  *holds = true;
  static_cast<void>(poll_of(rank).signal());
  woken_.push_back({.rank = rank, .is_service = true});
}

void PlannedNet::look_at_store(int rank) {
  PlannedMark& mark = store_marks_[static_cast<std::size_t>(rank)];
  static_cast<void>(poll_of(rank).ask({.queue = 0, .call = PlannedLook::Call::kStore}, true, timeline_.now(), mark));
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
  if (poll.pause_ended(now_ps)) net.woken_.push_back({.rank = static_cast<int>(rank)});
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
  poll_of(stream.is_data ? stream.connection->sender.rank : stream.connection->receiver.rank).note_activity();
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
    ++(stream.rail != nullptr ? stream.rail->completions[1] : connection.receiver.completions);
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
  ++(stream.rail != nullptr ? stream.rail->completions[0] : stream.is_data ? end.completions : end.controls);
  net.signal(end.rank);
}

}  // namespace meshbed::testbed
