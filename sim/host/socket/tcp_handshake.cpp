// Connection: from connect() to an accepted socket. Three packets, each one way; address resolution before them.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/host/host_state.h"
#include "sim/host/identity.h"
#include "sim/host/socket/tcp_connection.h"
#include "sim/host/socket/tcp_socket.h"

namespace meshbed::sim {
namespace {

// Linux: three neighbour solicitations, one second apart (mcast_solicit, retrans_time_ms).
constexpr int kResolveTries = 3;
constexpr Picoseconds kResolvePause = 1 * kPicosecondsPerSecond;
// tcp_syn_retries: 1, 2, 4 ... 64 s; ETIMEDOUT after 127 s.
constexpr int kSynRetries = 6;
constexpr Picoseconds kSynPause = 1 * kPicosecondsPerSecond;

}  // namespace

template <void (Connection::*kStep)()>
void Connection::later(Picoseconds delay) {
  handshake_pending_ = true;
  World::get().after(delay, streams[0].route.node, &Connection::step_due<kStep>, &host().tcp, number_);
}

template <void (Connection::*kStep)()>
void Connection::step_due(void* self, std::uint64_t number) {
  auto& stack = *static_cast<TcpStack*>(self);
  Connection* connection = stack.find(number);
  if (connection == nullptr) return;
  connection->handshake_pending_ = false;
  // A closed connector takes no further step; a waiting other end is reset.
  if (connection->ends[0] != nullptr || connection->embryo != nullptr) (connection->*kStep)();
  stack.release(number);
}

void Connection::start() { try_resolve(); }

void Connection::try_resolve() {
  const auto far = resolve(streams[0].route);
  if (far) {
    streams[0].far = *far;
    tries_ = 0;
    send_syn();
  } else if (tries_ == kResolveTries) {
    fail(EHOSTUNREACH);
  } else {
    ++tries_;
    later<&Connection::try_resolve>(kResolvePause);
  }
}

void Connection::send_syn() { later<&Connection::syn_arrived>(streams[0].one_way_ps()); }

void Connection::retry_syn() {
  if (tries_ > kSynRetries) {
    fail(ETIMEDOUT);
    return;
  }
  send_syn();
}

void Connection::syn_arrived() {
  const TcpStream& out = streams[0];
  const bool passed = passes(out.route, out.far) && addresses_hold(out.route, out.far);
  const Endpoint& source = ends[0]->local;
  TcpStack& stack = host().tcp;
  TcpSocket* listener = stack.listener(out.far.node, remote);
  if (passed && listener == nullptr) {
    failure_ = ECONNREFUSED;
    later<&Connection::failure_arrived>(out.one_way_ps());
    return;
  }
  // The answer takes the other node's own route to our source address, which may not be the way we came.
  const auto back = find_route(out.far.node, source.address, remote.address);
  const auto home = back ? resolve(*back) : std::nullopt;
  const bool lost = !passed || listener->accept_queue_full() || !home || home->node != out.route.node;
  if (lost) {
    later<&Connection::retry_syn>(kSynPause << static_cast<unsigned>(tries_++));
    return;
  }
  streams[1].route = *back;
  streams[1].route.source = remote.address;
  streams[1].far = *home;
  embryo = std::make_shared<TcpSocket>(listener->process, listener->family());
  Endpoint own = remote, peer = source;
  if (is_ipv6_link_local(own.address)) own.scope = peer.scope = interface_index_of(back->port);
  embryo->adopt(*this, 1, own, peer);
  ends[1] = embryo.get();
  later<&Connection::syn_ack_arrived>(streams[1].one_way_ps());
}

void Connection::syn_ack_arrived() {
  if (ends[0] == nullptr) {
    embryo.reset();
    return;
  }
  if (!from_stranger) World::get().progress();
  ends[0]->established();
  later<&Connection::ack_arrived>(streams[0].one_way_ps());
}

void Connection::ack_arrived() {
  TcpSocket* listener = host().tcp.listener(streams[0].far.node, remote);
  const auto accepted = std::exchange(embryo, nullptr);
  if (listener == nullptr) {
    accepted->reset_on_close = true;
    return;
  }
  listener->enqueue(accepted);
}

void Connection::failure_arrived() { fail(failure_); }

void Connection::fail(int code) {
  TcpSocket* socket = std::exchange(ends[0], nullptr);
  if (socket != nullptr) socket->failed(code);
}

}  // namespace meshbed::sim
