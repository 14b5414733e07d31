#pragma once
// Requests: what isend() and irecv() return and test() completes. They come from a fixed pool in each connection; the
// data path allocates nothing. A work request names its Request by index and generation, never by pointer, so that a
// late completion of an old request affects no other one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include "plugin/base/check.h"
#include "plugin/net/process/object.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {

class Endpoint;
class Memory;

struct Request : Object {
  static constexpr ObjectKind kKind = ObjectKind::kRequest;
  Request() : Object(ObjectKind::kDead) {}

  Endpoint* connection = nullptr;
  std::uint32_t generation = 0;
  std::uint16_t index = 0;
  std::uint16_t work_requests = 0;  // sends: places taken in the send queue
  std::uint64_t group = 0;          // first entry in the clear-to-send ring
  std::uint64_t closes = 0;         // sends: the entries below are served when it completes; 0: it closes no group
  std::uint32_t own_way_bytes = 0;  // sends: bytes over the QP link itself, not over rails
  std::uint8_t pending = 0;         // sends: completions that are still to come
  bool in_order = false;            // sends: completes after those before it
  std::uint8_t part = 0;            // sends: of the group
  std::uint8_t parts = 1;
  bool in_use = false;
  bool done = false;
  bool reported = false;       // its delay was reported
  bool has_events = false;     // the profiler's (event_log.h)
  bool flushes = false;        // a flush, of `data`
  std::uint32_t unread = 0;    // flushes: bit per Flusher whose read is not done
  Memory* memory = nullptr;    // sends and flushes: held while in flight
  void* data = nullptr;        // sends and flushes
  std::int64_t posted_ns = 0;  // only where operations have a time limit
  std::array<std::uint32_t, kMaxGroup> sizes{};

  std::uint64_t work_id() const { return std::uint64_t{generation} << 16U | index; }
};

class RequestPool {
 public:
  static constexpr std::size_t kRequests = kRingEntries;
  /// Set in the ids of work requests that belong to no Request.
  static constexpr std::uint64_t kControlBit = std::uint64_t{1} << 63U;

  explicit RequestPool(Endpoint* owner) : owner_(owner) {}
  /// Requests in flight end with their connection.
  ~RequestPool() {
    for_each_in_use([](Request& request) { request.bury(); });
  }
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  bool empty() const { return free_count_ == 0 && born_ == kRequests; }
  std::size_t in_use() const { return born_ - free_count_; }
  /// Must not be empty.
  Request& take() {
    if (free_count_ == 0) bear();
    Request& request = at(free_[--free_count_]);
    request.revive(ObjectKind::kRequest);
    ++request.generation;
    request.in_use = true;
    request.done = false;
    request.reported = false;
    request.flushes = false;
    request.has_events = false;
    request.memory = nullptr;
    request.parts = 1;
    return request;
  }
  void give_back(Request& request) {
    MESHBED_CHECK(request.in_use);
    request.in_use = false;
    request.bury();
    free_[free_count_++] = request.index;
  }
  /// nullptr: that request is gone.
  Request* find(std::uint64_t work_id) {
    const std::uint64_t index = work_id & 0xffffU;
    if ((work_id & kControlBit) != 0 || index >= born_) return nullptr;
    Request& request = at(index);
    return request.in_use && request.generation == work_id >> 16U ? &request : nullptr;
  }

  template <typename Action>
  void for_each_in_use(Action action) {
    for (std::size_t index = 0; index < born_; ++index) {
      if (at(index).in_use) action(at(index));
    }
  }

 private:
  /// Makes one more request, which is free.
  [[gnu::cold, gnu::noinline]] void bear();
  Request& at(std::size_t index) { return *std::launder(reinterpret_cast<Request*>(storage_) + index); }

  Endpoint* owner_;
  // Requests are constructed when they are first needed, and the free ones form a stack: a connection with few requests
  // in flight touches little memory.
  alignas(Request) std::byte storage_[kRequests * sizeof(Request)];
  std::uint16_t free_[kRequests];
  std::size_t free_count_ = 0;
  std::size_t born_ = 0;
};

}  // namespace meshbed::net
