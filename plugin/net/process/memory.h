#pragma once
// The result of regMr() and regMrDmaBuf(): a user's share in a registration. Requests in flight hold it too, so that
// deregMr() under traffic is safe: the memory stays registered until the last of them has ended.
//
// The CPU never accesses a GPU's memory: no work request sends it inline, which would copy it, and received bytes are
// flushed before the GPU reads them (flusher.h).

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/base/log.h"
#include "plugin/net/process/object.h"
#include "plugin/verbs/device.h"

namespace meshbed::net {

enum class MemoryKind : std::uint8_t { kHost, kDevice };

class Memory : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kMemory;

  /// `registration` is one of `data` and `size_bytes`, on `device`.
  Memory(verbs::Device& device, verbs::Registration* registration, void* data, std::size_t size_bytes, MemoryKind kind)
      : Object(kKind),
        device_(&device),
        registration_(registration),
        data_(data),
        size_bytes_(size_bytes),
        is_device_(kind == MemoryKind::kDevice) {}
  /// For TCP, which copies: nothing is registered.
  Memory(void* data, std::size_t size_bytes) : Object(kKind), data_(data), size_bytes_(size_bytes) {}

  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  /// The last holder frees the object.
  void drop() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) free_itself();
  }
  /// deregMr(): the user must not use it again.
  void release() {
    bury();
    drop();
  }

  /// nullptr: it serves TCP only.
  const verbs::Device* device() const { return device_; }
  /// deregMr() was called: the owner may have freed the bytes. TCP must not use them then; registered memory may be
  /// used.
  bool is_released() const { return !is(kKind); }
  /// Whether it is GPU memory.
  bool is_device() const { return is_device_; }
  /// The registration on `device`; made now if there is none, for a connection that goes on over another device.
  /// nullptr: it cannot be made, and the reason is logged. Any thread.
  const verbs::Registration* on(verbs::Device& device) {
    return &device == device_ ? registration_ : elsewhere(device);
  }
  /// After on() returned nullptr: the memory, the NIC and the reason, for an error text.
  std::string problem_on(const verbs::Device& device) {
    const std::lock_guard lock(mutex_);
    for (const Elsewhere& other : elsewhere_) {
      if (other.device == &device) return text() + " cannot be used by " + device.name() + ": " + other.problem;
    }
    return "";
  }
  /// By the range that the user registered; a registration shared with others may cover more.
  bool covers(const void* data, std::size_t size_bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(data), first = reinterpret_cast<std::uintptr_t>(data_);
    return at >= first && at - first <= size_bytes_ && size_bytes <= size_bytes_ - (at - first);
  }

 private:
  struct Elsewhere {
    verbs::Device* device = nullptr;
    verbs::Registration* registration = nullptr;
    std::string problem{};  // why there is none
  };
  ~Memory() = default;
  /// Out of line: drop() is called for each message, and this once.
  [[gnu::cold, gnu::noinline]] void free_itself() {
    if (device_ != nullptr) device_->registrations().release(registration_);
    for (const Elsewhere& other : elsewhere_) {
      if (other.registration != nullptr) other.device->registrations().release(other.registration);
    }
    delete this;
  }

  /// "the memory of 4096 bytes at 0x7f0012345000"
  std::string text() const {
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(), "the %s of %zu bytes at %p", is_device_ ? "GPU memory" : "memory",
                  size_bytes_, data_);
    return text.data();
  }

  const verbs::Registration* elsewhere(verbs::Device& device) {
    const std::lock_guard lock(mutex_);
    for (const Elsewhere& other : elsewhere_) {
      if (other.device == &device) return other.registration;
    }
    auto registration = acquire_on(device);
    // A failure is recorded too, so that it is tried and logged once.
    elsewhere_.push_back({.device = &device, .registration = registration ? *registration : nullptr});
    if (!registration) {
      elsewhere_.back().problem = registration.error().text;
      MESHBED_WARN("%s: %s", device.name().c_str(), registration.error().text.c_str());
    }
    return elsewhere_.back().registration;
  }

  Result<verbs::Registration*> acquire_on(verbs::Device& device) const {
    if (!registration_->of_dma_buf) return device.registrations().acquire(data_, size_bytes_);
    if (registration_->dma_buf.number() < 0) {
      return Error{.code = ErrorCode::kUnsupported,
                   .scope = Scope::kQueuePair,
                   .text = "GPU memory cannot be registered on a second device: no descriptor of its dma-buf was kept",
                   .os_errno = 0};
    }
    const std::uint64_t from_start = reinterpret_cast<std::uintptr_t>(data_) - registration_->start;
    const verbs::DmaBuf source{.descriptor = registration_->dma_buf.number(),
                               .offset_bytes = registration_->offset_bytes + from_start};
    return device.registrations().acquire(data_, size_bytes_, source, true);
  }

  verbs::Device* device_ = nullptr;
  verbs::Registration* registration_ = nullptr;
  void* data_;
  std::size_t size_bytes_;
  bool is_device_ = false;
  std::mutex mutex_;  // guards elsewhere_
  std::vector<Elsewhere> elsewhere_;
  std::atomic<std::uint32_t> holders_{1};  // the user's
};

}  // namespace meshbed::net
