#pragma once
// Requests: what isend() and irecv() hand out and test() takes back. From a fixed pool in each connection; the data
// path allocates nothing. A work request names its Request by index and generation, never by pointer, so that a late
// completion of a request that is gone hits nobody.

#include <array>
#include <cstdint>

#include "plugin/net/object.h"
#include "plugin/net/ring.h"

namespace meshbed::net {

class Connection;
class Memory;

struct Request : Object {
  static constexpr ObjectKind kKind = ObjectKind::kRequest;
  Request() : Object(ObjectKind::kDead) {}

  Connection* connection = nullptr;
  std::uint32_t generation = 0;
  std::uint16_t index = 0;
  std::uint16_t slot = 0;           // receives: first slot in the ring
  std::uint16_t work_requests = 0;  // sends: places taken in the send queue
  std::uint8_t parts = 1;
  bool in_use = false;
  bool done = false;
  bool reported = false;       // its lateness, once
  Memory* memory = nullptr;    // sends: held while in flight
  std::int64_t posted_ns = 0;  // only where operations have a time limit
  std::array<std::uint32_t, kMaxGroup> sizes{};

  std::uint64_t work_id() const { return std::uint64_t{generation} << 16U | index; }
};

class RequestPool {
 public:
  static constexpr std::size_t kRequests = kRingEntries;
  /// Set in the ids of work requests that belong to no Request.
  static constexpr std::uint64_t kControlBit = std::uint64_t{1} << 63U;

  explicit RequestPool(Connection* owner);

  bool empty() const { return free_count_ == 0; }
  std::size_t in_use() const { return kRequests - free_count_; }
  /// Must not be empty.
  Request& take();
  void give_back(Request& request);
  /// nullptr: that request is gone.
  Request* find(std::uint64_t work_id);

  template <typename Action>
  void for_each_in_use(Action action) {
    for (Request& request : requests_) {
      if (request.in_use) action(request);
    }
  }

 private:
  std::array<Request, kRequests> requests_;
  std::array<std::uint16_t, kRequests> free_;  // a stack: few requests in flight touch little memory
  std::size_t free_count_ = kRequests;
};

}  // namespace meshbed::net
