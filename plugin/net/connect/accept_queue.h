#pragma once
// The accept queue: a TCP port of ours, and those who came to it and have not said yet who they are. The port is open
// to every network that the machine has, so most of them may be strangers who will never say anything; what all of them
// may hold is bounded.
//
//   - kCallersMost wait at one time. One more, and somebody goes: of those from the address that the most come from,
//     the one who has waited longest. A stranger's thousand connections drive out each other, not a peer's one.
//   - Each look lets in kLetInAtOnce: the others wait outside, in the kernel's queue, and cost no descriptor.
//   - Who came over a cable of ours is not among them for his first second: a peer that starts again may come with all
//     of its connections at once. Of these there are kCallersOverCablesMost.
//   - Where the process has no descriptor left, somebody goes for each who waits outside. Where nobody can go, nobody
//     is let in for kDeafMs, again and again: the kernel keeps those who come in its queue.
//   - Each has a deadline for the first message, which peers send with the connection.
//   - They cost few warnings (rare_warnings.h).
//
// Who has said a whole message is handed on.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/clock.h"
#include "plugin/net/process/rare_warnings.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

/// Somebody who came, and what he said first.
struct Arrival {
  Socket socket;
  SocketAddress local, remote;
  bool over_cable = false;
  Deadline deadline;  // of his whole handshake
  WireMessage message;
};

struct AcceptQueueOptions {
  std::string name;             // in logs: "listener"
  std::int64_t patience_s = 0;  // for a whole handshake; 0: for ever, and only their number is bounded
  bool has_visitors = false;    // who comes and goes without a word only wanted to know whether the way stands
  /// Whether who came to our address `own` from `client` came over a cable; empty: nobody does.
  std::function<bool(const IpAddress& own, const IpAddress& client)> is_over_cable{};
};

class AcceptQueue {
 public:
  static constexpr std::size_t kCallersMost = 64, kCallersOverCablesMost = 1024, kLetInAtOnce = 256;
  static constexpr std::int64_t kSparedMs = 1000, kDeafMs = 100;

  /// Listens on every address of this machine (IPv6 too where `ipv6`).
  Result<void> open(bool ipv6, AcceptQueueOptions options);
  std::uint16_t port() const { return port_; }
  /// To look for those who come; -1 while nobody is let in.
  int descriptor() const { return deaf_ ? -1 : socket_.descriptor(); }

  /// Lets in who has come, and hears everybody out; those who have said something are appended. An error: nobody can
  /// come in any more; those who are there are heard all the same.
  Result<void> advance(std::vector<Arrival>& arrivals);
  bool empty() const { return callers_.empty(); }
  /// Who have come and said nothing yet.
  std::size_t callers() const { return callers_.size(); }
  /// It must be advanced from time to time, whatever poll(2) says of its descriptor.
  bool is_deaf() const { return deaf_; }
  /// Adds what poll(2) should look for while it is not empty; deadlines pass without it.
  void watch(std::vector<pollfd>& watched) const;

 private:
  struct Caller {
    Socket socket;
    SocketAddress local, remote;
    Deadline deadline;
    bool over_cable = false;
    Deadline spared_until;  // where he came over a cable
    MessageReader reader;
    bool is_spared() const { return over_cable && !spared_until.passed(); }
  };
  Result<void> admit(std::vector<Arrival>& arrivals);
  /// Somebody has come, and was not let in yet.
  bool is_knocked_at() const;
  /// True: he is not on the accept queue any more.
  bool hear(Caller& caller, std::vector<Arrival>& arrivals);
  void go_deaf();
  bool is_crowded() const;
  void make_room(std::vector<Arrival>& arrivals);
  void drop(const Caller& caller, const std::string& why, bool worth_a_warning = true);

  AcceptQueueOptions options_;
  Socket socket_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Caller>> callers_;  // in the order in which they came
  RareWarnings warnings_;
  bool deaf_ = false, deafness_told_ = false;
  Deadline deaf_until_;
};

}  // namespace meshbed::net
