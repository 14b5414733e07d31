#pragma once
// TcpSocket: one end of TCP as tcp(7) and connect(2) describe it, in virtual time. Only its own process's threads and
// events call it.

#include <sys/socket.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sim/host/endpoint.h"
#include "sim/host/file.h"

namespace meshbed::sim {

class Connection;

class TcpSocket : public File {
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

  // --- calls; 0 or an errno value ---
  int bind(const Endpoint& endpoint);
  int listen(int backlog);
  /// Begins; EINPROGRESS where the answer is still to come. What an earlier, unfinished call came to is told here too.
  int connect(const Endpoint& endpoint);
  int shutdown(int how);
  /// The next accepted socket; EAGAIN where there is none, EINVAL where this does not listen.
  Attempted try_accept(std::shared_ptr<TcpSocket>& accepted);
  /// The pending error, which is cleared: SO_ERROR.
  int take_error();

  // --- from the connection's events ---
  void established();
  void failed(int code);  // the handshake came to nothing; the socket may connect again
  void broken(int code);  // an established connection is lost
  void adopt(Connection& connection, int end, const Endpoint& own, const Endpoint& peer);
  void enqueue(std::shared_ptr<TcpSocket> accepted);
  bool accept_queue_full() const { return accept_queue_.size() > static_cast<std::size_t>(backlog_); }

  /// True where a packet to `address` is for this bound socket.
  bool takes(const models::IpAddress& address) const;
  /// True where both may not have one port.
  bool conflicts(const TcpSocket& other) const;

  int family() const { return family_; }
  State state() const { return state_; }
  Connection* connection() const { return connection_; }

  Endpoint local, remote;
  // Options that have an effect.
  bool reuse_address = false;
  bool reuse_port = false;
  bool v6_only = false;
  bool reset_on_close = false;  // SO_LINGER with no time
  Picoseconds receive_timeout = kForever;
  Picoseconds send_timeout = kForever;
  std::map<std::pair<int, int>, int> hints;  // (level, name) of the options that the model has no use for

 private:
  int choose_route(const Endpoint& endpoint);

  int family_;
  State state_ = State::kFresh;
  bool bound_ = false;
  bool connect_untold_ = false;  // connected, and no call has said so yet
  bool read_shut_ = false;
  bool write_shut_ = false;
  int error_ = 0;
  int backlog_ = 0;
  std::deque<std::shared_ptr<TcpSocket>> accept_queue_;
  Connection* connection_ = nullptr;  // owned by TcpStack, at least as long as an end holds it
  int end_ = 0;
};

/// The TCP socket behind a simulated descriptor of the current process; nullptr with errno EBADF or ENOTSOCK.
std::shared_ptr<TcpSocket> socket_at(int descriptor);

}  // namespace meshbed::sim
