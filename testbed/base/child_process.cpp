#include "testbed/base/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {

ChildProcess start_child(const std::function<int(int pipe)>& body) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe: no descriptors left");
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("fork failed: no memory or processes left");
  if (process == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a plugin that never returns must not outlive us
    Interruption::leave_to_parent();
    _exit(body(ends[1]));
  }
  close(ends[1]);
  return {.process = process, .output = ends[0]};
}

}  // namespace meshbed::testbed
