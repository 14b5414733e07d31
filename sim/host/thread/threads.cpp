// Threads of ranks: pthread_create starts a simulated thread. It is a daemon: like a real process, a rank ends with its
// main thread, even if others still run.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "plugin/base/log.h"
#include "sim/host/host_state.h"
#include "sim/host/load/program_guard.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

constexpr int kDestructorRounds = 4;       // PTHREAD_DESTRUCTOR_ITERATIONS of glibc
constexpr std::size_t kNameBytesMax = 16;  // with the final zero: pthread_setname_np(3)

// Behind glibc's variable of this meaning, which is true in the simulator: libstdc++ takes a second thread at a static
// local that is being made for a recursion of the first where it believes that there is only one.
constexpr char kSingleThreaded = 0;

/// What pthread_exit() throws; caught where the thread began.
struct ThreadExit {
  void* result;
};

ThreadRecord* find_record(unsigned long id) {
  auto& threads = current_state().threads;
  const auto found = threads.find(id);
  return found != threads.end() ? found->second.get() : nullptr;
}

void run_key_destructors(ProcessState& state, ThreadRecord& record) {
  for (int round = 0; round < kDestructorRounds; ++round) {
    bool any = false;
    for (std::size_t key = 0; key < record.specific.size(); ++key) {
      void* value = std::exchange(record.specific[key], nullptr);
      if (value == nullptr || key >= state.keys.size() || state.keys[key].destructor == nullptr) continue;
      state.keys[key].destructor(value);
      any = true;
    }
    if (!any) return;
  }
}

void forget(ProcessState& state, ThreadRecord& record) {
  std::erase_if(state.record_of_thread, [&](const auto& entry) { return entry.second == &record; });
  state.threads.erase(record.id);
  --host().counters.live_threads;
}

void run_thread(ProcessState& state, ThreadRecord& record, void* (*function)(void*), void* argument) {
  state.record_of_thread[World::current()] = &record;
  const auto stopped = run_guarded([&] {
    try {
      record.result = function(argument);
    } catch (const ThreadExit& exit) {
      record.result = exit.result;
    }
  });
  if (stopped) end_with_program(*stopped);
  run_thread_exit_calls(record);
  run_key_destructors(state, record);
  state.static_tls.forget(*World::current());
  record.ended = true;
  // Waking lets the joiner run, and it frees the record: nothing of it is touched afterwards. There is one joiner.
  if (record.detached) {
    forget(state, record);
  } else {
    wake_one(record.joiners);
  }
}

int thread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  if (outside()) return ::pthread_create(thread, attributes, function, argument);
  int detach_state = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) ::pthread_attr_getdetachstate(attributes, &detach_state);
  const std::vector<bool> processors = current_record().processors;  // whose own number comes first
  ProcessState& state = current_state();
  auto made = std::make_unique<ThreadRecord>();
  ThreadRecord& record = *made;
  record.id = state.next_thread_id++;
  record.name = "thread" + std::to_string(record.id);
  record.processors = processors;  // sched_setaffinity(2): a new thread has its creator's
  record.detached = detach_state == PTHREAD_CREATE_DETACHED;
  ++host().counters.live_threads;
  state.threads[record.id] = std::move(made);
  *thread = record.id;  // before it runs: it may look there
  try {
    World::get().spawn(
        state.process, record.name,
        [&state, &record, function, argument] { run_thread(state, record, function, argument); }, true);
  } catch (const std::system_error&) {
    forget(state, record);
    return EAGAIN;  // pthread_create(3): no resources for another thread
  }
  return 0;
}

std::string describe_thread(std::uint64_t object) {
  return "thread " + reinterpret_cast<const ThreadRecord*>(object)->name;
}

int thread_join(pthread_t thread, void** result) {
  if (outside()) return ::pthread_join(thread, result);
  ThreadRecord* record = find_record(thread);
  if (record == nullptr) return ESRCH;
  if (record->detached || !record->joiners.empty()) return EINVAL;
  if (record == &current_record()) return EDEADLK;
  const WaitNote note{
      .what = "pthread_join", .object = reinterpret_cast<std::uint64_t>(record), .describe = &describe_thread};
  while (!record->ended) wait_in(record->joiners, note);
  if (result != nullptr) *result = record->result;
  forget(current_state(), *record);
  return 0;
}

int thread_detach(pthread_t thread) {
  if (outside()) return ::pthread_detach(thread);
  ThreadRecord* record = find_record(thread);
  if (record == nullptr) return ESRCH;
  if (record->detached) return EINVAL;
  record->detached = true;
  if (record->ended) forget(current_state(), *record);
  return 0;
}

pthread_t thread_self() { return outside() ? ::pthread_self() : current_record().id; }

int thread_equal(pthread_t left, pthread_t right) { return left == right ? 1 : 0; }

[[noreturn]] void thread_exit(void* result) {
  if (outside()) ::pthread_exit(result);
  throw ThreadExit{result};
}

int thread_setname(pthread_t thread, const char* name) {
  if (outside()) return ::pthread_setname_np(thread, name);
  if (std::strlen(name) >= kNameBytesMax) return ERANGE;
  ThreadRecord* record = find_record(thread);
  if (record == nullptr) return ESRCH;
  record->name = name;
  return 0;
}

int thread_getname(pthread_t thread, char* name, std::size_t size) {
  if (outside()) return ::pthread_getname_np(thread, name, size);
  const ThreadRecord* record = find_record(thread);
  if (record == nullptr) return ESRCH;
  const std::string shown = record->name.substr(0, kNameBytesMax - 1);
  if (size <= shown.size()) return ERANGE;
  std::memcpy(name, shown.c_str(), shown.size() + 1);
  return 0;
}

int yield_processor() {
  if (outside()) return ::sched_yield();
  // All yields of a thread are one thing that it polls.
  World::get().spin({"sched_yield"}, {.what = "sched_yield"});
  return 0;
}

}  // namespace

std::span<const Redirection> thread_redirections() {
  static const std::array table{
      redirect("__libc_single_threaded", const_cast<char*>(&kSingleThreaded)),
      redirect("pthread_create", &thread_create),
      redirect("pthread_join", &thread_join),
      redirect("pthread_detach", &thread_detach),
      redirect("pthread_self", &thread_self),
      redirect("thrd_current", &thread_self),
      redirect("pthread_equal", &thread_equal),
      redirect("pthread_exit", &thread_exit),
      redirect("pthread_setname_np", &thread_setname),
      redirect("pthread_getname_np", &thread_getname),
      redirect("sched_yield", &yield_processor),
      redirect("pthread_yield", &yield_processor),
      redirect("thrd_yield", &yield_processor),
  };
  return table;
}

}  // namespace meshbed::sim
