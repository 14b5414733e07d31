#pragma once
// Direct messages: a plugin's messages from and into GPU memory (GPUDirect RDMA). What was received is flushed by the
// plugin (iflush) before its request is done here: from then on the GPU sees it, and so does an adapter that sends it
// on. A comm is a DirectStream; a handle is the plugin's. Progress thread only, while operations run.

#include <cstdint>
#include <vector>

#include "plugin/coll/plan/messages.h"
#include "plugin/coll/transport/transport.h"

namespace meshbed::coll {

/// One direction to one peer on one channel.
struct DirectStream {
  struct Request {
    DirectStream* stream = nullptr;
    void* inner = nullptr;  // the plugin's: of the message, then of the flush; nullptr: free
    ReceivePart part{};     // of a receive, what has arrived
    bool flushes = false;   // the message is there, and its flush is under way
  };
  void* comm = nullptr;
  void* host_handle = nullptr;    // of slots in host memory: what is received there is not flushed
  std::uint64_t number = 0;       // messages that were begun
  std::vector<Request> requests;  // by number
};

class DirectMessages : public Messages {
 public:
  explicit DirectMessages(NetTable& net) : net_(net) {}

  int send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override;
  int receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override;
  int test(void* request, bool* done, std::uint64_t* size_bytes) override;

 private:
  NetTable& net_;
};

}  // namespace meshbed::coll
