#pragma once
// Communicator: what an MPI_Comm points to, and what one process knows of MPI. One lock for all of it: calls of several
// threads (MPI_THREAD_MULTIPLE) go one after the other.

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
  std::string name;          // of its own among all communicators of the job, the same on all members
  std::vector<int> members;  // world ranks, in the communicator's order
  int rank = 0;              // ours among them
  bool errors_return = false;
  std::uint64_t exchanges = 0, children = 0;                    // so far
  std::map<std::pair<int, int>, std::uint64_t> sent, received;  // by the other's rank and the tag

  int size() const { return static_cast<int>(members.size()); }
  std::string next_exchange() { return name + "#" + std::to_string(exchanges++); }
  /// Of the next message from `from` to `to` with that tag, ranks of this communicator; `numbers`: sent or received.
  std::string next_message(std::map<std::pair<int, int>, std::uint64_t>* numbers, int from, int to, int tag,
                           int other) {
    return name + "m" + std::to_string(from) + "-" + std::to_string(to) + "t" + std::to_string(tag) + "n" +
           std::to_string((*numbers)[{other, tag}]++);
  }
};

/// A receive that was begun by MPI_Irecv.
struct Request {
  Handle handle{kMagic, HandleKind::kRequest, kMade};
  Communicator* communicator = nullptr;
  void* buffer = nullptr;  // nullptr with `done`: a send
  std::size_t bytes = 0;   // of the buffer
  std::string message;
  int source = 0, tag = 0;
  bool done = false;
};

struct Process {
  std::mutex lock;
  bool initialised = false, finalised = false;
  std::unique_ptr<Job> job;
  Communicator world, self;
  std::vector<std::unique_ptr<Communicator>> made;
};

/// Lives as long as the process: a program may end without MPI_Finalize, and the others are to see that as an accident.
Process& process();

}  // namespace meshbed::dropin::mpi
