#include "plugin/net/request.h"

#include "plugin/base/check.h"

namespace meshbed::net {

RequestPool::RequestPool(Connection* owner) {
  for (std::size_t index = 0; index < kRequests; ++index) {
    requests_[index].connection = owner;
    requests_[index].index = static_cast<std::uint16_t>(index);
    free_[index] = static_cast<std::uint16_t>(kRequests - 1 - index);
  }
}

Request& RequestPool::take() {
  MESHBED_CHECK(free_count_ > 0);
  Request& request = requests_[free_[--free_count_]];
  request.revive(ObjectKind::kRequest);
  ++request.generation;
  request.in_use = true;
  request.done = false;
  request.reported = false;
  request.memory = nullptr;
  request.parts = 1;
  return request;
}

void RequestPool::give_back(Request& request) {
  MESHBED_CHECK(request.in_use);
  request.in_use = false;
  request.bury();
  free_[free_count_++] = request.index;
}

Request* RequestPool::find(std::uint64_t work_id) {
  const std::uint64_t index = work_id & 0xffffU;
  if ((work_id & kControlBit) != 0 || index >= kRequests) return nullptr;
  Request& request = requests_[index];
  return request.in_use && request.generation == work_id >> 16U ? &request : nullptr;
}

}  // namespace meshbed::net
