// Unnamed semaphores, barriers and spin locks of ranks; each lies in the rank's own object.
#include <pthread.h>
#include <semaphore.h>

#include <array>
#include <cerrno>
#include <climits>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/thread/clocks.h"

namespace meshbed::sim {
namespace {

struct SimSemaphore {
  std::uint32_t value;
  std::uint32_t number;  // when it has been polled; 0: not yet
  WaitQueue waiters;
};
static_assert(sizeof(SimSemaphore) <= sizeof(sem_t));

struct SimBarrier {
  std::uint32_t count;
  std::uint32_t arrived;
  WaitQueue waiters;
};
static_assert(sizeof(SimBarrier) <= sizeof(pthread_barrier_t));

SimSemaphore& sim_semaphore(sem_t* semaphore) { return *reinterpret_cast<SimSemaphore*>(semaphore); }
/// Its lowest bit: it is locked. The rest: its number among polled things.
constexpr int kSpinLocked = 1;
bool is_locked(const volatile int& lock) { return (lock & kSpinLocked) != 0; }
Polled polled(const volatile int& lock) {
  return {"pthread_spinlock_t", static_cast<std::uint32_t>(lock | kSpinLocked)};
}

SimBarrier& sim_barrier(pthread_barrier_t* barrier) { return *reinterpret_cast<SimBarrier*>(barrier); }

int take(SimSemaphore& semaphore, Picoseconds deadline) {
  if (semaphore.value > 0) {
    --semaphore.value;
    return 0;
  }
  return wait_in(semaphore.waiters, {.what = "sem_wait"}, deadline) ? 0
                                                                    : fail(ETIMEDOUT);  // woken: one was handed over
}

int semaphore_init(sem_t* semaphore, int shared, unsigned value) {
  if (outside()) return ::sem_init(semaphore, shared, value);
  if (value > SEM_VALUE_MAX) return fail(EINVAL);
  *semaphore = {};
  sim_semaphore(semaphore).value = value;
  return 0;
}

int semaphore_destroy(sem_t* semaphore) {
  if (outside()) return ::sem_destroy(semaphore);
  *semaphore = {};
  return 0;
}

int semaphore_wait(sem_t* semaphore) {
  return outside() ? ::sem_wait(semaphore) : take(sim_semaphore(semaphore), kForever);
}

int semaphore_trywait(sem_t* semaphore) {
  if (outside()) return ::sem_trywait(semaphore);
  SimSemaphore& sim = sim_semaphore(semaphore);
  if (sim.value == 0) World::get().spin({"sem_t", number_in(sim.number)}, {.what = "sem_trywait"});
  return sim.value > 0 ? take(sim, kForever) : fail(EAGAIN);
}

int semaphore_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  if (outside()) return ::sem_clockwait(semaphore, clock, until);
  const auto deadline = deadline_of(clock, *until);
  return deadline ? take(sim_semaphore(semaphore), *deadline) : fail(EINVAL);
}

int semaphore_timedwait(sem_t* semaphore, const timespec* until) {
  return outside() ? ::sem_timedwait(semaphore, until) : semaphore_clockwait(semaphore, CLOCK_REALTIME, until);
}

int semaphore_post(sem_t* semaphore) {
  if (outside()) return ::sem_post(semaphore);
  SimSemaphore& sim = sim_semaphore(semaphore);
  if (sim.value == SEM_VALUE_MAX) return fail(EOVERFLOW);
  if (!wake_one(sim.waiters)) ++sim.value;
  tell_pollers();
  return 0;
}

int semaphore_getvalue(sem_t* semaphore, int* value) {
  if (outside()) return ::sem_getvalue(semaphore, value);
  *value = static_cast<int>(sim_semaphore(semaphore).value);
  return 0;
}

int barrier_init(pthread_barrier_t* barrier, const pthread_barrierattr_t* attributes, unsigned count) {
  if (outside()) return ::pthread_barrier_init(barrier, attributes, count);
  if (count == 0) return EINVAL;
  *barrier = {};
  sim_barrier(barrier).count = count;
  return 0;
}

int barrier_destroy(pthread_barrier_t* barrier) {
  if (outside()) return ::pthread_barrier_destroy(barrier);
  return sim_barrier(barrier).waiters.empty() ? 0 : EBUSY;
}

int barrier_wait(pthread_barrier_t* barrier) {
  if (outside()) return ::pthread_barrier_wait(barrier);
  SimBarrier& sim = sim_barrier(barrier);
  if (++sim.arrived < sim.count) {
    wait_in(sim.waiters, {.what = "pthread_barrier_wait"});
    return 0;
  }
  sim.arrived = 0;
  wake_all(sim.waiters);
  return PTHREAD_BARRIER_SERIAL_THREAD;
}

int spin_init(pthread_spinlock_t* lock, int shared) {
  if (outside()) return ::pthread_spin_init(lock, shared);
  *lock = static_cast<int>(static_cast<std::uint32_t>(World::get().new_number()) << 1U);
  return 0;
}

int spin_destroy(pthread_spinlock_t* lock) { return outside() ? ::pthread_spin_destroy(lock) : 0; }

int spin_lock(pthread_spinlock_t* lock) {
  if (outside()) return ::pthread_spin_lock(lock);
  while (is_locked(*lock)) World::get().spin(polled(*lock), {.what = "pthread_spin_lock"});
  *lock = *lock | kSpinLocked;
  return 0;
}

int spin_trylock(pthread_spinlock_t* lock) {
  if (outside()) return ::pthread_spin_trylock(lock);
  if (is_locked(*lock)) World::get().spin(polled(*lock), {.what = "pthread_spin_trylock"});
  if (is_locked(*lock)) return EBUSY;
  *lock = *lock | kSpinLocked;
  return 0;
}

int spin_unlock(pthread_spinlock_t* lock) {
  if (outside()) return ::pthread_spin_unlock(lock);
  *lock = *lock & ~kSpinLocked;
  tell_pollers();
  return 0;
}

}  // namespace

std::span<const Redirection> semaphore_redirections() {
  static const std::array table{
      redirect("sem_init", &semaphore_init),           redirect("sem_destroy", &semaphore_destroy),
      redirect("sem_wait", &semaphore_wait),           redirect("sem_trywait", &semaphore_trywait),
      redirect("sem_clockwait", &semaphore_clockwait), redirect("sem_timedwait", &semaphore_timedwait),
      redirect("sem_post", &semaphore_post),           redirect("sem_getvalue", &semaphore_getvalue),
      redirect("pthread_barrier_init", &barrier_init), redirect("pthread_barrier_destroy", &barrier_destroy),
      redirect("pthread_barrier_wait", &barrier_wait), redirect("pthread_spin_init", &spin_init),
      redirect("pthread_spin_destroy", &spin_destroy), redirect("pthread_spin_lock", &spin_lock),
      redirect("pthread_spin_trylock", &spin_trylock), redirect("pthread_spin_unlock", &spin_unlock),
  };
  return table;
}

}  // namespace meshbed::sim
