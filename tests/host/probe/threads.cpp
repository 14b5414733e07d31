#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/host/probe/parts.h"

namespace probe {
namespace {

using namespace std::chrono_literals;

int count_with_threads(int count, int rounds) {
  static std::mutex mutex;  // statically initialised
  int total = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        const std::lock_guard lock(mutex);
        const int seen = total;
        std::this_thread::sleep_for(1us);  // the others run now; one that could enter would lose our increment
        total = seen + 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return total;
}

int queue_sum(int items) {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> queue;
  int sum = 0;
  std::thread consumer([&] {
    for (int taken = 0; taken < items; ++taken) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !queue.empty(); });
      sum += queue.front();
      queue.pop_front();
    }
  });
  for (int item = 1; item <= items; ++item) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(item);
    }
    changed.notify_one();
    if (item % 3 == 0) std::this_thread::sleep_for(1us);
  }
  consumer.join();
  return sum;
}

ProbeOutcome wait_on_condition(int timeout_ms) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const std::int64_t begin = now_ns();
  const auto status = never.wait_for(lock, std::chrono::milliseconds(timeout_ms));
  return {status == std::cv_status::timeout ? ETIMEDOUT : 0, now_ns() - begin};
}

ProbeOutcome lock_held_mutex(int timeout_ms) {
  std::timed_mutex mutex;
  mutex.lock();
  ProbeOutcome outcome{};
  std::thread other([&] {
    const std::int64_t begin = now_ns();
    const bool locked = mutex.try_lock_for(std::chrono::milliseconds(timeout_ms));
    outcome = {locked ? 0 : ETIMEDOUT, now_ns() - begin};
  });
  other.join();
  mutex.unlock();
  return outcome;
}

int lock_order(int count, int* order) {
  std::mutex mutex;
  int next = 0;
  mutex.lock();
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      const std::lock_guard lock(mutex);
      order[next++] = index;
    });
    std::this_thread::sleep_for(1us);  // it waits before the next one starts
  }
  mutex.unlock();
  for (auto& thread : threads) thread.join();
  return next;
}

int create_thread() {
  pthread_t thread{};
  const auto nothing = [](void*) -> void* { return nullptr; };
  const int answer = ::pthread_create(&thread, nullptr, nothing, nullptr);
  if (answer == 0) ::pthread_join(thread, nullptr);
  return answer;
}

int mutex_errors() {
  int wrong = 0;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutex_t mutex;
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&mutex, &attributes);
  wrong += pthread_mutex_unlock(&mutex) == EPERM ? 0 : 1;
  wrong += pthread_mutex_lock(&mutex) == 0 ? 0 : 1;
  wrong += pthread_mutex_lock(&mutex) == EDEADLK ? 0 : 1;
  wrong += pthread_mutex_trylock(&mutex) == EBUSY ? 0 : 1;
  wrong += pthread_mutex_destroy(&mutex) == EBUSY ? 0 : 1;
  wrong += pthread_mutex_unlock(&mutex) == 0 ? 0 : 1;
  wrong += pthread_mutex_destroy(&mutex) == 0 ? 0 : 1;
  pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  for (int depth = 0; depth < 3; ++depth) wrong += pthread_mutex_lock(&recursive) == 0 ? 0 : 1;
  wrong += pthread_mutex_trylock(&recursive) == 0 ? 0 : 1;
  std::thread([&] { wrong += pthread_mutex_trylock(&recursive) == EBUSY ? 0 : 1; }).join();
  for (int depth = 0; depth < 4; ++depth) wrong += pthread_mutex_unlock(&recursive) == 0 ? 0 : 1;
  std::thread([&] { wrong += pthread_mutex_trylock(&recursive) == 0 ? 0 : 1; }).join();
  return wrong;
}

int thread_data(int count) {
  static std::atomic<int> destroyed;
  destroyed = 0;
  pthread_key_t key{};
  pthread_key_create(&key, [](void*) { ++destroyed; });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&] {
      int own = 0;
      if (pthread_getspecific(key) != nullptr) ++wrong;
      pthread_setspecific(key, &own);
      std::this_thread::sleep_for(1us);
      if (pthread_getspecific(key) != &own) ++wrong;
    });
  }
  for (auto& thread : threads) thread.join();
  return wrong + (destroyed == count ? 0 : 1);
}

struct Counted {
  ~Counted() { ++destroyed; }
  int value = 5;
  static inline int destroyed = 0;
};

thread_local Counted counted;

int thread_locals(int count) {
  Counted::destroyed = 0;
  int wrong = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      wrong += counted.value == 5 ? 0 : 1;
      counted.value = index;
      try {
        throw index;
      } catch (int caught) {
        std::this_thread::sleep_for(1us);  // the others throw and catch in the meantime
        wrong += caught == index && counted.value == index ? 0 : 1;
        try {
          throw;
        } catch (int again) {
          wrong += again == index ? 0 : 1;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return wrong + (Counted::destroyed == count ? 0 : 1);
}

struct SlowToMake {
  SlowToMake() {
    std::this_thread::sleep_for(5us);
    ++made;
  }
  static inline int made = 0;
};

int once_runs(int count) {
  std::once_flag flag;
  int runs = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&] {
      std::call_once(flag, [&] {
        std::this_thread::sleep_for(5us);
        ++runs;
      });
      static const SlowToMake slow;  // others come while it is being made: libstdc++ waits on a raw futex
      static_cast<void>(slow);
    });
  }
  for (auto& thread : threads) thread.join();
  return runs * 10 + SlowToMake::made;
}

int semaphores_and_barriers() {
  int wrong = 0;
  sem_t semaphore;
  sem_init(&semaphore, 0, 1);
  wrong += sem_trywait(&semaphore) == 0 ? 0 : 1;
  wrong += sem_trywait(&semaphore) == -1 && errno == EAGAIN ? 0 : 1;
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  const std::int64_t begin = now_ns();
  wrong += sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT ? 0 : 1;
  wrong += now_ns() - begin == 2'000'000'000 ? 0 : 1;
  std::thread poster([&] { sem_post(&semaphore); });
  wrong += sem_wait(&semaphore) == 0 ? 0 : 1;
  poster.join();

  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, 3);
  std::atomic<int> before = 0, serial = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) {
    threads.emplace_back([&, index] {
      std::this_thread::sleep_for(std::chrono::microseconds(index));
      ++before;
      if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) ++serial;
      wrong += before == 3 ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  return wrong + (serial == 1 ? 0 : 1);
}

int readers_and_writers() {
  static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  int wrong = 0, readers = 0, writers = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < 8; ++index) {
    const bool writes = index % 3 == 2;
    threads.emplace_back([&, writes] {
      for (int round = 0; round < 5; ++round) {
        writes ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock);
        ++(writes ? writers : readers);
        if (writers > 1 || (writers == 1 && readers > 0)) ++wrong;
        std::this_thread::sleep_for(1us);
        --(writes ? writers : readers);
        pthread_rwlock_unlock(&lock);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return wrong;
}

void cross_locks() {
  static std::mutex left, right;
  std::thread other([] {
    const std::lock_guard first(right);
    std::this_thread::sleep_for(1us);
    const std::lock_guard second(left);
  });
  const std::lock_guard first(left);
  std::this_thread::sleep_for(1us);
  const std::lock_guard second(right);
  other.join();
}

int poll_shared_flag() {
  std::mutex mutex;
  bool flag = false;
  const auto poll = [&] {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (flag) return;
      }
      sched_yield();
    }
  };
  std::thread first(poll), second(poll);
  std::this_thread::sleep_for(1s);
  {
    const std::lock_guard lock(mutex);
    flag = true;
  }
  first.join();
  second.join();
  return 1;
}

int atomic_wait() {
  std::atomic<int> value = 0;
  std::thread setter([&] {
    std::this_thread::sleep_for(1ms);
    value = 7;
    value.notify_all();
  });
  value.wait(0);
  setter.join();
  return value;
}

}  // namespace

void add_threads(ProbeTable& table) {
  table.count_with_threads = &count_with_threads;
  table.queue_sum = &queue_sum;
  table.wait_on_condition = &wait_on_condition;
  table.lock_held_mutex = &lock_held_mutex;
  table.lock_order = &lock_order;
  table.create_thread = &create_thread;
  table.mutex_errors = &mutex_errors;
  table.thread_data = &thread_data;
  table.thread_locals = &thread_locals;
  table.once_runs = &once_runs;
  table.semaphores_and_barriers = &semaphores_and_barriers;
  table.readers_and_writers = &readers_and_writers;
  table.cross_locks = &cross_locks;
  table.poll_shared_flag = &poll_shared_flag;
  table.atomic_wait = &atomic_wait;
}

}  // namespace probe
