#include "plugin/net/state_signal.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <string>

#include "plugin/net/process/clock.h"

namespace meshbed::net {
namespace {

// What the handler knows: where to write. A handler has no other way to anything.
constinit std::atomic<int> g_pipe{-1};
constinit std::atomic<int> g_inside{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
  const int kept_errno = errno;
  g_inside.fetch_add(1);
  const int pipe = g_pipe.load();
  const char byte = 0;
  // A full pipe has been heard already.
  if (pipe >= 0 && ::write(pipe, &byte, 1) < 0) errno = kept_errno;
  g_inside.fetch_sub(1);
  errno = kept_errno;
}

Error signal_error(const std::string& text, int os_errno = 0) {
  return {.code = ErrorCode::kSystem,
          .scope = Scope::kJob,
          .text = "SIGUSR1: " + text + (os_errno != 0 ? std::string(": ") + std::strerror(os_errno) : ""),
          .os_errno = os_errno};
}

/// Keeps this library in memory whatever its loader does.
bool stay_loaded() {
  Dl_info ours{};
  if (::dladdr(reinterpret_cast<void*>(&on_signal), &ours) == 0 || ours.dli_fname == nullptr) return false;
  // Where the code is part of the program itself there is nothing to keep, and nothing is found.
  (void)::dlopen(ours.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return true;
}

}  // namespace

Result<std::unique_ptr<StateSignal>> StateSignal::install() {
  struct sigaction before {};
  if (::sigaction(SIGUSR1, nullptr, &before) != 0) return signal_error("cannot be asked for", errno);
  const bool is_default = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
  if (!is_default) return signal_error("the program has its own use for it, which stays");
  if (g_pipe.load() >= 0) return signal_error("it asks for the state already");
  if (!stay_loaded()) return signal_error("this library does not find itself");
  std::unique_ptr<StateSignal> signal(new StateSignal);
  if (::pipe2(signal->pipe_, O_NONBLOCK | O_CLOEXEC) != 0) return signal_error("no pipe", errno);
  g_pipe.store(signal->pipe_[1]);
  struct sigaction ours {};
  ours.sa_handler = &on_signal;
  ours.sa_flags = SA_RESTART;  // the program's system calls are none of our business
  sigemptyset(&ours.sa_mask);
  if (::sigaction(SIGUSR1, &ours, nullptr) != 0) return signal_error("cannot be installed", errno);
  signal->installed_ = true;
  return signal;
}

StateSignal::~StateSignal() {
  struct sigaction now {};
  const bool still_ours = installed_ && ::sigaction(SIGUSR1, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
                          now.sa_handler == &on_signal;
  if (still_ours) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGUSR1, &standard, nullptr);
  }
  g_pipe.store(-1);
  // A handler on another thread may be about to write.
  while (g_inside.load() != 0) ::poll(nullptr, 0, 0);
  for (const int end : pipe_) {
    if (end >= 0) ::close(end);
  }
}

void StateSignal::drain() const {
  char bytes[64];
  while (::read(pipe_[0], bytes, sizeof bytes) > 0) continue;
}

void write_to_standard_error(const std::string& text) {
  constexpr int kPatienceMs = 100;
  const Deadline enough = Deadline::in_ms(kPatienceMs);
  for (std::size_t at = 0; at < text.size() && !enough.passed();) {
    pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, kPatienceMs) <= 0) return;
    // No more than a pipe that is ready takes at once: a longer write would wait.
    const ssize_t count = ::write(STDERR_FILENO, text.data() + at, std::min<std::size_t>(text.size() - at, PIPE_BUF));
    if (count <= 0) return;
    at += static_cast<std::size_t>(count);
  }
}

}  // namespace meshbed::net
