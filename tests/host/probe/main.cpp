// The probe's table and what concerns the library itself, clocks and identity.
#include <dlfcn.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "tests/host/probe/parts.h"

namespace probe {
namespace {

int g_counter = 0;

int next_global() { return ++g_counter; }

void* open_library(const char* name, const char* symbol, char* error, std::size_t error_size) {
  void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void* result = handle != nullptr ? ::dlsym(handle, symbol) : nullptr;
  const char* text = result == nullptr ? ::dlerror() : nullptr;
  std::snprintf(error, error_size, "%s", text != nullptr ? text : "");
  return result;
}

bool has_library(const char* name) { return ::dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr; }

void throw_where_nobody_catches() noexcept { throw std::runtime_error("probe: nothing catches this"); }

std::int64_t clock_ns(int clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return -errno;
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::int64_t sleep_ns(std::int64_t duration_ns) {
  const std::int64_t begin = now_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
  return now_ns() - begin;
}

std::int64_t read_clock_until_ns(std::int64_t elapsed_ns) {
  const std::int64_t begin = now_ns();
  while (now_ns() - begin < elapsed_ns) continue;
  return now_ns() - begin;
}

std::uint64_t random_word() {
  std::uint64_t word = 0;
  return ::getrandom(&word, sizeof(word), 0) == sizeof(word) ? word : 0;
}

const char* variable(const char* name) { return std::getenv(name); }
int set_variable(const char* name, const char* value) { return ::setenv(name, value, 1); }
int host_name(char* name, std::size_t size) { return ::gethostname(name, size) == 0 ? 0 : -errno; }
int process_id() { return ::getpid(); }
int thread_id(bool raw) { return raw ? static_cast<int>(::syscall(SYS_gettid)) : ::gettid(); }

int refused() {
  int wrong = 0;
  const auto expect = [&](long result) { wrong += result == -1 && errno == ENOSYS ? 0 : 1; };
  expect(::fork());
  expect(::epoll_create1(0));
  expect(::timerfd_create(CLOCK_MONOTONIC, 0));
  struct sigaction action {};
  expect(::sigaction(SIGUSR1, &action, nullptr));
  expect(::syscall(SYS_getpid));
  wrong += ::pthread_kill(::pthread_self(), SIGUSR1) == ENOSYS ? 0 : 1;
  return wrong;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace probe

extern "C" const ProbeTable* probe_table() {
  using namespace probe;
  static const ProbeTable table = [] {
    ProbeTable made{};
    made.next_global = &next_global;
    made.open_library = &open_library;
    made.has_library = &has_library;
    made.throw_where_nobody_catches = &throw_where_nobody_catches;
    made.clock_ns = &clock_ns;
    made.sleep_ns = &sleep_ns;
    made.read_clock_until_ns = &read_clock_until_ns;
    made.random_word = &random_word;
    made.variable = &variable;
    made.set_variable = &set_variable;
    made.host_name = &host_name;
    made.process_id = &process_id;
    made.thread_id = &thread_id;
    made.refused = &refused;
    add_threads(made);
    add_sockets(made);
    add_datagrams(made);
    add_files(made);
    return made;
  }();
  return &table;
}
