// Calls that the simulator does not support, and that would act on the simulator itself if they went through: new
// processes, signals, timers, waiting on kernel objects. Each logs it once and fails as its man page allows.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "plugin/base/log.h"
#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

/// A string literal as a template argument.
template <std::size_t Size>
struct Name {
  consteval Name(const char (&literal)[Size]) { std::copy_n(literal, Size, text); }
  char text[Size]{};
};

void warn_once(const char* name) {
  const char* who = "outside of the simulation";
  if (!outside()) {
    if (!first_time(current_state(), name)) return;
    who = World::current_process()->name.c_str();
  }
  MESHBED_WARN("%s: %s() is not simulated and was refused", who, name);
}

// The arguments do not matter: on this ABI the caller owns them.
template <Name kName>
long refuse_with_errno() {
  warn_once(kName.text);
  return fail(ENOSYS);
}
template <Name kName>
long refuse_with_code() {
  warn_once(kName.text);
  return ENOSYS;
}
template <Name kName>
void* refuse_with_null() {
  warn_once(kName.text);
  errno = ENOSYS;
  return nullptr;
}

template <Name kName>
Redirection by_errno() {
  return redirect(kName.text, &refuse_with_errno<kName>);
}
template <Name kName>
Redirection by_code() {
  return redirect(kName.text, &refuse_with_code<kName>);
}
template <Name kName>
Redirection by_null() {
  return redirect(kName.text, &refuse_with_null<kName>);
}

}  // namespace

std::span<const Redirection> refused_redirections() {
  static const std::array table{
      // processes
      by_errno<"fork">(),
      by_errno<"vfork">(),
      by_errno<"_Fork">(),
      by_errno<"clone">(),
      by_errno<"daemon">(),
      by_errno<"execl">(),
      by_errno<"execle">(),
      by_errno<"execlp">(),
      by_errno<"execv">(),
      by_errno<"execve">(),
      by_errno<"execvp">(),
      by_errno<"execvpe">(),
      by_errno<"fexecve">(),
      by_errno<"system">(),
      by_null<"popen">(),
      by_code<"posix_spawn">(),
      by_code<"posix_spawnp">(),
      by_errno<"waitpid">(),
      by_errno<"wait">(),
      by_errno<"ptrace">(),
      by_errno<"unshare">(),
      by_errno<"setns">(),
      by_errno<"prctl">(),
      by_errno<"process_vm_readv">(),
      by_errno<"process_vm_writev">(),
      // signals; signal(2) returns SIG_ERR, which is -1
      by_errno<"signal">(),
      by_errno<"sigaction">(),
      by_errno<"sigprocmask">(),
      by_code<"pthread_sigmask">(),
      by_errno<"sigaltstack">(),
      by_errno<"sigsuspend">(),
      by_errno<"sigwaitinfo">(),
      by_errno<"sigtimedwait">(),
      by_code<"sigwait">(),
      by_errno<"signalfd">(),
      by_errno<"kill">(),
      by_errno<"pause">(),
      by_code<"pthread_kill">(),
      by_code<"pthread_cancel">(),
      // timers
      by_errno<"setitimer">(),
      by_errno<"timer_create">(),
      by_errno<"timerfd_create">(),
      by_errno<"timerfd_settime">(),
      by_errno<"timerfd_gettime">(),
      // waiting on kernel objects
      by_errno<"select">(),
      by_errno<"pselect">(),
      by_errno<"epoll_create">(),
      by_errno<"epoll_create1">(),
      by_errno<"epoll_ctl">(),
      by_errno<"epoll_wait">(),
      by_errno<"epoll_pwait">(),
      by_errno<"epoll_pwait2">(),
      by_errno<"inotify_init">(),
      by_errno<"inotify_init1">(),
      by_errno<"fanotify_init">(),
      by_errno<"flock">(),
      by_null<"sem_open">(),
      by_errno<"sem_close">(),
      by_errno<"mq_open">(),
      by_errno<"msgget">(),
      by_errno<"semget">(),
      by_errno<"io_setup">(),
      // transfers between descriptors
      by_errno<"sendfile">(),
      by_errno<"sendfile64">(),
      by_errno<"splice">(),
      by_errno<"tee">(),
      by_errno<"sendmmsg">(),
      by_errno<"recvmmsg">(),
      // placement: affinity.cpp has the rest
      by_errno<"sched_setscheduler">(),
      by_code<"pthread_setschedparam">(),
      by_null<"fdopen">(),
      by_null<"freopen">(),
  };
  return table;
}

}  // namespace meshbed::sim
