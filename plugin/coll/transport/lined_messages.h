#pragma once
// Lined messages: a plugin's messages in the lines of protocol.h, through slots of the engine's own. A comm is a
// LinedStream, a handle is nullptr: the caller's memory need not be registered. Progress thread only, while operations
// run.

#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/coll/plan/messages.h"
#include "plugin/coll/plan/protocol.h"

namespace meshbed::coll {

/// One direction to one peer on one channel, whose messages are lined. Both ends number them alike.
struct LinedStream {
  struct Request {
    LinedStream* stream = nullptr;
    void* inner = nullptr;  // nullptr: free
    char* lines = nullptr;
    char* data = nullptr;           // of a receive
    const void* written = nullptr;  // of a send that found no room: its lines are there already
    std::uint64_t size_bytes = 0, flag = 0;
  };
  void* comm = nullptr;
  Protocol protocol = Protocol::kLl;
  char* slots = nullptr;
  std::uint64_t slot_bytes = 0;
  void* handle = nullptr;         // of the slots
  std::uint64_t number = 0;       // messages that were begun, of any protocol
  std::vector<Request> requests;  // one a slot
};

class LinedMessages : public Messages {
 public:
  explicit LinedMessages(Messages& net) : net_(net) {}

  int send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override;
  int receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override;
  /// ncclInternalError, and a WARN: the plugin reports the message as complete, but its flags are missing.
  int test(void* request, bool* done, std::uint64_t* size_bytes) override;

  /// Into lines and out of them, since it was last asked.
  std::uint64_t take_copied_bytes() { return std::exchange(copied_bytes_, 0); }

 private:
  Messages& net_;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace meshbed::coll
