#pragma once
// ExploredRank: one of the two ranks of an explored program. Each call of the plugin is one turn (interleaver.h), and
// its result is checked here. A failed check ends the run with a finding.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/coll/transport/transport.h"
#include "testbed/verify/conformance_rank.h"
#include "testbed/verify/interleaver.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

/// What the ranks know of each other, as over a management network that takes no time.
using HandleBoard = std::map<std::string, CaseHandle>;

/// A call that is made until it is done.
struct Poll {
  std::string name;
  std::function<Interleaver::Answer()> look;
  std::function<bool()> ready = {};
  bool counted = false;  // it is given up after so many looks: each of them is a change
  bool looked = false;
};

/// A message under way: its memory, its registration, its request.
struct Message {
  Message(void* comm_of, std::uint64_t size, std::uint64_t seed_of) : comm(comm_of), seed(seed_of), buffer(size) {}
  void* comm;
  std::uint64_t seed;
  CaseBuffer buffer;
  void* memory = nullptr;
  void* request = nullptr;
  bool failed = false;  // isend, irecv or test came back with an error, where that was to be expected
};

/// Whether a call may come back with an error: where the other rank's program takes away what it needs.
enum class Errors { kNone, kExpected };

class ExploredRank {
 public:
  ExploredRank(RankHost& host, coll::NetTable& net, Interleaver& interleaver, HandleBoard& board)
      : rank_(host.rank()), net_(net), interleaver_(interleaver), board_(board) {}

  int rank() const { return rank_; }
  bool first() const { return rank_ == 0; }

  /// Each in turns until all are done.
  void until_done(std::vector<Poll> polls);

  void* listen(int device, const std::string& key);
  void close_listen(void* listener);
  /// NULL only where an error was expected and came.
  void* connect(int device, const std::string& key, Errors errors = Errors::kNone);
  void* accept(void* listener, Errors errors = Errors::kNone);
  Poll connecting(int device, const std::string& key, void*& comm, Errors errors = Errors::kNone);
  Poll accepting(void* listener, void*& comm, Errors errors = Errors::kNone);
  /// These look `looks` times at most, and an error is no surprise.
  Poll sending_briefly(Message& message, int looks);
  Poll accepting_briefly(void* listener, void*& comm, int looks);

  /// Registers and posts; until there is a request or, where it is expected, an error.
  void post_send(Message& message, Errors errors = Errors::kNone);
  void post_receive(Message& message, Errors errors = Errors::kNone);
  Poll sending(Message& message, Errors errors = Errors::kNone);
  Poll receiving(Message& message, Errors errors = Errors::kNone);
  /// Until test() says done: once, with the size, and for a receive with the bytes of `seed`; or an error.
  void finish_send(Message& message, Errors errors = Errors::kNone);
  void finish_receive(Message& message, Errors errors = Errors::kNone);
  Poll finishing(Message& message, bool receives, Errors errors);

  /// Deregisters what is registered, and closes: one turn.
  void close_send(void* comm, Message* message = nullptr);
  void close_receive(void* comm, Message* message = nullptr);
  void finalize();

  /// Ends the run; does not return.
  void broken(const std::string& finding);

 private:
  static Poll briefly(const Poll& poll, int looks);
  /// One turn.
  void once(const std::string& name, const std::function<void()>& call);
  /// True: it succeeded. False: an error that was expected.
  bool succeeded(int code, const std::string& call, Errors errors);
  void deregister(Message* message);
  void check_received(Message& message, std::uint64_t size);

  int rank_;
  coll::NetTable& net_;
  Interleaver& interleaver_;
  HandleBoard& board_;
};

}  // namespace meshbed::testbed
