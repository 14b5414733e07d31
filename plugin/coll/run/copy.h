#pragma once
// Copy: the state of one copy of this library outside its communicators: which communicators live, how many threads are
// in their calls, and the last errors. Any thread.

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/thread_text.h"
#include "plugin/coll/meshcoll.h"
#include "plugin/coll/run/communicator.h"
#include "plugin/coll/store/id_listeners.h"

struct meshcoll_comm {
  std::unique_ptr<meshbed::coll::Communicator> communicator;
  std::uint64_t number = 0;  // of this copy's communicators
  int users = 0;             // threads that are in a call; guarded by the copy's mutex
  pid_t owner = ::getpid();  // a child (fork) has its threads not, and shares its connections

  std::mutex mutex{};                                           // of what follows
  std::vector<std::shared_ptr<meshbed::coll::Call>> started{};  // and not waited for to the end
  std::optional<meshbed::Error> error{};                        // the last
  std::shared_ptr<meshbed::coll::Call> failed{};                // the call that it was of, if of any

  // Between group_start and group_end; the caller's thread only.
  int group_depth = 0;
  std::vector<meshbed::coll::Operation> group{};
  std::int64_t group_timeout_ms = 0;
  std::optional<meshbed::Error> group_refusal{};
};

namespace meshbed::coll {

/// Never destroyed: threads of the program may call until the process has ended.
struct Copy {
  std::mutex mutex;
  std::condition_variable left;  // a thread has left a communicator
  std::vector<const meshcoll_comm*> live;
  std::uint64_t made = 0;
  std::string error;  // the last that has no communicator to keep it
  IdListeners id_listeners;
  ThreadText texts;  // errors that were handed out
};
Copy& this_copy();

meshcoll_comm* wrap(std::unique_ptr<Communicator> communicator);
/// An error that has no communicator to keep it.
void keep_error(std::string_view call, std::string_view text);
/// What was thrown, as an error; where there is no memory for its words, some that need none.
Error error_of(const std::exception& thrown);

/// Keeps a communicator while a thread is in one of its calls: another thread may destroy it before that call has
/// returned, for example after an abort.
class Visit {
 public:
  explicit Visit(const meshcoll_comm* comm);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// Returns false if it is not a live communicator of this copy, or belongs to another process.
  bool welcome() const { return comm_ != nullptr; }
  /// Why not.
  const char* refusal() const { return of_parent_ ? kOfParent : "this is no communicator (any more)"; }
  static constexpr const char* kOfParent =
      "called in a child (fork) of the process that the communicator belongs to, which alone may use it";

 private:
  meshcoll_comm* comm_ = nullptr;
  bool of_parent_ = false;
};

}  // namespace meshbed::coll
