#include "testbed/base/machine_signals.h"

#include <atomic>

namespace meshbed::testbed {
namespace {

std::atomic<emu::Stoppable*> g_running{nullptr};
std::atomic<bool> g_interrupted{false};

void on_signal(int) {
  g_interrupted = true;
  if (emu::Stoppable* running = g_running) running->request_stop();
}

}  // namespace

MachineSignals::MachineSignals(emu::Stoppable& machines) {
  g_running = &machines;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

MachineSignals::~MachineSignals() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  g_running = nullptr;
}

bool MachineSignals::interrupted() { return g_interrupted; }

}  // namespace meshbed::testbed
