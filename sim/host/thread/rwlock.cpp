// Read-write locks of ranks. Writers go first: a reader waits where a writer holds the lock or waits for it, and an
// unlock hands the lock to the first waiting writer, else to all waiting readers.
#include <pthread.h>

#include <array>
#include <cerrno>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/thread/clocks.h"

namespace meshbed::sim {
namespace {

struct SimRwlock {
  std::int32_t readers;
  std::int32_t writer;  // Thread::id(); 0: none
  WaitQueue waiting_readers;
  WaitQueue waiting_writers;
};
static_assert(sizeof(SimRwlock) <= sizeof(pthread_rwlock_t));

SimRwlock& sim_rwlock(pthread_rwlock_t* lock) { return *reinterpret_cast<SimRwlock*>(lock); }

bool readable(const SimRwlock& lock) { return lock.writer == 0 && lock.waiting_writers.empty(); }
bool writable(const SimRwlock& lock) { return lock.writer == 0 && lock.readers == 0; }

void admit_readers(SimRwlock& lock) {
  while (wake_one(lock.waiting_readers)) ++lock.readers;
}

int read_lock(SimRwlock& lock, Picoseconds deadline) {
  if (lock.writer == World::current()->id()) return EDEADLK;
  if (readable(lock)) {
    ++lock.readers;
    return 0;
  }
  return wait_in(lock.waiting_readers, {.what = "pthread_rwlock_rdlock"}, deadline) ? 0 : ETIMEDOUT;
}

int write_lock(SimRwlock& lock, Picoseconds deadline) {
  if (lock.writer == World::current()->id()) return EDEADLK;
  if (writable(lock)) {
    lock.writer = World::current()->id();
    return 0;
  }
  if (wait_in(lock.waiting_writers, {.what = "pthread_rwlock_wrlock"}, deadline)) return 0;
  if (readable(lock)) admit_readers(lock);  // they waited for this writer only
  return ETIMEDOUT;
}

int rwlock_init(pthread_rwlock_t* lock, const pthread_rwlockattr_t* attributes) {
  if (outside()) return ::pthread_rwlock_init(lock, attributes);
  *lock = {};
  return 0;
}

int rwlock_destroy(pthread_rwlock_t* lock) {
  if (outside()) return ::pthread_rwlock_destroy(lock);
  return writable(sim_rwlock(lock)) ? 0 : EBUSY;
}

int rwlock_rdlock(pthread_rwlock_t* lock) {
  return outside() ? ::pthread_rwlock_rdlock(lock) : read_lock(sim_rwlock(lock), kForever);
}

int rwlock_wrlock(pthread_rwlock_t* lock) {
  return outside() ? ::pthread_rwlock_wrlock(lock) : write_lock(sim_rwlock(lock), kForever);
}

int rwlock_tryrdlock(pthread_rwlock_t* lock) {
  if (outside()) return ::pthread_rwlock_tryrdlock(lock);
  return readable(sim_rwlock(lock)) ? read_lock(sim_rwlock(lock), kForever) : EBUSY;
}

int rwlock_trywrlock(pthread_rwlock_t* lock) {
  if (outside()) return ::pthread_rwlock_trywrlock(lock);
  return writable(sim_rwlock(lock)) ? write_lock(sim_rwlock(lock), kForever) : EBUSY;
}

int rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
  if (outside()) return ::pthread_rwlock_clockrdlock(lock, clock, until);
  const auto deadline = deadline_of(clock, *until);
  return deadline ? read_lock(sim_rwlock(lock), *deadline) : EINVAL;
}

int rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
  if (outside()) return ::pthread_rwlock_clockwrlock(lock, clock, until);
  const auto deadline = deadline_of(clock, *until);
  return deadline ? write_lock(sim_rwlock(lock), *deadline) : EINVAL;
}

int rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* until) {
  return outside() ? ::pthread_rwlock_timedrdlock(lock, until) : rwlock_clockrdlock(lock, CLOCK_REALTIME, until);
}

int rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* until) {
  return outside() ? ::pthread_rwlock_timedwrlock(lock, until) : rwlock_clockwrlock(lock, CLOCK_REALTIME, until);
}

int rwlock_unlock(pthread_rwlock_t* lock) {
  if (outside()) return ::pthread_rwlock_unlock(lock);
  SimRwlock& sim = sim_rwlock(lock);
  if (sim.writer != 0) {
    sim.writer = 0;
  } else {
    --sim.readers;
  }
  if (sim.readers == 0 && !sim.waiting_writers.empty()) {
    sim.writer = first_waiter(sim.waiting_writers).id();
    wake_one(sim.waiting_writers);
  } else if (sim.waiting_writers.empty()) {
    admit_readers(sim);
  }
  tell_pollers();
  return 0;
}

}  // namespace

std::span<const Redirection> rwlock_redirections() {
  static const std::array table{
      redirect("pthread_rwlock_init", &rwlock_init),
      redirect("pthread_rwlock_destroy", &rwlock_destroy),
      redirect("pthread_rwlock_rdlock", &rwlock_rdlock),
      redirect("pthread_rwlock_wrlock", &rwlock_wrlock),
      redirect("pthread_rwlock_tryrdlock", &rwlock_tryrdlock),
      redirect("pthread_rwlock_trywrlock", &rwlock_trywrlock),
      redirect("pthread_rwlock_clockrdlock", &rwlock_clockrdlock),
      redirect("pthread_rwlock_clockwrlock", &rwlock_clockwrlock),
      redirect("pthread_rwlock_timedrdlock", &rwlock_timedrdlock),
      redirect("pthread_rwlock_timedwrlock", &rwlock_timedwrlock),
      redirect("pthread_rwlock_unlock", &rwlock_unlock),
  };
  return table;
}

}  // namespace meshbed::sim
