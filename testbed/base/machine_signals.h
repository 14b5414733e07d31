#pragma once
// MachineSignals: while it lives, SIGINT and SIGTERM end what runs (virtual machines, ranks), and then us, in good
// order.

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
