#pragma once
// A child of this process that runs a simulation, which may crash or never end, and reports its result through a pipe.

#include <sys/types.h>

#include <functional>

namespace meshbed::testbed {

struct ChildProcess {
  pid_t process = -1;
  int output =
      -1;  // what it wrote is read from here until its end; then to be closed, and the process to be waited for
};

/// Forks; `body` runs in the child, which ends with the status that it returns, and dies with its parent. `pipe`: where
/// to write. std::runtime_error where no descriptors, processes or memory are left.
ChildProcess start_child(const std::function<int(int pipe)>& body);

}  // namespace meshbed::testbed
