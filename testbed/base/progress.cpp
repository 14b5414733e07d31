#include "testbed/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {
namespace {

constexpr int kBarColumns = 40;
constexpr int kBarColumnsMin = 5;

}  // namespace

Progress::Progress(std::string label, int total, std::FILE* stream)
    : label_(std::move(label)), total_(std::max(total, 1)), stream_(stream), visible_(isatty(fileno(stream)) == 1) {
  Interruption::set_progress(0, total_);
  draw();
}

Progress::~Progress() {
  if (visible_) fmt::print(stream_, "\r\033[K");
}

void Progress::step() {
  ++done_;
  Interruption::set_progress(done_, total_);
  draw();
}

void Progress::draw() {
  const int percent = std::min(100, 100 * done_ / total_);
  if (!visible_ || percent == shown_percent_) return;
  shown_percent_ = percent;
  winsize window{};
  const int columns = ioctl(fileno(stream_), TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
  // "LABEL [" before the bar, "] 100 %" behind it, and the last column, which would wrap.
  const int bar = std::min(kBarColumns, columns - static_cast<int>(label_.size()) - 10);
  if (bar < kBarColumnsMin) {
    fmt::print(stream_, "\r{:3} %", percent);
  } else {
    const int filled = bar * percent / 100;
    fmt::print(stream_, "\r{} [{:#<{}}{:<{}}] {:3} %", label_, "", filled, "", bar - filled, percent);
  }
  std::fflush(stream_);
}

}  // namespace meshbed::testbed
