// What the shared libstdc++.so.6 does itself with libc's threads and clocks, for programs that are linked to it: those
// calls are libstdc++'s own, so they are redirected here, where a program calls libstdc++. Names and layouts are the
// ABI's (GLIBCXX_3.4.11 and later; libstdc++-v3/src/c++11/thread.cc, condition_variable.cc, chrono.cc).
#include <pthread.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

/// What `name` of libc is to ranks.
template <typename Function>
Function* simulated(Function*, const char* name) {
  return reinterpret_cast<Function*>(redirection_of(name));
}

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

static_assert(sizeof(std::thread) == sizeof(pthread_t));
pthread_t& number_of(std::thread& thread) { return reinterpret_cast<pthread_t&>(thread); }

void* run_state(void* given) {
  const std::unique_ptr<std::thread::_State> state(static_cast<std::thread::_State*>(given));
  state->_M_run();
  return nullptr;
}

void start_thread(std::thread* thread, std::unique_ptr<std::thread::_State> state, void (*)()) {
  check(simulated(&::pthread_create, "pthread_create")(&number_of(*thread), nullptr, &run_state, state.get()),
        "Unable to create thread");
  state.release();
}

void join_thread(std::thread* thread) {
  check(thread->joinable() ? simulated(&::pthread_join, "pthread_join")(number_of(*thread), nullptr) : EINVAL,
        "thread::join failed");
  number_of(*thread) = 0;
}

void detach_thread(std::thread* thread) {
  check(thread->joinable() ? simulated(&::pthread_detach, "pthread_detach")(number_of(*thread)) : EINVAL,
        "thread::detach failed");
  number_of(*thread) = 0;
}

void wait_condition(std::condition_variable* condition, std::unique_lock<std::mutex>& lock) {
  simulated(&::pthread_cond_wait, "pthread_cond_wait")(condition->native_handle(), lock.mutex()->native_handle());
}
void notify_one(std::condition_variable* condition) {
  simulated(&::pthread_cond_signal, "pthread_cond_signal")(condition->native_handle());
}
void notify_all(std::condition_variable* condition) {
  simulated(&::pthread_cond_broadcast, "pthread_cond_broadcast")(condition->native_handle());
}
void destroy_condition(std::condition_variable* condition) {
  simulated(&::pthread_cond_destroy, "pthread_cond_destroy")(condition->native_handle());
}

template <typename Clock, clockid_t kId>
typename Clock::time_point now() {
  timespec time{};
  simulated(&::clock_gettime, "clock_gettime")(kId, &time);
  return typename Clock::time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void sleep_for(std::chrono::seconds seconds, std::chrono::nanoseconds rest) {
  timespec left{.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  while (simulated(&::nanosleep, "nanosleep")(&left, &left) == -1 && errno == EINTR) {
  }
}

}  // namespace

std::span<const Redirection> standard_library_redirections() {
  static const std::array table{
      redirect("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE", &start_thread),
      redirect("_ZNSt6thread4joinEv", &join_thread),
      redirect("_ZNSt6thread6detachEv", &detach_thread),
      redirect("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", &wait_condition),
      redirect("_ZNSt18condition_variable10notify_oneEv", &notify_one),
      redirect("_ZNSt18condition_variable10notify_allEv", &notify_all),
      redirect("_ZNSt18condition_variableD1Ev", &destroy_condition),
      redirect("_ZNSt6chrono3_V212steady_clock3nowEv", &now<std::chrono::steady_clock, CLOCK_MONOTONIC>),
      redirect("_ZNSt6chrono3_V212system_clock3nowEv", &now<std::chrono::system_clock, CLOCK_REALTIME>),
      redirect(
          "_ZNSt11this_thread11__sleep_forENSt6chrono8durationIlSt5ratioILl1ELl1EEEENS1_IlS2_ILl1ELl1000000000EEEE",
          &sleep_for),
  };
  return table;
}

}  // namespace meshbed::sim
