#pragma once
// Peer discovery: asks the nodes around for their addresses, answers when others ask, and keeps the map. Two UDP
// sockets: the discovery message listens on a port that all nodes know, and that all processes of a node share; the
// mail socket has a port of its own, from which everything is sent, so that an answer finds the process that asked.
//
// Loss is expected: whoever needs a chain asks again. Any thread.

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
  /// Broadcasts a query on every live subnet of this node, to nodes so many cables away and the other processes of
  /// ours. Who has left the last few unanswered is on the map no more.
  void ask(int cables);
  /// Likewise: in which process is the sending end of this session? To be asked again where no answer comes.
  void inquire(std::uint64_t session);
  /// Somebody answered that it is in his.
  bool is_found(std::uint64_t session) const;
  /// Nobody waits for the answer any more.
  void end_inquiry(std::uint64_t session);
  /// Tells all around that this process ends, where anybody ever asked for a chain. It goes on answering: others may
  /// need its relay.
  void leave();
  /// After leave(), where its relay stayed: it is there again, and asks who is. Nothing where it has not left.
  void come_back();
  /// Two processes that have not left reach each other through this one alone, as far as is known, over cables that are
  /// up.
  bool is_needed();
  /// Takes in and deals with everything that has arrived, rank announcements by `cabling agreement`; true where there
  /// was something.
  bool advance(CablingAgreement& agreement);

  std::optional<std::vector<Hop>> chain(const ChainRequest& request) const;
  /// What a process has answered.
  std::optional<RelayDoor> find(const ProcessKey& key) const;
  /// Draws the map anew.
  void forget();
  /// Whether there is a subnet of ours of which nobody is on the map, and from which word may still come, up to so much
  /// later. Who was waited for in vain once is not waited for again before he is there.
  bool expects_more(std::int64_t since_ns, std::int64_t patience_ms);
  /// Nodes that answered so far, for an error's text.
  std::size_t known_nodes() const;
  /// Those with the addresses on whose cables nobody else has answered.
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
    SocketAddress asker;  // the neighbour who handed it on
  };
  void take_in(std::span<const std::uint8_t> datagram, const SocketAddress& from, CablingAgreement& agreement);
  struct Inquiry {
    std::uint64_t session = 0;
    std::uint64_t query = 0;  // the last one: an answer must repeat it
    bool found = false;
  };
  void take_query(const DiscoveryMessage& query, const SocketAddress& from);
  void take_answer(const DiscoveryMessage& answer, const SocketAddress& from);
  /// Under the lock: who is there, and who leaves.
  void note(const DiscoveryMessage& message, std::uint64_t way);
  /// NICs of ours, as attendance.h has them: on whose cable this neighbour is; whose links are up.
  std::uint64_t way_of(const SocketAddress& from);
  std::uint64_t open_ways();
  /// Under the lock: has another node answered that may be reached from this port?
  bool has_neighbour(const PeerAddress& port) const;
  /// Under the lock. False: it answers no question of ours.
  bool take_own(const DiscoveryMessage& answer);
  /// nullopt: the question is not for us.
  std::optional<DiscoveryMessage> own_answer(const DiscoveryMessage& query) const;
  void send(std::span<const std::uint8_t> datagram, const SocketAddress& to);
  /// To a multicast group, from that address of the NIC's: a kernel would choose the link-local one (RFC 6724, rule 2),
  /// which is in no subnet that anybody could answer to or know a cable by.
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
  std::vector<IpPrefix> silent_;    // ours, on whose subnets somebody was waited for in vain
};

}  // namespace meshbed::net
