#pragma once
// Objects that cross the C ABI as void*. Each begins with a tag, so that a foreign, freed or swapped pointer is refused
// instead of followed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace meshbed::net {

enum class ObjectKind : std::uint16_t {
  kDead = 0,
  kContext,
  kListener,
  kSend,
  kReceive,
  kTcpSend,
  kTcpReceive,
  kRequest,
  kMemory,
  kTuner
};

class Object {
 public:
  explicit Object(ObjectKind kind) : tag_(kMagic | static_cast<std::uint64_t>(kind)) {}
  ~Object() { bury(); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  bool is(ObjectKind kind) const { return tag_ == (kMagic | static_cast<std::uint64_t>(kind)); }
  /// From now on every entry point refuses the object.
  void bury() { tag_ = kMagic; }
  /// For pooled objects, which are reused.
  void revive(ObjectKind kind) { tag_ = kMagic | static_cast<std::uint64_t>(kind); }

 private:
  static constexpr std::uint64_t kMagic = 0x4d4f424a'00000000ULL;  // "MOBJ"
  // Volatile, so that the store in the destructor is kept: it protects against stale pointers.
  volatile std::uint64_t tag_;
};

/// The memory of ended objects, so that a stale pointer finds a buried tag there. Only the latest ones are kept: a
/// stale pointer is used soon or never. For objects with a virtual destructor that `new` made. Any thread.
class Remains {
 public:
  Remains() = default;
  ~Remains() {
    for (void* memory : kept_) ::operator delete(memory);
  }
  Remains(const Remains&) = delete;
  Remains& operator=(const Remains&) = delete;

  template <typename T>
  void bury(T* object) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    void* const memory = dynamic_cast<void*>(object);
    object->~T();
    void* oldest = nullptr;
    {
      const std::lock_guard lock(mutex_);
      oldest = std::exchange(kept_[next_++ % kept_.size()], memory);
    }
    ::operator delete(oldest);
  }

 private:
  std::mutex mutex_;
  std::array<void*, 64> kept_{};
  std::size_t next_ = 0;
};

/// The T behind `pointer`, or nullptr if it is not a live T.
template <typename T>
T* object_cast(void* pointer) {
  auto* object = static_cast<Object*>(pointer);
  return object != nullptr && object->is(T::kKind) ? static_cast<T*>(object) : nullptr;
}

/// The pointer to return for an object, which object_cast() accepts.
template <typename T>
void* to_pointer(T* object) {
  return static_cast<Object*>(object);
}

}  // namespace meshbed::net
