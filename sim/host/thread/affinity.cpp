// Which processors a thread may run on. A simulated node has kProcessors of them on every machine, and code
// takes no longer on one than on another: what a rank asks for is kept and given back.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "sim/host/host_state.h"
#include "sim/host/identity.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

constexpr std::size_t kProcessors = 64;

/// Of the current process; nullptr: there is no such thread.
ThreadRecord* record_of(unsigned long id) {
  const auto& threads = current_state().threads;
  const auto found = threads.find(id);
  return found != threads.end() ? found->second.get() : nullptr;
}

ThreadRecord* record_of_task(pid_t task) {
  if (task == 0) return &current_record();
  const auto first = static_cast<pid_t>(process_id_of(*World::current_process()));
  return task >= first ? record_of(static_cast<unsigned long>(task - first) + 1) : nullptr;
}

/// 0 or an errno value.
int set(ThreadRecord* record, std::size_t size, const cpu_set_t* mask) {
  if (record == nullptr) return ESRCH;
  std::vector<bool> wanted(kProcessors);
  for (std::size_t number = 0; number < std::min(kProcessors, size * 8); ++number) {
    wanted[number] = CPU_ISSET_S(number, size, mask);
  }
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return EINVAL;
  record->processors = std::move(wanted);
  return 0;
}

int get(const ThreadRecord* record, std::size_t size, cpu_set_t* mask) {
  if (record == nullptr) return ESRCH;
  if (size * 8 < kProcessors) return EINVAL;
  std::memset(mask, 0, size);
  for (std::size_t number = 0; number < kProcessors; ++number) {
    if (record->processors.empty() || record->processors[number]) CPU_SET_S(number, size, mask);
  }
  return 0;
}

int set_of_task(pid_t task, std::size_t size, const cpu_set_t* mask) {
  if (outside()) return ::sched_setaffinity(task, size, mask);
  const int error = set(record_of_task(task), size, mask);
  return error == 0 ? 0 : fail(error);
}
int get_of_task(pid_t task, std::size_t size, cpu_set_t* mask) {
  if (outside()) return ::sched_getaffinity(task, size, mask);
  const int error = get(record_of_task(task), size, mask);
  return error == 0 ? 0 : fail(error);
}
int set_of_thread(pthread_t thread, std::size_t size, const cpu_set_t* mask) {
  return outside() ? ::pthread_setaffinity_np(thread, size, mask) : set(record_of(thread), size, mask);
}
int get_of_thread(pthread_t thread, std::size_t size, cpu_set_t* mask) {
  return outside() ? ::pthread_getaffinity_np(thread, size, mask) : get(record_of(thread), size, mask);
}

/// The first that the thread may run on.
int current_processor() {
  if (outside()) return ::sched_getcpu();
  const std::vector<bool>& allowed = current_record().processors;
  return static_cast<int>(std::find(allowed.begin(), allowed.end(), true) - allowed.begin()) *
         static_cast<int>(!allowed.empty());
}

}  // namespace

std::span<const Redirection> affinity_redirections() {
  static const std::array table{
      redirect("sched_setaffinity", &set_of_task),        redirect("sched_getaffinity", &get_of_task),
      redirect("pthread_setaffinity_np", &set_of_thread), redirect("pthread_getaffinity_np", &get_of_thread),
      redirect("sched_getcpu", &current_processor),
  };
  return table;
}

}  // namespace meshbed::sim
