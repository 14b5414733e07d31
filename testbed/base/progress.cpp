#include "testbed/base/progress.h"

#include <algorithm>
#include <utility>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {
namespace {

ProgressViewer* g_viewer = nullptr;
bool g_simulated = false;  // the viewer has shown how far a simulation is

}  // namespace

void set_progress_viewer(ProgressViewer* viewer) { g_viewer = viewer; }

Progress::Progress(const std::string& label, int total, int done) : total_(std::max(total, 1)), done_(done) {
  Interruption::set_progress(done_, total_);
  if (g_viewer != nullptr) g_viewer->begin(label, total_, done_);
}

Progress::~Progress() {
  if (g_viewer != nullptr) g_viewer->end();
}

void Progress::step() {
  ++done_;
  Interruption::set_progress(done_, total_);
  if (g_viewer != nullptr) g_viewer->show(done_);
}

void Progress::hide() {
  if (g_viewer != nullptr) g_viewer->end();
}

SimulationProgress::~SimulationProgress() {
  if (g_viewer != nullptr && std::exchange(g_simulated, false)) g_viewer->end();
}

void SimulationProgress::show(std::uint64_t messages, std::int64_t at_ps) {
  if (g_viewer == nullptr) return;
  g_simulated = true;
  g_viewer->simulated(messages, at_ps);
}

}  // namespace meshbed::testbed
