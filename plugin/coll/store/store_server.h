#pragma once
// Store server: rank 0's rendezvous on the management network. One thread, one poll(2) over all clients.
//
// Holds values that ranks pass to each other (connection handles), counts barriers, and announces the first failure.
// Clients that have not introduced themselves (introduction.h) wait in an accept queue, which bounds their number,
// their time and their bytes; no read or write blocks. A rank whose connection ends without a goodbye is announced to
// all others as lost. Cost: O(clients) a wake-up for poll's array; memory O(values not yet read), bounded for each
// rank.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugin/base/accept_queue.h"
#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/coll/store/call_ledger.h"
#include "plugin/coll/store/frame.h"
#include "plugin/coll/store/introduction.h"
#include "plugin/coll/store/job_key.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {

class StoreServer {
 public:
  struct Options {
    SocketAddress address;  // its port may be 0: any free one
    Identity identity;      // rank 0's own, which all others must match
    // How long the destructor waits for the other ranks to leave; 0: as long as they stay, 30 s after an announced
    // failure.
    std::int64_t linger_ms = 30000;
    std::optional<JobKey> key{};  // what every client must prove to know; nullopt: any client may join
    // Bound on the memory for one rank's values that no rank has read and requests that no rank has answered.
    std::size_t unread_bytes_max = std::size_t{64} << 20U;
  };
  static Result<std::unique_ptr<StoreServer>> start(const Options& options);
  /// At a socket that listens already; options.address is not used.
  static Result<std::unique_ptr<StoreServer>> start(const Options& options, Socket listener);
  /// Serves until every connected rank has left, at most linger_ms. Rank 0's own client must have left before.
  ~StoreServer();
  /// Where it listens, for the others' StoreClients.
  const std::string& address() const { return address_text_; }
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  struct Client {
    Socket socket;
    std::string received, to_send;
    int rank = -1;
    std::size_t unread_bytes = 0;  // of values and questions of this rank
    bool close_when_sent = false;
    bool gone = false;
  };
  struct Waiter {
    int rank;
    std::uint32_t request;
  };
  struct Value {
    std::string text;
    int owner;
  };
  struct Arrival {
    std::uint32_t request = 0;
    bool here = false;
  };

  StoreServer(const Options& options, const SocketAddress& address, Socket listener);
  void run();
  bool finished();
  int wait_ms() const;
  void wait_and_serve();
  void admit_clients();
  void serve(Client& client, short events);
  void flush(Client& client);
  void remove_gone();

  void handle(Client& client, Frame frame);
  void introduce(Client& client, const StoreIntroduction& introduction);
  /// Returns false if it holds too much and is refused.
  bool charge(Client& client, std::size_t bytes);
  void release(int rank, std::size_t bytes);
  void refuse(Client& client, const std::string& text);
  void set(Client& client, const Frame& frame);
  void get(Client& client, const Frame& frame);
  void arrive(Client& client, const Frame& frame);
  void note_wait(Client& client, const Frame& frame);
  void settle_calls();
  void rebuild(Client& client, const Frame& frame);
  void settle_rebuild();
  void expire();
  void expire_barrier();
  bool has_left() const;
  void leave();
  std::string waiting_bits() const;
  std::string waits_behind(const Frame& question) const;
  struct Failure {
    std::string text;
    int told_by = -1, culprit = -1;
    bool aborted = false;
  };
  void fail(Failure failure);
  void tell_failure(int rank);
  void answer(int rank, FrameType type, std::uint32_t request, const std::string& body);
  std::string missing_ranks() const;

  const Options options_;
  const SocketAddress address_;
  const std::string address_text_;
  std::atomic<bool> stopping_{false}, host_came_{false};

  // The thread's own from here on.
  AcceptQueue accept_queue_;
  std::vector<Introduced> introduced_;
  std::vector<std::unique_ptr<Client>> clients_;
  bool host_gone_ = false;                               // rank 0 itself
  std::vector<Client*> by_rank_;                         // nullptr: not here
  std::vector<bool> left_;                               // has sent kBye
  std::vector<std::optional<std::uint32_t>> waits_for_;  // by rank: the rank that it has waited for for long
  CallLedger calls_;                                     // the calls of those ranks
  Deadline calls_settle_by_ = Deadline::never();         // until when other ranks may report after a mismatch
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, Waiter> waiters_;
  std::vector<Arrival> barrier_;
  int arrived_count_ = 0;
  Deadline next_expiry_ = Deadline::never();  // of the barrier under way
  std::vector<Arrival> rebuild_;              // as barrier_
  Deadline rebuild_by_ = Deadline::never();
  bool rebuilt_ = false;
  std::optional<Failure> failure_;
  std::optional<Deadline> linger_;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace meshbed::coll
