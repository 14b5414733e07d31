#pragma once
// The TCP network for data, for peers that no cable reaches: the interfaces that it may use (tcp_interfaces.h), and
// what was decided for each peer. It is used only on request:
//   NCCL_MESH_HYBRID_TCP=1     for peers that neither a cable nor a chain of them reaches, if both ends set it
//   NCCL_MESH_DISABLE_RDMA=1   for everything; each usable interface is a device then

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/process/config.h"
#include "plugin/net/tcp/tcp_interfaces.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

/// One device for each usable interface.
std::vector<Nic> tcp_devices(const std::vector<InterfaceAddress>& usable);

/// The process's view of it. Any thread.
class TcpNetwork {
 public:
  /// `cables`: the interfaces that RDMA uses.
  TcpNetwork(const Config& config, std::set<std::string> cables);

  bool wanted() const { return everything_ || hybrid_; }
  /// NCCL_MESH_DISABLE_RDMA.
  bool everything() const { return everything_; }
  /// The present interfaces. An error: they cannot be listed.
  Result<std::vector<InterfaceAddress>> interfaces() const;
  /// The interface that has this address, if it may be used.
  std::optional<std::string> interface_with(const IpAddress& address) const;
  /// For error texts: the variables in force and the interfaces that they allow.
  std::string describe() const;

  /// Takes over the socket of an end that closed: shuts its sending side down, and reads and discards bytes until the
  /// other end has closed too, for 30 s at most, and no longer than the transport is open (wait_for_peers). This is
  /// necessary because a socket that is closed with unread bytes, or that receives bytes afterwards, is reset (RFC
  /// 1122, 4.2.2.13; tcp(7), close in net/ipv4/tcp.c): the kernel then drops bytes that it has not delivered yet, and
  /// the other end, which may still have announcements to serve, fails.
  void linger(Socket socket);
  /// Advances the lingering sockets. Called by the service thread, by means of watch(), and by listeners.
  void sweep();
  bool lingers() const;
  /// Adds what poll(2) should wait for while sockets linger.
  void watch(std::vector<pollfd>& watched) const;
  /// `wake` is called when one more socket lingers.
  void announce_closed_to(std::function<void()> wake);
  /// Called before the transport ends with its last context: waits until no socket lingers, 2 s at most. Sockets that
  /// still linger are then closed, and reset if the other end goes on sending.
  void wait_for_peers();

  /// The node was searched for in vain: for a minute connections do not wait for another search.
  void remember_unreached(std::uint64_t node);
  bool is_unreached(std::uint64_t node) const;
  /// Returns true once for each peer, for the warning that it is slow.
  bool first_time(std::uint64_t node);

 private:
  struct Lingering {
    Socket socket;
    Deadline deadline;
  };
  bool is_over(Lingering& one);
  /// The names of all interfaces that are up.
  std::string up() const;

  bool hybrid_, everything_;
  std::string list_;
  std::optional<Family> family_;
  std::set<std::string> cables_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::uint64_t, std::int64_t> unreached_ns_;
  std::set<std::uint64_t> told_;
  std::vector<Lingering> lingering_;
  std::vector<std::uint8_t> unwanted_;
  std::function<void()> wake_;
};

}  // namespace meshbed::net
