#pragma once
// MachineSignals: while it exists, SIGINT and SIGTERM first end the running virtual machines or ranks, then this
// process.

#include <csignal>

#include "emu/stop_event.h"

namespace meshbed::testbed {

class MachineSignals {
 public:
  explicit MachineSignals(emu::Stoppable& machines);
  ~MachineSignals();
  MachineSignals(const MachineSignals&) = delete;
  MachineSignals& operator=(const MachineSignals&) = delete;

  /// One of them has come, in this process.
  static bool interrupted();

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

}  // namespace meshbed::testbed
