#pragma once
// TcpSocket: one end of TCP as tcp(7) and connect(2) describe it, in virtual time. Only its own process's threads and
// events call it.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "sim/host/socket/socket.h"

namespace meshbed::sim {

class Connection;

class TcpSocket : public Socket {
 public:
  enum class State { kFresh, kListening, kConnecting, kConnected, kBroken };

  TcpSocket(Process& owner, int family);
  ~TcpSocket() override;

  // --- File ---
  short events() const override;
  Attempted try_read(void* data, std::size_t size, bool peek) override;
  Attempted try_write(const void* data, std::size_t size) override;
  std::size_t available_bytes() const override;
  std::string describe() const override;

  // --- Socket ---
  int type() const override { return SOCK_STREAM; }
  int protocol() const override { return IPPROTO_TCP; }
  int bind(const Endpoint& endpoint) override;
  /// Begins to connect. Also returns the result of an earlier, unfinished call.
  int connect(const Endpoint& endpoint) override;
  int take_error() override;
  bool listening() const override { return state_ == State::kListening; }
  bool connecting() const override { return state_ == State::kConnecting; }
  bool connected() const override { return state_ == State::kConnected; }

  // --- calls; 0 or an errno value ---
  int listen(int backlog);
  int shutdown(int how);
  /// The next accepted socket; EAGAIN where there is none, EINVAL where this does not listen.
  Attempted try_accept(std::shared_ptr<TcpSocket>& accepted);

  // --- from the connection's events ---
  void established();
  void failed(int code);  // the handshake came to nothing; the socket may connect again
  void broken(int code);  // an established connection is lost
  void adopt(Connection& connection, int end, const Endpoint& own, const Endpoint& peer);
  void enqueue(std::shared_ptr<TcpSocket> accepted);
  bool accept_queue_full() const { return accept_queue_.size() > static_cast<std::size_t>(backlog_); }

  Connection* connection() const { return connection_; }
  /// Set before connect(): see HostCounters.
  bool from_stranger = false;
  /// TCP_USER_TIMEOUT; 0: none.
  Picoseconds user_timeout() const;

 private:
  int choose_route(const Endpoint& endpoint);
  void count_if_stranger();

  State state_ = State::kFresh;
  bool bound_ = false;
  bool connect_untold_ = false;  // connected, and no call has returned it yet
  bool read_shut_ = false;
  bool write_shut_ = false;
  bool counted_ = false;  // in HostCounters::strangers_held
  int error_ = 0;
  int backlog_ = 0;
  std::deque<std::shared_ptr<TcpSocket>> accept_queue_;
  Connection* connection_ = nullptr;  // owned by TcpStack, at least as long as an end holds it
  int end_ = 0;
};

}  // namespace meshbed::sim
