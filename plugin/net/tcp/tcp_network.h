#pragma once
// The network that data may travel over where no cable leads: which of our interfaces it may use (tcp_interfaces.h),
// and what was decided for whom. Only where it was asked for:
//   NCCL_MESH_HYBRID_TCP=1     for peers that neither a cable nor a chain of them reaches, if both ends say so
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
  /// As they are now. An error: they cannot be listed.
  Result<std::vector<InterfaceAddress>> interfaces() const;
  /// The one that has this address, if it may be used.
  std::optional<std::string> interface_with(const IpAddress& address) const;
  /// For error texts: the variables in force and what they leave.
  std::string describe() const;

  /// Takes over the socket of an end that closed: says that nothing more comes, and reads and forgets what does, until
  /// the other end has closed too, for 30 s at most, and no longer than the transport is open (wait_for_peers). For a
  /// socket that is closed with bytes unread, or that bytes arrive at afterwards, is reset (RFC 1122, 4.2.2.13; tcp(7),
  /// close in net/ipv4/tcp.c): its kernel forgets what it has not delivered yet, and the other end, which may have
  /// announcements to serve still, fails.
  void linger(Socket socket);
  /// Looks after the sockets that linger: the service thread, whom watch() tells of them, and whoever listens.
  void sweep();
  bool lingers() const;
  /// Adds what poll(2) should look for while sockets linger.
  void watch(std::vector<pollfd>& watched) const;
  /// `wake` is called when one more socket lingers.
  void announce_closed_to(std::function<void()> wake);
  /// Before the transport ends, with the last context, whether the process goes on or not: until no socket lingers, 2 s
  /// at most. What lingers still is closed then, and reset where the other end goes on sending.
  void wait_for_peers();

  /// It was searched for in vain: for a minute nobody waits for another search.
  void remember_unreached(std::uint64_t node);
  bool is_unreached(std::uint64_t node) const;
  /// True once for each peer: it must be told that this one is slow.
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
