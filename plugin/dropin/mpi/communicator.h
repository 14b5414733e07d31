#pragma once
// Communicator: what an MPI_Comm points to, and the state of MPI in one process. One lock guards all of it, and a call
// holds it while it waits for other ranks; therefore MPI_THREAD_SERIALIZED is the highest level that is provided.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/dropin/mpi/handles.h"
#include "plugin/dropin/mpi/job.h"

namespace meshbed::dropin::mpi {

struct Communicator {
  Handle handle{kMagic, HandleKind::kCommunicator, kMade};
  std::string name;          // unique among the job's communicators, the same on all members
  std::vector<int> members;  // world ranks, in the communicator's order
  int rank = 0;              // ours among them
  bool errors_return = false;
  bool freed = false;                                           // kept, because requests may still point to it
  std::uint64_t exchanges = 0, children = 0;                    // so far
  std::map<std::pair<int, int>, std::uint64_t> sent, received;  // messages, by the peer's rank and the tag

  int size() const { return static_cast<int>(members.size()); }
  std::string next_exchange() { return name + "#" + std::to_string(exchanges++); }
  /// The name of the next message to or from `peer`, a rank of this communicator; both ends form the same one.
  std::string next_sent(int peer, int tag) { return message(rank, peer, tag, sent[{peer, tag}]++); }
  std::string next_received(int peer, int tag) { return message(peer, rank, tag, received[{peer, tag}]++); }

 private:
  std::string message(int from, int to, int tag, std::uint64_t number) const {
    return name + "m" + std::to_string(from) + "-" + std::to_string(to) + "t" + std::to_string(tag) + "n" +
           std::to_string(number);
  }
};

/// What an MPI_Request points to: a receive, or a send, which is done already.
struct Request {
  Handle handle{kMagic, HandleKind::kRequest, kMade};
  Communicator* communicator = nullptr;
  void* buffer = nullptr;
  std::size_t bytes = 0;  // of the buffer
  std::string message;    // its name
  int source = 0, tag = 0;
  bool done = false;
};

struct Process {
  std::mutex lock;
  bool initialised = false, finalised = false;
  int thread_level = MPI_THREAD_SINGLE;
  std::unique_ptr<Job> job;
  Communicator world, self;
  std::vector<std::unique_ptr<Communicator>> made;
};

/// Never destroyed: where a program ends without MPI_Finalize, its connection must end without a goodbye, so that the
/// other ranks report it as lost.
Process& process();

}  // namespace meshbed::dropin::mpi
