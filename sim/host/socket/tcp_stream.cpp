// Connection: bytes on the wire, in order, both ways.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/host/host_state.h"
#include "sim/host/socket/tcp_connection.h"
#include "sim/host/socket/tcp_socket.h"

namespace meshbed::sim {
namespace {

// Linux: TCP_RTO_MIN, TCP_RTO_MAX, tcp_retries2.
constexpr Picoseconds kRetransmitMin = 200 * kPicosecondsPerMillisecond;
constexpr Picoseconds kRetransmitMax = 120 * kPicosecondsPerSecond;
constexpr int kRetransmitTries = 15;

// What an Ethernet frame carries; longer segments are many packets.
constexpr std::size_t kPacketBytes = 1500;

// A drained inbox that once was large gives its memory back.
constexpr std::size_t kInboxKeptBytes = 4096;

}  // namespace

std::size_t TcpStream::room_bytes() const { return host().options.tcp_window_bytes - held_bytes; }

void Connection::delivery_due(void* self, std::uint64_t argument) {
  auto& stack = *static_cast<TcpStack*>(self);
  const std::uint64_t number = argument >> 1U;
  Connection* connection = stack.find(number);
  if (connection == nullptr) return;
  connection->deliver(static_cast<int>(argument & 1U));
  stack.release(number);
}

void Connection::schedule_delivery(int end, Picoseconds when) {
  World::get().at(when, streams[static_cast<std::size_t>(end)].far.node, &Connection::delivery_due, &host().tcp,
                  (number_ << 1U) | static_cast<unsigned>(end));
}

void Connection::put_on_wire(int end, TcpSegment segment) {
  TcpStream& out = streams[static_cast<std::size_t>(end)];
  const Picoseconds start = std::max(World::get().now(), out.wire_free_ps);
  out.wire_free_ps = turn_at_ports(out, segment.bytes.size(), start);
  segment.due_ps = out.wire_free_ps + out.one_way_ps();
  const bool first = out.wire.empty();
  out.wire.push_back(std::move(segment));
  if (first) schedule_delivery(end, out.wire.front().due_ps);
  watch(end);
}

/// When the last bit has left.
Picoseconds Connection::turn_at_ports(const TcpStream& out, std::size_t size_bytes, Picoseconds start) const {
  const Picoseconds duration = wire_time_ps(size_bytes, out.far.rate_bps);
  if (size_bytes <= kPacketBytes || out.route.kind == RouteKind::kLocal) return start + duration;
  const bool cable = out.route.kind == RouteKind::kPort;
  // A management port stands behind all NICs.
  constexpr int kManagementPort = 1 << 20;
  TcpStack& stack = host().tcp;
  Picoseconds& leaving = stack.leaving_free_ps[{out.route.node, cable ? out.route.port.nic : kManagementPort}];
  Picoseconds& arriving = stack.arriving_free_ps[{out.far.node, cable ? out.far.port.nic : kManagementPort}];
  leaving = std::max(start, leaving) + duration;
  arriving = std::max(leaving, arriving + duration);
  return arriving;
}

void Connection::watch(int end) {
  TcpStream& out = streams[static_cast<std::size_t>(end)];
  const TcpSocket* sender = ends[static_cast<std::size_t>(end)];
  if (sender == nullptr || sender->user_timeout() == 0 || out.watched || out.wire.empty()) return;
  out.watched = true;
  World::get().at(out.wire.front().due_ps + sender->user_timeout(), out.route.node, &Connection::patience_over,
                  &host().tcp, (number_ << 1U) | static_cast<unsigned>(end));
}

void Connection::patience_over(void* self, std::uint64_t argument) {
  auto& stack = *static_cast<TcpStack*>(self);
  Connection* connection = stack.find(argument >> 1U);
  if (connection == nullptr) return;
  const int end = static_cast<int>(argument & 1U);
  TcpStream& out = connection->streams[static_cast<std::size_t>(end)];
  TcpSocket* sender = connection->ends[static_cast<std::size_t>(end)];
  out.watched = false;
  if (sender == nullptr || out.wire.empty()) return;
  const Picoseconds limit = out.wire.front().due_ps + sender->user_timeout();
  if (World::get().now() < limit) return connection->watch(end);  // it was another segment that is there by now
  sender->broken(ETIMEDOUT);
}

void Connection::deliver(int end) {
  TcpStream& stream = streams[static_cast<std::size_t>(end)];
  const Picoseconds now = World::get().now();
  constexpr std::size_t kHeaders = 20 + 20;  // IPv4, TCP
  const std::size_t packet_bytes = stream.wire.empty() ? 0 : stream.wire.front().bytes.size() + kHeaders;
  if (!passes(stream.route, stream.far, packet_bytes) || !addresses_hold(stream.route, stream.far)) {
    if (stream.tries == kRetransmitTries) {
      stream.wire.clear();
      if (TcpSocket* sender = ends[static_cast<std::size_t>(end)]) sender->broken(ETIMEDOUT);
      return;
    }
    const Picoseconds pause = kRetransmitMin << static_cast<unsigned>(stream.tries++);
    schedule_delivery(end, now + std::min(pause, kRetransmitMax));
    return;
  }
  stream.tries = 0;
  TcpSegment segment = std::move(stream.wire.front());
  stream.wire.pop_front();
  if (!stream.wire.empty()) schedule_delivery(end, std::max(now, stream.wire.front().due_ps));
  arrived(end, segment);
}

void Connection::arrived(int end, const TcpSegment& segment) {
  TcpStream& stream = streams[static_cast<std::size_t>(end)];
  TcpSocket* receiver = ends[static_cast<std::size_t>(1 - end)];
  // Strangers send for ever: a run in which no other stream makes progress has stalled.
  if (!from_stranger) World::get().progress();
  if (receiver == nullptr) {
    stream.held_bytes -= segment.bytes.size();
    // Bytes for a socket that is closed: its kernel replies with a reset.
    if (!segment.bytes.empty() && ends[static_cast<std::size_t>(end)] != nullptr) put_on_wire(1 - end, {.reset = true});
    return;
  }
  if (segment.reset) {
    receiver->broken(ECONNRESET);
    return;
  }
  HostCounters& counters = host().counters;
  if (!from_stranger) {
    counters.management_bytes += segment.bytes.size();
    counters.largest_segment_bytes = std::max<std::uint64_t>(counters.largest_segment_bytes, segment.bytes.size());
  }
  stream.inbox += segment.bytes;
  stream.fin_arrived = stream.fin_arrived || segment.fin;
  receiver->notify();
}

std::size_t Connection::send(int end, const char* data, std::size_t size_bytes) {
  TcpStream& out = streams[static_cast<std::size_t>(end)];
  const std::size_t count = std::min(size_bytes, out.room_bytes());
  if (count == 0) return 0;
  out.held_bytes += count;
  put_on_wire(end, {.bytes = std::string(data, count)});
  return count;
}

std::size_t Connection::receive(int end, char* data, std::size_t size_bytes, bool peek) {
  TcpStream& in = streams[static_cast<std::size_t>(1 - end)];
  const std::size_t count = std::min(size_bytes, in.unread_bytes());
  std::memcpy(data, in.inbox.data() + in.inbox_read, count);
  if (peek || count == 0) return count;
  const bool writer_waits = in.room_bytes() == 0;
  in.inbox_read += count;
  in.held_bytes -= count;
  if (in.unread_bytes() == 0) {
    in.inbox_read = 0;
    in.inbox.clear();
    if (in.inbox.capacity() > kInboxKeptBytes) std::string().swap(in.inbox);
  }
  TcpSocket* writer = ends[static_cast<std::size_t>(1 - end)];
  if (writer_waits && writer != nullptr) writer->notify();
  return count;
}

void Connection::send_fin(int end) {
  streams[static_cast<std::size_t>(end)].fin_sent = true;
  put_on_wire(end, {.fin = true});
}

void Connection::close(int end, bool abort) {
  ends[static_cast<std::size_t>(end)] = nullptr;
  const bool unread = streams[static_cast<std::size_t>(1 - end)].unread_bytes() > 0;
  if (ends[static_cast<std::size_t>(1 - end)] != nullptr) {
    if (abort || unread) {
      put_on_wire(end, {.reset = true});
    } else if (!streams[static_cast<std::size_t>(end)].fin_sent) {
      send_fin(end);
    }
  }
  host().tcp.release(number_);  // may be the end of this object
}

}  // namespace meshbed::sim
