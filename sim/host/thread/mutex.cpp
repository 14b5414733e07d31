#include "sim/host/thread/mutex.h"

#include <array>
#include <cerrno>
#include <ctime>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/thread/clocks.h"

namespace meshbed::sim {
namespace {

std::string describe_mutex(std::uint64_t object) {
  return "a mutex that thread " + std::to_string(reinterpret_cast<const SimMutex*>(object)->owner) + " holds";
}

bool checks_owner(const SimMutex& mutex) {
  return mutex.kind == PTHREAD_MUTEX_RECURSIVE || mutex.kind == PTHREAD_MUTEX_ERRORCHECK;
}

int mutex_init(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
  if (outside()) return ::pthread_mutex_init(mutex, attributes);
  int kind = PTHREAD_MUTEX_DEFAULT;
  if (attributes != nullptr) ::pthread_mutexattr_gettype(attributes, &kind);
  *mutex = {};
  sim_mutex(mutex).kind = kind;
  return 0;
}

int mutex_destroy(pthread_mutex_t* mutex) {
  if (outside()) return ::pthread_mutex_destroy(mutex);
  if (sim_mutex(mutex).locked != 0) return EBUSY;
  *mutex = {};
  return 0;
}

int mutex_lock(pthread_mutex_t* mutex) {
  return outside() ? ::pthread_mutex_lock(mutex) : lock_mutex(sim_mutex(mutex), kForever);
}

int mutex_trylock(pthread_mutex_t* mutex) {
  if (outside()) return ::pthread_mutex_trylock(mutex);
  SimMutex& sim = sim_mutex(mutex);
  const bool again = sim.locked != 0 && sim.kind == PTHREAD_MUTEX_RECURSIVE && sim.owner == World::current()->id();
  if (sim.locked == 0 || again) return lock_mutex(sim, kForever);
  World::get().spin(
      {"pthread_mutex_t", number_in(sim.number)},
      {.what = "pthread_mutex_trylock", .object = reinterpret_cast<std::uint64_t>(&sim), .describe = &describe_mutex});
  return sim.locked == 0 ? lock_mutex(sim, kForever) : EBUSY;
}

int mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (outside()) return ::pthread_mutex_clocklock(mutex, clock, until);
  const auto deadline = deadline_of(clock, *until);
  return deadline ? lock_mutex(sim_mutex(mutex), *deadline) : EINVAL;
}

int mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  return outside() ? ::pthread_mutex_timedlock(mutex, until) : mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

int mutex_unlock(pthread_mutex_t* mutex) {
  return outside() ? ::pthread_mutex_unlock(mutex) : unlock_mutex(sim_mutex(mutex));
}

}  // namespace

int lock_mutex(SimMutex& mutex, Picoseconds deadline) {
  const int self = World::current()->id();
  if (mutex.locked == 0) {
    mutex.locked = 1;
    mutex.owner = self;
    return 0;
  }
  if (mutex.owner == self && mutex.kind == PTHREAD_MUTEX_RECURSIVE) {
    ++mutex.depth;
    return 0;
  }
  if (mutex.owner == self && mutex.kind == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
  const WaitNote note{
      .what = "pthread_mutex_lock", .object = reinterpret_cast<std::uint64_t>(&mutex), .describe = &describe_mutex};
  return wait_in(mutex.waiters, note, deadline) ? 0 : ETIMEDOUT;  // woken: unlock_mutex() made it ours
}

int unlock_mutex(SimMutex& mutex) {
  if (checks_owner(mutex) && (mutex.locked == 0 || mutex.owner != World::current()->id())) return EPERM;
  if (mutex.depth > 0) {
    --mutex.depth;
    return 0;
  }
  if (mutex.waiters.empty()) {
    mutex.locked = 0;
    mutex.owner = 0;
  } else {
    mutex.owner = first_waiter(mutex.waiters).id();
    wake_one(mutex.waiters);
  }
  tell_pollers();
  return 0;
}

std::span<const Redirection> mutex_redirections() {
  static const std::array table{
      redirect("pthread_mutex_init", &mutex_init),           redirect("pthread_mutex_destroy", &mutex_destroy),
      redirect("pthread_mutex_lock", &mutex_lock),           redirect("pthread_mutex_trylock", &mutex_trylock),
      redirect("pthread_mutex_clocklock", &mutex_clocklock), redirect("pthread_mutex_timedlock", &mutex_timedlock),
      redirect("pthread_mutex_unlock", &mutex_unlock),
  };
  return table;
}

}  // namespace meshbed::sim
