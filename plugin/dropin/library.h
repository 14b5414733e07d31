#pragma once
// Library: what one copy of the drop-in knows: its communicators, the groups that its threads have open, and the last
// error. Any thread.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plugin/coll/meshcoll.h"
#include "plugin/dropin/nccl.h"

/// What an ncclComm_t points to.
struct ncclComm {
  meshcoll_comm* engine = nullptr;
  int rank = 0, world = 0;
  std::atomic<bool> finalized{false};
};

namespace meshbed::dropin {

using CommPointer = std::shared_ptr<ncclComm>;

/// How a call ended; `text` of an error says what is wrong and what to do.
struct Outcome {
  ncclResult_t code = ncclSuccess;
  std::string text{};
  bool well() const { return code == ncclSuccess; }
};
Outcome invalid_argument(std::string text);
Outcome invalid_usage(std::string text);
/// An engine's result as NCCL would call it.
ncclResult_t nccl_code(meshcoll_result result);
/// The same with the engine's own words: those of `engine`, or of the last meshcoll_init where it is null.
Outcome outcome_of(meshcoll_result result, meshcoll_comm* engine);

/// A communicator that is to be made.
struct Plan {
  ncclComm_t* where = nullptr;
  int world = 0, rank = 0;
  std::string bootstrap{};
};

/// What a thread has called since its first ncclGroupStart.
struct Group {
  /// One direction of a message to ourselves; the two directions of one meet in order.
  struct SelfMove {
    CommPointer comm;
    meshcoll_args args;
  };
  int depth = 0;
  std::vector<CommPointer> comms{};  // whose engines have a group open
  std::vector<SelfMove> sends_to_self{}, receives_from_self{};
  std::optional<Plan> plan{};
  std::optional<Outcome> refusal{};  // the first
};

class Library {
 public:
  ncclComm_t add(meshcoll_comm* engine);
  /// nullptr: not one of ours, or not any more.
  CommPointer find(const ncclComm* comm);
  /// Hands it out for the last time.
  CommPointer remove(const ncclComm* comm);

  /// The calling thread's; nullptr: it has none open. Only that thread uses it.
  Group* group();
  Group& open_group();
  void close_group();

  /// Logs, keeps the text for ncclGetLastError, and returns the code.
  ncclResult_t tell(const char* call, const Outcome& outcome);
  /// What is not supported: a WARN the first time.
  ncclResult_t refuse(const char* call, const std::string& why);
  const char* last_error();

 private:
  void keep(const std::string& text);

  std::mutex mutex_;
  std::map<const ncclComm*, CommPointer> comms_;
  std::map<std::thread::id, Group> groups_;
  std::set<std::string> refused_;
  std::set<std::string> texts_;  // what ncclGetLastError handed out stays valid
  const std::string* last_ = nullptr;
};

/// This copy's.
Library& library();

}  // namespace meshbed::dropin
