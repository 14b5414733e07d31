#include "testbed/base/progress.h"

#include <algorithm>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {
namespace {

ProgressViewer* g_viewer = nullptr;

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
  if (g_viewer != nullptr && messages_ >= kEvery) g_viewer->end();
}

void SimulationProgress::show(std::int64_t at_ps) const {
  if (g_viewer != nullptr) g_viewer->simulated(messages_, at_ps);
}

}  // namespace meshbed::testbed
