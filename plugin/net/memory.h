#pragma once
// What regMr() hands out: a user's share in a registration. Requests in flight hold it too, so that deregMr() under
// traffic is safe: the memory stays registered until the last of them has ended.

#include <atomic>

#include "plugin/net/object.h"
#include "plugin/verbs/device.h"

namespace meshbed::net {

class Memory : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kMemory;

  Memory(verbs::Device& device, verbs::Registration* registration)
      : Object(kKind), device_(device), registration_(registration) {}

  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  /// The last one to let go frees the object.
  void drop() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    device_.registrations().release(registration_);
    delete this;
  }
  /// deregMr(): the user is done with it, and must not name it again.
  void release() {
    bury();
    drop();
  }

  const verbs::Device* device() const { return &device_; }
  std::uint32_t lkey() const { return registration_->lkey(); }
  std::uint32_t rkey() const { return registration_->rkey(); }
  bool covers(const void* data, std::size_t size_bytes) const { return registration_->covers(data, size_bytes); }

 private:
  ~Memory() = default;

  verbs::Device& device_;
  verbs::Registration* registration_;
  std::atomic<std::uint32_t> holders_{1};  // the user's
};

}  // namespace meshbed::net
