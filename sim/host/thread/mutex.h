#pragma once
// Mutexes of ranks. A pthread_mutex_t is 40 bytes that are the rank's own: SimMutex lies in it, laid out so that
// glibc's static initialisers (all zero, or a kind at byte 16) mean an unlocked mutex of that kind.

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "sim/host/thread/wait_queue.h"

namespace meshbed::sim {

struct SimMutex {
  std::uint32_t locked;
  std::uint32_t depth;   // of a recursive mutex: locks beyond the first
  std::int32_t owner;    // Thread::id()
  std::uint32_t number;  // when it has been polled; 0: not yet
  std::int32_t kind;     // PTHREAD_MUTEX_*; glibc's word
  std::uint32_t unused2;
  WaitQueue waiters;
};
static_assert(offsetof(SimMutex, kind) == offsetof(pthread_mutex_t, __data.__kind));
static_assert(sizeof(SimMutex) <= sizeof(pthread_mutex_t));

inline SimMutex& sim_mutex(pthread_mutex_t* mutex) { return *reinterpret_cast<SimMutex*>(mutex); }

/// 0, EDEADLK, ETIMEDOUT: as pthread_mutex_timedlock. kForever: no deadline.
int lock_mutex(SimMutex& mutex, Picoseconds deadline);
/// 0 or EPERM: as pthread_mutex_unlock. Hands the mutex to the thread that has waited longest.
int unlock_mutex(SimMutex& mutex);

}  // namespace meshbed::sim
