#pragma once
// The state of a process as a value: its transport, its connections and its relay circuits, and above all what each of
// them waits for. A snapshot of plain data; state_text.cpp writes it as JSON, for the Unix socket and for the library's
// own function.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::net {

/// Format number of the document. A reader refuses newer ones; fields may be added without a new number.
inline constexpr int kStateFormat = 1;

inline constexpr std::int64_t kUnknown = -1;

/// A request that is not finished: a send, or a (grouped) receive.
struct RequestState {
  std::vector<int> tags{};         // receives: one a part
  std::uint64_t size_bytes = 0;    // sends: of the message; receives: of the buffers
  std::int64_t age_ms = kUnknown;  // at least
};

struct EndState {
  std::string nic{};
  std::string address{};  // with its prefix
  std::string gid{};
  std::uint32_t qp = 0;  // 0: over TCP, where there is no GID either and `nic` is a network interface
};

/// What a connection carried over one cable, rails among them, or over one TCP connection.
struct CableState {
  EndState ours{}, theirs{};
  std::uint64_t bytes = 0;      // of messages in the connection's direction
  std::uint32_t rate_mbps = 0;  // of our port; 0: unknown
};

struct ConnectionState {
  bool sends = false;
  bool busy = false;   // its caller had the turn all the time: only `name` is known
  std::string name{};  // both ends when it was made
  std::uint64_t comm = 0;
  EndState ours{}, theirs{};  // theirs: of the next hop
  bool relayed = false;
  std::string way{};                              // "cable", "relayed through A, B", "TCP"
  std::string peer{};                             // the peer, in words
  const char* phase = "up";                       // "up", "suspended", "failed"
  std::string reason{};                           // why it is not up
  std::uint64_t posted = 0, done = 0, bytes = 0;  // requests; bytes of those that are done
  std::uint32_t resumed = 0;                      // number of resumptions
  std::uint32_t returned = 0;                     // senders: those of them that went back to the first cable
  std::uint64_t peer_node = 0;                    // the peer's node identity; 0: not known
  std::vector<CableState> cables{};               // that it has used, the first one first; not in to_json()
  std::int64_t quiet_ms = kUnknown;               // how long its caller's polls have found nothing
  std::vector<RequestState> outstanding{};        // the oldest first, kRequestsShown at most
  std::uint64_t outstanding_count = 0;
  std::string waits_for{};  // empty: for nothing
};
inline constexpr std::size_t kRequestsShown = 16;

/// A connection that is being made: accept() or connect() has not returned it yet.
struct HandshakeState {
  bool connects = false;
  std::uint64_t comm = 0;
  std::string nic{};                 // the requested one
  std::string peer{};                // connect: the peer, in words; accept: empty
  std::int64_t age_ms = kUnknown;    // since listen(), or the first connect()
  std::int64_t asked_ms = kUnknown;  // since the caller's last call; unknown: never
  std::uint64_t accepted = 0;        // connections that accept() has returned already
  std::string waits_for{};           // empty: for nothing, it has accepted a connection
};

/// A chain of relays that runs through this process.
struct CircuitState {
  std::string name{};
  std::uint64_t pieces = 0, bytes = 0;  // passed on
  std::uint64_t held = 0;               // pieces in this process
  std::uint64_t credits = 0;            // pieces for which the next node has room
  std::string waits_for{};
};

struct NicState {
  std::string name{}, netdev{}, pci_path{};
  int port = 0;
  bool link_up = false;
  std::uint32_t rate_mbps = 0;
  std::uint64_t guid = 0;
  int rail = -1, plane = -1;
  std::vector<std::string> addresses{}, gids{};
};

/// NCCL's hints on a communicator's traffic (setNetAttr); -1: not given.
struct HintState {
  std::int64_t peers_max = kUnknown, peers_min = kUnknown, flows_max = kUnknown, flows_min = kUnknown;
};
struct CommunicatorState {
  std::uint64_t comm = 0;
  std::uint64_t hints = 0;  // times that setNetAttr was called
  HintState send, receive;
  std::int64_t op = kUnknown, algo = kUnknown, proto = kUnknown;  // bit masks
};

struct ProcessState {
  std::string version{};
  std::int64_t pid = 0;
  std::string host{};
  std::uint64_t node = 0, process = 0;
  std::uint16_t service_port = 0;  // 0: no service
  std::int64_t listeners = kUnknown, registrations = kUnknown, sessions = kUnknown;
  std::vector<NicState> nics{};
  std::vector<CommunicatorState> communicators{};
  std::vector<ConnectionState> connections{};
  std::vector<HandshakeState> handshakes{};
  std::vector<CircuitState> circuits{};
};

/// One JSON object, one line.
std::string to_json(const ProcessState& state);

}  // namespace meshbed::net
