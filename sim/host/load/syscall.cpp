// Raw system calls of ranks. libstdc++ makes a few of its own (futexes behind std::atomic::wait and behind the guards
// of static locals); those have an answer, the others are refused: they would act on the simulator itself.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <ctime>

#include "plugin/base/log.h"
#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/randomness.h"
#include "sim/host/thread/clocks.h"

namespace meshbed::sim {
namespace {

long futex_wait(int* word, int operation, int expected, const timespec* timeout) {
  if (*word != expected) return fail(EAGAIN);
  Picoseconds deadline = kForever;
  if (timeout != nullptr) {
    // futex(2): FUTEX_WAIT takes a duration, FUTEX_WAIT_BITSET a time.
    const clockid_t clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    const bool absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    const auto limit = absolute ? deadline_of(clock, *timeout) : duration_of(*timeout);
    if (!limit) return fail(EINVAL);
    deadline = absolute ? *limit : deadline_after(*limit);
  }
  auto& waiters = current_state().futex_waiters;
  const bool woken = wait_in(waiters[word], {.what = "futex"}, deadline);
  if (const auto found = waiters.find(word); found != waiters.end() && found->second.empty()) waiters.erase(found);
  return woken ? 0 : fail(ETIMEDOUT);
}

long futex_wake(int* word, int count) {
  auto& waiters = current_state().futex_waiters;
  const auto found = waiters.find(word);
  long woken = 0;
  while (found != waiters.end() && woken < count && wake_one(found->second)) ++woken;
  tell_pollers();
  return woken;
}

long futex(int* word, int operation, int value, const timespec* timeout) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      return futex_wait(word, operation, value, timeout);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return futex_wake(word, value);
    default:
      MESHBED_WARN("futex operation %d is not simulated: ENOSYS", operation);
      return fail(ENOSYS);
  }
}

long raw_syscall(long number, ...) {
  std::array<long, 6> arguments{};
  std::va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (outside()) {
    return ::syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
  }
  switch (number) {
    case SYS_futex:
      return futex(reinterpret_cast<int*>(arguments[0]), static_cast<int>(arguments[1]), static_cast<int>(arguments[2]),
                   reinterpret_cast<const timespec*>(arguments[3]));
    case SYS_getrandom:
      fill_random(current_state(), reinterpret_cast<void*>(arguments[0]), static_cast<std::size_t>(arguments[1]));
      return arguments[1];
    case SYS_gettid:  // as programs for a glibc before 2.30 call it
      return static_cast<long>(current_thread_id());
    default:
      if (first_time(current_state(), "syscall " + std::to_string(number))) {
        MESHBED_WARN("%s: raw system call %ld is not simulated: ENOSYS", World::current_process()->name.c_str(),
                     number);
      }
      return fail(ENOSYS);
  }
}

}  // namespace

std::span<const Redirection> syscall_redirections() {
  static const std::array table{redirect("syscall", &raw_syscall)};
  return table;
}

}  // namespace meshbed::sim
