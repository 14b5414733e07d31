#pragma once
// Fiber: a flow of control with a stack of its own, entered and left by a plain exchange of stacks (Boost.Context's
// fcontext, because boost::context::fiber would unwind the remaining stacks at the end of the world, in an undefined
// order).
//
// For worlds with a time of their own (the chunk fabric's): there SimGrid is not involved in a simulated thread's
// actions, and a switch through SimGrid's actors costs a thousand instructions and touches a dozen objects for each
// thread. An exchange of stacks costs twenty. Owned by its scheduler; entered from outside of any fiber. Not under
// sanitizers, which must know the stacks: there threads stay SimGrid's actors.

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <functional>
#include <vector>

namespace meshbed::sim {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kFibers = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kFibers = false;
#else
inline constexpr bool kFibers = true;
#endif
#else
inline constexpr bool kFibers = true;
#endif

/// A call with large variables must not reach past the guard, which costs addresses alone.
constexpr std::size_t guard_bytes(std::size_t stack_bytes) { return stack_bytes; }

/// Stacks of one size, reused last in, first out. A stack that was handed out once stays mapped as long as the process.
class StackPool {
 public:
  struct Options {
    std::size_t stack_bytes = 0;
    bool guarded = true;  // memory below each that must not be touched: two kernel mappings a stack
  };
  explicit StackPool(const Options& options);
  /// The stack's upper end. Throws std::system_error where there is no memory.
  std::byte* take();
  void give(std::byte* top) { free_.push_back(top); }
  std::size_t stack_bytes() const { return stack_bytes_; }

 private:
  std::size_t stack_bytes_, guard_bytes_;
  std::vector<std::byte*> free_;
};

class Fiber {
 public:
  /// `body` begins with the first enter(); nothing may be thrown out of it.
  Fiber(StackPool& stacks, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it leaves, or ends.
  void enter();
  /// From within: back to where it was entered.
  void leave();
  bool ended() const { return ended_; }
  /// It will be entered soon: has what it stands on fetched.
  void expect() const {
    for (std::size_t line = 0; line < kExpectedLines; ++line) {
      __builtin_prefetch(static_cast<const std::byte*>(inside_) + line * kLineBytes);
    }
  }

 private:
  static constexpr std::size_t kLineBytes = 64, kExpectedLines = 12;
  [[noreturn]] static void begin(boost::context::detail::transfer_t entered);

  StackPool& stacks_;
  std::byte* top_;
  std::function<void()> body_;
  boost::context::detail::fcontext_t inside_;             // while it is left
  boost::context::detail::fcontext_t outside_ = nullptr;  // the context that entered it
  bool ended_ = false;
};

}  // namespace meshbed::sim
