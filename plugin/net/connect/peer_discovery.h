#pragma once
// Peer discovery: queries the surrounding nodes for their addresses, replies to their queries, and keeps the map. Two
// UDP sockets: the discovery socket listens on a port that all nodes know and that all processes of a node share. The
// mail socket has a port of its own, from which everything is sent, so that a reply reaches the querying process.
//
// Loss is expected: a caller that needs a chain queries again. Any thread.

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/connect/attendance.h"
#include "plugin/net/wire/discovery_message.h"
#include "plugin/net/wire/neighbour_map.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class CablingAgreement;
class ProcessLinks;

class PeerDiscovery {
 public:
  explicit PeerDiscovery(ProcessLinks& process) : process_(process) {}

  /// `circuit_port`: where this process takes circuits. Errors name the port and its variable.
  Result<void> open(std::uint16_t circuit_port);
  /// Broadcasts a query on every live subnet of this node, to nodes up to `cables` cables away and to the other
  /// processes of this node. Processes that left the last few queries unanswered are removed from the map.
  void ask(int cables);
  /// Broadcasts an INQUIRY likewise: in which process is the sending end of this session? Repeat it if no reply comes.
  void inquire(std::uint64_t session);
  /// A process has replied that it has the sending end.
  bool is_found(std::uint64_t session) const;
  /// The reply is no longer awaited.
  void end_inquiry(std::uint64_t session);
  /// Broadcasts LEAVE if any peer has ever sent a query. The process goes on replying: others may need its relay.
  void leave();
  /// After leave(), if its relay stayed: the process is present again, and queries the others. Without leave() it does
  /// nothing.
  void come_back();
  /// Two processes that have not left reach each other through this one alone, as far as is known, over cables that are
  /// up.
  bool is_needed();
  /// Handles everything that has arrived; rank announcements go to `agreement`. Returns true if anything had arrived.
  bool advance(CablingAgreement& agreement);

  std::optional<std::vector<Hop>> chain(const ChainRequest& request) const;
  /// The last ANSWER of a process.
  std::optional<RelayDoor> find(const ProcessKey& key) const;
  /// Empties the map.
  void forget();
  /// Whether one of our subnets has no node on the map and may still reply, until `patience_ms` after `since_ns`. A
  /// subnet that was once waited for in vain is not waited for again until a node on it appears.
  bool expects_more(std::int64_t since_ns, std::int64_t patience_ms);
  /// Nodes that answered so far, for an error's text.
  std::size_t known_nodes() const;
  /// Those of `nics`, reduced to the addresses on whose cables no other node has answered.
  std::vector<Nic> unanswered(std::vector<Nic> nics) const;
  /// Our addresses on links that are up, as they are now.
  std::vector<PeerAddress> own_addresses() const;
  /// One datagram to the neighbours on every subnet but the one that `except` is in.
  void flood(std::span<const std::uint8_t> datagram, const std::optional<IpAddress>& except);
  /// Readable when advance() has something to do.
  std::array<int, 2> descriptors() const { return {discovery_message_.descriptor(), mail_.descriptor()}; }

 private:
  struct Heard {
    std::uint64_t query = 0;
    SocketAddress asker;  // the neighbour that passed it on
  };
  void take_in(std::span<const std::uint8_t> datagram, const SocketAddress& from, CablingAgreement& agreement);
  struct Inquiry {
    std::uint64_t session = 0;
    std::uint64_t query = 0;  // of the last INQUIRY: a FOUND must repeat it
    bool found = false;
  };
  void take_query(const DiscoveryMessage& query, const SocketAddress& from);
  void take_answer(const DiscoveryMessage& answer, const SocketAddress& from);
  /// Under the lock: updates the attendance.
  void note(const DiscoveryMessage& message, std::uint64_t way);
  /// Ways as in attendance.h: the NIC on whose cable this neighbour is; the NICs whose links are up.
  std::uint64_t way_of(const SocketAddress& from);
  std::uint64_t open_ways();
  /// Under the lock: has another node answered that may be reached from this port?
  bool has_neighbour(const PeerAddress& port) const;
  /// Under the lock. Returns false if it does not reply to a query of ours.
  bool take_own(const DiscoveryMessage& answer);
  /// nullopt: we have no reply to this query.
  std::optional<DiscoveryMessage> own_answer(const DiscoveryMessage& query) const;
  void send(std::span<const std::uint8_t> datagram, const SocketAddress& to);
  /// To a multicast group, from that address of the NIC. The kernel would choose the link-local one (RFC 6724, rule 2),
  /// which lies in no subnet that identifies a cable or that others could reply to.
  void send_to_link(std::span<const std::uint8_t> datagram, const SocketAddress& to, const Nic& nic,
                    const IpAddress& source);

  ProcessLinks& process_;
  std::uint16_t circuit_port_ = 0;
  bool ipv6_ = false;  // of both sockets
  Socket discovery_message_, mail_;
  mutable std::mutex mutex_;  // guards what follows
  NeighbourMap map_;
  Attendance attendance_;
  bool left_ = false;
  std::array<Heard, 256> heard_{};
  std::size_t next_heard_ = 0;
  struct Question {
    std::uint64_t query = 0;
    std::int64_t asked_ns = 0;
  };
  std::array<Question, 16> asked_{};
  std::size_t next_asked_ = 0;
  std::vector<Inquiry> inquiries_;  // one a session
  std::vector<IpPrefix> silent_;    // our subnets that were waited for in vain
};

}  // namespace meshbed::net
