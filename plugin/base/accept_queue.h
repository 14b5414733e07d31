#pragma once
// The accept queue: a TCP port of ours, and the clients that have connected to it and have not introduced themselves
// yet. The port may be open to every network of the machine, so any client may be a stranger that never sends a byte;
// the resources that all of them can hold are bounded.
//
//   - clients_max wait at one time. With one more, one is dropped: of the address with the most clients, the one that
//     has waited longest (crowd.h). A stranger's thousand connections displace each other, not a peer's single one.
//   - Each look accepts accepted_at_once: the others wait in the kernel's queue and cost no descriptor. With fewer than
//     clients_max, a client that replies at once is read several times before strangers displace it.
//   - A client that came over a cable of ours does not count in its first second: a peer that restarts may open all of
//     its connections at once. Of these there are at most kClientsOverCablesMax.
//   - Where the process has no descriptor left, a waiting client is dropped for each new one. Where none waits, nothing
//     is accepted for kPauseMs at a time: the kernel keeps the connections in its queue.
//   - Each client has a deadline for its introduction.
//   - They cost few warnings (rare_warnings.h).
//
// The owner defines the introduction (Introduction); a client that has completed it is passed on. One thread.

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/address.h"
#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"
#include "plugin/base/rare_warnings.h"
#include "plugin/base/result.h"

namespace meshbed {

/// What one client has sent of its introduction.
class Introduction {
 public:
  virtual ~Introduction() = default;
  /// Reads what has arrived at the non-blocking `descriptor`, replies where the protocol wants it. True: it is
  /// complete. An error: this client is dropped; os_errno is ECONNRESET where it has closed the connection.
  virtual Result<bool> advance(int descriptor) = 0;
  /// No byte has arrived.
  virtual bool untouched() const = 0;
};

/// A client that has introduced itself.
struct Introduced {
  Descriptor descriptor;
  SocketAddress local, remote;
  bool over_cable = false;
  Deadline deadline;  // of its whole handshake
  std::unique_ptr<Introduction> introduction;
};

struct AcceptQueueOptions {
  std::string name;              // in logs: "listener"
  std::string patience_name{};   // in logs, the variable that sets the patience, if one does
  std::int64_t patience_ms = 0;  // for a whole handshake; 0: no deadline, only their number is bounded
  std::size_t clients_max = 64;  // that have not introduced themselves, and did not come over a cable just now
  std::size_t accepted_at_once = 256;
  bool has_visitors = false;  // a client that closes without a byte only wanted to know whether the path works
  /// Whether a client at `client` that connected to our address `own` came over a cable; empty: none does.
  std::function<bool(const IpAddress& own, const IpAddress& client)> is_over_cable{};
  std::function<std::unique_ptr<Introduction>()> make_introduction{};
};

class AcceptQueue {
 public:
  static constexpr std::size_t kClientsOverCablesMax = 1024;
  static constexpr std::int64_t kSparedMs = 1000, kPauseMs = 100;

  /// Takes a non-blocking socket that listens.
  Result<void> open(Descriptor listening, AcceptQueueOptions options);
  /// Accepts nothing more; clients that wait are dropped.
  void close();
  std::uint16_t port() const { return port_; }
  /// For poll(2), to find new clients; -1 while none is accepted.
  int descriptor() const { return paused_ ? -1 : listening_.number(); }

  /// Accepts new clients and reads from all; those that have introduced themselves are appended. An error: no client
  /// can be accepted any more; those that wait are served all the same.
  Result<void> advance(std::vector<Introduced>& introduced);
  bool empty() const { return clients_.empty(); }
  /// Clients that have not introduced themselves.
  std::size_t size() const { return clients_.size(); }
  /// It must be advanced from time to time, independently of poll(2) on its descriptor.
  bool is_paused() const { return paused_; }
  /// When it must be advanced at the latest.
  Deadline next_deadline() const;
  /// Adds what poll(2) should look for while it is not empty; deadlines pass without it.
  void watch(std::vector<pollfd>& watched) const;

 private:
  struct Client {
    Descriptor descriptor;
    SocketAddress local, remote;
    Deadline deadline;
    bool over_cable = false;
    Deadline spared_until;  // where it came over a cable
    std::unique_ptr<Introduction> introduction;
    bool is_spared() const { return over_cable && !spared_until.passed(); }
  };
  Result<void> accept_clients(std::vector<Introduced>& introduced);
  Result<std::unique_ptr<Client>> accept_one() const;
  bool has_pending_connection() const;
  /// True: it has left the queue.
  bool serve(Client& client, std::vector<Introduced>& introduced);
  void pause();
  bool is_crowded() const;
  void make_room(std::vector<Introduced>& introduced);
  void drop(const Client& client, const std::string& why, bool worth_a_warning = true);

  AcceptQueueOptions options_;
  Descriptor listening_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;  // in the order of their arrival
  RareWarnings warnings_;
  bool paused_ = false, pause_logged_ = false;
  Deadline paused_until_;
};

}  // namespace meshbed
