#include "cli/common/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace meshbed::testbed {
namespace {

constexpr int kBarColumns = 40;
constexpr int kBarColumnsMin = 5;

}  // namespace

ProgressBar::ProgressBar(std::FILE* stream) : stream_(stream), visible_(isatty(fileno(stream)) == 1) {}

void ProgressBar::begin(const std::string& label, int total) {
  label_ = label;
  total_ = total;
  shown_percent_ = -1;
  show(0);
}

void ProgressBar::show(int done) {
  const int percent = std::min(100, 100 * done / total_);
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

void ProgressBar::end() {
  if (visible_) fmt::print(stream_, "\r\033[K");
}

}  // namespace meshbed::testbed
