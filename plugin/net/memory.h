#pragma once
// What regMr() hands out: a user's share in a registration. Requests in flight hold it too, so that deregMr() under
// traffic is safe: the memory stays registered until the last of them has ended.

#include <atomic>
#include <mutex>
#include <vector>

#include "plugin/base/log.h"
#include "plugin/net/object.h"
#include "plugin/verbs/device.h"

namespace meshbed::net {

class Memory : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kMemory;

  /// `registration` is one of `data` and `size_bytes`, on `device`.
  Memory(verbs::Device& device, verbs::Registration* registration, void* data, std::size_t size_bytes)
      : Object(kKind), device_(device), registration_(registration), data_(data), size_bytes_(size_bytes) {}

  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  /// The last one to let go frees the object.
  void drop() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    device_.registrations().release(registration_);
    for (const Elsewhere& other : elsewhere_) other.device->registrations().release(other.registration);
    delete this;
  }
  /// deregMr(): the user is done with it, and must not name it again.
  void release() {
    bury();
    drop();
  }

  const verbs::Device* device() const { return &device_; }
  /// The registration on `device`: made now where there is none, for a connection that goes on over another one.
  /// nullptr: it cannot be made, and the reason is logged. Any thread.
  const verbs::Registration* on(verbs::Device& device) {
    return &device == &device_ ? registration_ : elsewhere(device);
  }
  /// What the user registered, not what a registration that is shared with others happens to cover.
  bool covers(const void* data, std::size_t size_bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(data), first = reinterpret_cast<std::uintptr_t>(data_);
    return at >= first && at - first <= size_bytes_ && size_bytes <= size_bytes_ - (at - first);
  }

 private:
  struct Elsewhere {
    verbs::Device* device = nullptr;
    verbs::Registration* registration = nullptr;
  };
  ~Memory() = default;

  const verbs::Registration* elsewhere(verbs::Device& device) {
    const std::lock_guard lock(mutex_);
    for (const Elsewhere& other : elsewhere_) {
      if (other.device == &device) return other.registration;
    }
    auto registration = device.registrations().acquire(data_, size_bytes_);
    if (!registration) {
      MESHBED_WARN("%s: %s", device.name().c_str(), registration.error().text.c_str());
      return nullptr;
    }
    elsewhere_.push_back({&device, *registration});
    return *registration;
  }

  verbs::Device& device_;
  verbs::Registration* registration_;
  void* data_;
  std::size_t size_bytes_;
  std::mutex mutex_;  // guards elsewhere_
  std::vector<Elsewhere> elsewhere_;
  std::atomic<std::uint32_t> holders_{1};  // the user's
};

}  // namespace meshbed::net
