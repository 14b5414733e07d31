#pragma once
// Library: what one copy of the drop-in knows: its communicators, the groups that its threads have open, and the last
// error. Any thread. Lives as long as the process: threads of the program may call until it has ended.

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/thread_text.h"
#include "plugin/coll/meshcoll.h"
#include "plugin/dropin/nccl.h"
#include "plugin/dropin/profiler.h"

/// What an ncclComm_t points to.
struct ncclComm {
  meshcoll_comm* engine = nullptr;
  int rank = 0, world = 0;
  std::atomic<bool> finalized{false};
  std::unique_ptr<meshbed::dropin::Profiling> profiling{};  // nullptr: no profiler
};

namespace meshbed::dropin {

using CommPointer = std::shared_ptr<ncclComm>;

/// The result of a call; `text` of an error contains what is wrong and what to do.
struct Outcome {
  ncclResult_t code = ncclSuccess;
  std::string text{};
  bool well() const { return code == ncclSuccess; }
};
inline constexpr const char* kNoCommunicator = "this is no communicator (any more)";
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
  Library();
  ncclComm_t add(meshcoll_comm* engine);
  /// nullptr: not one of ours, or not any more.
  CommPointer find(const ncclComm* comm);
  /// Hands it out for the last time.
  CommPointer remove(const ncclComm* comm);

  /// The calling thread's; nullptr: it has none open. Only that thread uses it. A thread that ends with one leaves it
  /// to abandon() of group.h.
  Group* group();
  /// nullptr: the process has no room for thread data.
  Group* open_group();
  Group close_group();

  // The first two allocate no memory, so that they can report that there is none.
  /// Logs an error, and keeps the text for ncclGetLastError.
  void tell(const char* call, const char* text);
  /// What is not supported: a WARN the first time.
  void tell_unsupported(const char* call, const char* why);
  /// In the calling thread's own copy (thread_text.h).
  const char* last_error();

 private:
  static constexpr std::size_t kTextBytes = 1024;  // as NCCL has it
  static constexpr std::size_t kCallsMost = 64;
  void keep(const char* call, const char* between, const char* text);

  std::mutex mutex_;
  std::map<const ncclComm*, CommPointer> comms_;
  pthread_key_t group_key_{};
  bool has_key_ = false;
  std::array<const char*, kCallsMost> unsupported_{};  // whose WARN has been given
  std::array<char, kTextBytes> last_{};
  ThreadText texts_;
};

/// This copy's.
Library& library();

}  // namespace meshbed::dropin
