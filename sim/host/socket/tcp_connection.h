#pragma once
// Connection: two TCP sockets and what is on the wire between them.
//
// Nomenclature: end 0 connected, end 1 was accepted; stream e carries what end e sends.
// Model: a segment is one write. It leaves after what was written before it, at the rate of the slowest link, and
// arrives one latency and one stack delay later. Segments of more than one packet also wait for their turn at the two
// ports that they leave and arrive by, with those of other connections; single packets slip in between. No loss but
// where the link is down: then it is sent again after a timer that doubles, as TCP does, at most for the time that
// TCP_USER_TIMEOUT allows. Handshake: SYN, SYN-ACK, ACK, each one way.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "sim/host/socket/endpoint.h"
#include "sim/host/socket/route.h"

namespace meshbed::sim {

class TcpSocket;

struct TcpSegment {
  std::string bytes = {};
  bool fin = false;
  bool reset = false;
  Picoseconds due_ps = 0;
};

/// One direction.
struct TcpStream {
  IpRoute route;
  Neighbour far;
  std::deque<TcpSegment> wire;  // in order; an event is queued for the first one
  std::string inbox;            // arrived; read up to inbox_read
  std::size_t inbox_read = 0;
  std::size_t held_bytes = 0;    // on the wire and unread
  Picoseconds wire_free_ps = 0;  // when the last bit of what was sent has left
  int tries = 0;                 // of the first segment
  bool fin_sent = false;
  bool fin_arrived = false;
  bool watched = false;  // for TCP_USER_TIMEOUT: an event is queued

  std::size_t unread_bytes() const { return inbox.size() - inbox_read; }
  std::size_t room_bytes() const;
  Picoseconds one_way_ps() const { return far.latency_ps + kStackDelay; }
};

class Connection {
 public:
  explicit Connection(std::uint64_t number) : number_(number) {}

  // --- handshake: tcp_handshake.cpp ---
  /// Begins: end 0 has its route and endpoints. Ends in TcpSocket::established() or failed() of end 0.
  void start();

  // --- transfer: tcp_stream.cpp ---
  /// Takes up to the window's room; 0 where there is none.
  std::size_t send(int end, const char* data, std::size_t size_bytes);
  /// Copies what has arrived for `end`; `peek` leaves it there.
  std::size_t receive(int end, char* data, std::size_t size_bytes, bool peek);
  void send_fin(int end);
  /// The end is closed: what it wrote still arrives; unread bytes, or `abort`, reset the other end.
  void close(int end, bool abort);
  bool idle() const { return ends[0] == nullptr && ends[1] == nullptr && !in_flight(); }

  std::uint64_t number() const { return number_; }

  std::array<TcpSocket*, 2> ends{};  // nullptr: closed
  std::array<TcpStream, 2> streams;
  Endpoint remote;                    // where end 0 connects to
  std::shared_ptr<TcpSocket> embryo;  // end 1 until the listener's queue takes it
  bool from_stranger = false;         // end 0 is one of sim/fault/strangers.h

 private:
  void try_resolve();
  void send_syn();
  void syn_arrived();
  void retry_syn();
  void syn_ack_arrived();
  void ack_arrived();
  void failure_arrived();
  void fail(int code);
  bool in_flight() const { return handshake_pending_ || !streams[0].wire.empty() || !streams[1].wire.empty(); }
  void put_on_wire(int end, TcpSegment segment);
  void deliver(int end);
  void arrived(int end, const TcpSegment& segment);
  void schedule_delivery(int end, Picoseconds when);

  template <void (Connection::*kStep)()>
  void later(Picoseconds delay);
  template <void (Connection::*kStep)()>
  static void step_due(void* self, std::uint64_t number);
  static void delivery_due(void* self, std::uint64_t argument);
  Picoseconds turn_at_ports(const TcpStream& out, std::size_t size_bytes, Picoseconds start) const;
  void watch(int end);
  static void patience_over(void* self, std::uint64_t argument);

  std::uint64_t number_;
  int tries_ = 0;
  int failure_ = 0;  // errno that waits for its event
  bool handshake_pending_ = false;
};

}  // namespace meshbed::sim
