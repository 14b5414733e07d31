// Condition variables of ranks. Like SimMutex, SimCondition lies in the rank's own pthread_cond_t, where all zero is an
// unused condition on CLOCK_REALTIME.
#include <pthread.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/thread/clocks.h"
#include "sim/host/thread/mutex.h"

namespace meshbed::sim {
namespace {

struct SimCondition {
  WaitQueue waiters;
  clockid_t clock;
};
static_assert(sizeof(SimCondition) <= sizeof(pthread_cond_t));
static_assert(CLOCK_REALTIME == 0);

SimCondition& sim_condition(pthread_cond_t* condition) { return *reinterpret_cast<SimCondition*>(condition); }

int wait_for_condition(SimCondition& condition, SimMutex& mutex, Picoseconds deadline) {
  const std::uint32_t depth = std::exchange(mutex.depth, 0);  // a recursive mutex is released completely
  const Waiter waiter(condition.waiters, *World::current());
  if (const int error = unlock_mutex(mutex); error != 0) {
    mutex.depth = depth;
    return error;
  }
  bool in_time = true;
  while (!waiter.woken() && in_time) {
    wait_any({.what = "pthread_cond_wait"}, deadline);
    in_time = World::get().now() < deadline;
  }
  lock_mutex(mutex, kForever);
  mutex.depth = depth;
  return waiter.woken() ? 0 : ETIMEDOUT;
}

int cond_init(pthread_cond_t* condition, const pthread_condattr_t* attributes) {
  if (outside()) return ::pthread_cond_init(condition, attributes);
  clockid_t clock = CLOCK_REALTIME;
  if (attributes != nullptr) ::pthread_condattr_getclock(attributes, &clock);
  *condition = {};
  sim_condition(condition).clock = clock;
  return 0;
}

int cond_destroy(pthread_cond_t* condition) {
  if (outside()) return ::pthread_cond_destroy(condition);
  if (!sim_condition(condition).waiters.empty()) return EBUSY;
  *condition = {};
  return 0;
}

int cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (outside()) return ::pthread_cond_wait(condition, mutex);
  return wait_for_condition(sim_condition(condition), sim_mutex(mutex), kForever);
}

int cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (outside()) return ::pthread_cond_clockwait(condition, mutex, clock, until);
  const auto deadline = deadline_of(clock, *until);
  return deadline ? wait_for_condition(sim_condition(condition), sim_mutex(mutex), *deadline) : EINVAL;
}

int cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  if (outside()) return ::pthread_cond_timedwait(condition, mutex, until);
  return cond_clockwait(condition, mutex, sim_condition(condition).clock, until);
}

int cond_signal(pthread_cond_t* condition) {
  if (outside()) return ::pthread_cond_signal(condition);
  wake_one(sim_condition(condition).waiters);
  return 0;
}

int cond_broadcast(pthread_cond_t* condition) {
  if (outside()) return ::pthread_cond_broadcast(condition);
  wake_all(sim_condition(condition).waiters);
  return 0;
}

}  // namespace

std::span<const Redirection> condition_redirections() {
  static const std::array table{
      redirect("pthread_cond_init", &cond_init),           redirect("pthread_cond_destroy", &cond_destroy),
      redirect("pthread_cond_wait", &cond_wait),           redirect("pthread_cond_timedwait", &cond_timedwait),
      redirect("pthread_cond_clockwait", &cond_clockwait), redirect("pthread_cond_signal", &cond_signal),
      redirect("pthread_cond_broadcast", &cond_broadcast),
  };
  return table;
}

}  // namespace meshbed::sim
