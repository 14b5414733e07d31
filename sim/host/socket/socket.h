#pragma once
// Socket: what TCP and UDP sockets of a simulated process have in common: family, endpoints, options.

#include <sys/socket.h>

#include <map>
#include <memory>
#include <utility>

#include "sim/host/file/file.h"
#include "sim/host/socket/endpoint.h"

namespace meshbed::sim {

class Socket : public File {
 public:
  Socket(Process& owner, int family);

  virtual int type() const = 0;      // SOCK_STREAM, SOCK_DGRAM
  virtual int protocol() const = 0;  // IPPROTO_TCP, IPPROTO_UDP

  // --- calls; 0 or an errno value ---
  virtual int bind(const Endpoint& endpoint) = 0;
  /// EINPROGRESS where the answer is still to come.
  virtual int connect(const Endpoint& endpoint) = 0;
  /// The pending error, which is cleared: SO_ERROR.
  virtual int take_error() { return 0; }
  virtual bool listening() const { return false; }
  virtual bool connecting() const { return false; }
  virtual bool connected() const { return false; }

  /// True where a packet to `address` is for this bound socket.
  bool takes(const models::IpAddress& address) const;
  /// True where both may not have one port.
  bool conflicts(const Socket& other) const;

  int family() const { return family_; }

  Endpoint local, remote;
  // Options that have an effect.
  bool reuse_address = false;
  bool reuse_port = false;
  bool v6_only = false;
  bool reset_on_close = false;  // SO_LINGER with no time
  bool broadcast = false;
  int multicast_interface = 0;  // IPV6_MULTICAST_IF; 0: not set
  Picoseconds receive_timeout = kForever;
  Picoseconds send_timeout = kForever;
  std::map<std::pair<int, int>, int> hints;  // (level, name) of the options that the model has no use for

 private:
  int family_;
};

/// The socket behind a simulated descriptor of the current process; nullptr with errno EBADF or ENOTSOCK.
std::shared_ptr<Socket> socket_at(int descriptor);

}  // namespace meshbed::sim
