#pragma once
// The network that data may travel over where no cable leads: which of our interfaces it may use (tcp_interfaces.h),
// and what was decided for whom. Only where it was asked for:
//   NCCL_MESH_HYBRID_TCP=1     for peers that neither a cable nor a chain of them reaches, if both ends say so
//   NCCL_MESH_DISABLE_RDMA=1   for everything; each usable interface is a device then

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/net/process/clock.h"
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
  /// As they are now.
  std::vector<InterfaceAddress> interfaces() const;
  /// The one that has this address, if it may be used.
  std::optional<std::string> interface_with(const IpAddress& address) const;
  /// For error texts: the variables in force and what they leave.
  std::string describe() const;

  /// Takes over the socket of a sender that closed: open it stays until the receiver closes too, or for so long, for
  /// whatever arrives at a socket that is closed makes its kernel forget what it has not delivered yet
  /// (RFC 1122, 4.2.2.13).
  void linger(Socket socket);
  /// Looks after the sockets that linger.
  void sweep();

  /// It was searched for in vain: for a minute nobody waits for another search.
  void remember_unreached(std::uint64_t node);
  bool is_unreached(std::uint64_t node) const;
  /// True once for each peer: it must be told that this one is slow.
  bool first_time(std::uint64_t node);

 private:
  bool hybrid_, everything_;
  std::string list_;
  std::optional<Family> family_;
  std::set<std::string> cables_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::uint64_t, std::int64_t> unreached_ns_;
  std::set<std::uint64_t> told_;
  struct Lingering {
    Socket socket;
    Deadline deadline;
  };
  std::vector<Lingering> lingering_;
};

}  // namespace meshbed::net
