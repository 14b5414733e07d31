#pragma once
// UdpSocket: datagrams as udp(7) describes them, in virtual time: sendto(), sendmsg() and recvfrom(), unicast, IPv4
// broadcast of a subnet, and the all-nodes multicast of an IPv6 link.

#include <netinet/in.h>
#include <sys/socket.h>

#include <deque>
#include <optional>
#include <string>

#include "sim/host/socket/socket.h"
#include "sim/host/socket/udp_stack.h"

namespace meshbed::sim {

/// IPV6_PKTINFO of a message: through which interface, from which address; 0, nullopt: not given.
struct PacketInfo {
  int interface = 0;
  std::optional<models::IpAddress> source{};
};

class UdpSocket : public Socket {
 public:
  UdpSocket(Process& owner, int family) : Socket(owner, family) {}
  ~UdpSocket() override;

  // --- File ---
  short events() const override;
  Attempted try_read(void* data, std::size_t size, bool peek) override;
  Attempted try_write(const void* data, std::size_t size) override;
  std::size_t available_bytes() const override { return inbox_.empty() ? 0 : inbox_.front().bytes.size(); }
  std::string describe() const override;

  // --- Socket ---
  int type() const override { return SOCK_DGRAM; }
  int protocol() const override { return IPPROTO_UDP; }
  int bind(const Endpoint& endpoint) override;
  /// EOPNOTSUPP: a UDP socket with a fixed peer is not simulated.
  int connect(const Endpoint& endpoint) override;

  /// Bytes sent, or -errno. Never waits.
  Attempted send_to(const void* data, std::size_t size, const Endpoint& endpoint, const PacketInfo& info = {});
  /// One datagram; what does not fit in `size` is lost.
  Attempted try_receive(void* data, std::size_t size, bool peek, Endpoint& source);
  void deliver(const Datagram& datagram, bool over_wire = true);

 private:
  bool bound_ = false;
  std::deque<Datagram> inbox_;
  std::size_t inbox_bytes_ = 0;
};

}  // namespace meshbed::sim
