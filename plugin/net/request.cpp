#include "plugin/net/request.h"

#include "plugin/base/check.h"

namespace meshbed::net {

Request& RequestPool::take() {
  MESHBED_CHECK(!empty());
  if (free_count_ == 0) {
    Request* newborn = new (storage_ + born_ * sizeof(Request)) Request;
    newborn->connection = owner_;
    newborn->index = static_cast<std::uint16_t>(born_);
    free_[free_count_++] = newborn->index;
    ++born_;
  }
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

void RequestPool::give_back(Request& request) {
  MESHBED_CHECK(request.in_use);
  request.in_use = false;
  request.bury();
  free_[free_count_++] = request.index;
}

Request* RequestPool::find(std::uint64_t work_id) {
  const std::uint64_t index = work_id & 0xffffU;
  if ((work_id & kControlBit) != 0 || index >= born_) return nullptr;
  Request& request = at(index);
  return request.in_use && request.generation == work_id >> 16U ? &request : nullptr;
}

}  // namespace meshbed::net
