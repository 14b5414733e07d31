#include "plugin/net/link/request.h"

namespace meshbed::net {

void RequestPool::bear() {
  MESHBED_CHECK(!empty());
  Request* newborn = new (storage_ + born_ * sizeof(Request)) Request;
  newborn->connection = owner_;
  newborn->index = static_cast<std::uint16_t>(born_);
  free_[free_count_++] = newborn->index;
  ++born_;
}

}  // namespace meshbed::net
