#include "sim/engine/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(start, end) 0
#endif

#include "plugin/base/check.h"

namespace meshbed::sim {

namespace context = boost::context::detail;

namespace {

std::size_t pages_of(std::size_t bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

StackPool::StackPool(const Options& options)
    : stack_bytes_(pages_of(options.stack_bytes)),
      guard_bytes_(options.guarded ? pages_of(guard_bytes(stack_bytes_)) : 0) {}

std::byte* StackPool::take() {
  if (!free_.empty()) {
    std::byte* top = free_.back();
    free_.pop_back();
    return top;
  }
  const std::size_t bytes = stack_bytes_ + guard_bytes_;
  // Without access at first: what is writable counts against the machine's memory where that is not overcommitted.
  void* mapped = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap of a simulated thread's stack");
  // Stacks that lie side by side must not become huge pages: most of a stack is never touched.
  ::madvise(mapped, bytes, MADV_NOHUGEPAGE);
  if (::mprotect(static_cast<std::byte*>(mapped) + guard_bytes_, stack_bytes_, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    ::munmap(mapped, bytes);
    throw std::system_error(error, std::generic_category(), "mprotect of a simulated thread's stack");
  }
  auto* bottom = static_cast<std::byte*>(mapped) + guard_bytes_;
  static_cast<void>(VALGRIND_STACK_REGISTER(bottom, bottom + stack_bytes_));
  return bottom + stack_bytes_;
}

Fiber::Fiber(StackPool& stacks, std::function<void()> body)
    : stacks_(stacks),
      top_(stacks.take()),
      body_(std::move(body)),
      inside_(context::make_fcontext(top_, stacks.stack_bytes(), &Fiber::begin)) {}

Fiber::~Fiber() { stacks_.give(top_); }

void Fiber::begin(context::transfer_t entered) {
  Fiber& self = *static_cast<Fiber*>(entered.data);
  self.outside_ = entered.fctx;
  self.body_();
  self.body_ = nullptr;
  self.ended_ = true;
  self.leave();
  MESHBED_CHECK_MSG(false, "a fiber that has ended was entered");
  __builtin_unreachable();
}

void Fiber::enter() { inside_ = context::jump_fcontext(inside_, this).fctx; }

void Fiber::leave() { outside_ = context::jump_fcontext(outside_, nullptr).fctx; }

}  // namespace meshbed::sim
