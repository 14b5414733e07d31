// Data of a thread (pthread keys) and things that happen once in a process.
#include <pthread.h>

#include <array>
#include <cerrno>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

// glibc's PTHREAD_ONCE_INIT is 0; the other values are ours.
constexpr int kOnceNew = 0;
constexpr int kOnceRunning = 1;
constexpr int kOnceDone = 2;

int key_create(pthread_key_t* key, void (*destructor)(void*)) {
  if (outside()) return ::pthread_key_create(key, destructor);
  auto& keys = current_state().keys;
  std::size_t free = 0;
  while (free < keys.size() && keys[free].used) ++free;
  if (free == PTHREAD_KEYS_MAX) return EAGAIN;
  if (free == keys.size()) keys.emplace_back();
  keys[free] = {true, destructor};
  for (auto& [id, record] : current_state().threads) {
    if (free < record->specific.size()) record->specific[free] = nullptr;  // a new key is null in every thread
  }
  *key = static_cast<pthread_key_t>(free);
  return 0;
}

int key_delete(pthread_key_t key) {
  if (outside()) return ::pthread_key_delete(key);
  auto& keys = current_state().keys;
  if (key >= keys.size() || !keys[key].used) return EINVAL;
  keys[key] = {};
  return 0;
}

int set_specific(pthread_key_t key, const void* value) {
  if (outside()) return ::pthread_setspecific(key, value);
  const auto& keys = current_state().keys;
  if (key >= keys.size() || !keys[key].used) return EINVAL;
  auto& specific = current_record().specific;
  if (specific.size() <= key) specific.resize(key + 1);
  specific[key] = const_cast<void*>(value);
  return 0;
}

void* get_specific(pthread_key_t key) {
  if (outside()) return ::pthread_getspecific(key);
  const auto& specific = current_record().specific;
  return key < specific.size() ? specific[key] : nullptr;
}

/// Resets the control if the routine leaves by an exception, so that another thread may try; wakes waiting threads.
class OnceGuard {
 public:
  OnceGuard(pthread_once_t& control, ProcessState& state) : control_(control), state_(state) { control = kOnceRunning; }
  OnceGuard(const OnceGuard&) = delete;
  OnceGuard& operator=(const OnceGuard&) = delete;
  ~OnceGuard() {
    control_ = done_ ? kOnceDone : kOnceNew;
    wake_all(state_.once_waiters[&control_]);
    state_.once_waiters.erase(&control_);
  }
  void done() { done_ = true; }

 private:
  pthread_once_t& control_;
  ProcessState& state_;
  bool done_ = false;
};

int once(pthread_once_t* control, void (*routine)()) {
  if (outside()) return ::pthread_once(control, routine);
  ProcessState& state = current_state();
  while (*control == kOnceRunning) wait_in(state.once_waiters[control], {.what = "pthread_once"});
  if (*control == kOnceDone) return 0;
  OnceGuard guard(*control, state);
  routine();
  guard.done();
  return 0;
}

}  // namespace

std::span<const Redirection> thread_data_redirections() {
  static const std::array table{
      redirect("pthread_key_create", &key_create),
      redirect("pthread_key_delete", &key_delete),
      redirect("pthread_setspecific", &set_specific),
      redirect("pthread_getspecific", &get_specific),
      redirect("pthread_once", &once),
  };
  return table;
}

}  // namespace meshbed::sim
