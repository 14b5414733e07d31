#pragma once
// Messages: the part of a net plugin's table that a channel run uses.

#include <cstdint>

namespace meshbed::coll {

class Messages {
 public:
  virtual ~Messages() = default;
  // Results are nccl::kNcclSuccess or another ncclResult. NULL request: no room now, call again.
  virtual int send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) = 0;
  virtual int receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) = 0;
  virtual int test(void* request, bool* done, std::uint64_t* size_bytes) = 0;
};

}  // namespace meshbed::coll
