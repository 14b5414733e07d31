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

ProgressBar::ProgressBar(std::FILE* stream, int line_every_ms)
    : stream_(stream), terminal_(isatty(fileno(stream)) == 1), line_every_ms_(line_every_ms) {}

void ProgressBar::begin(const std::string& label, int total, int done) {
  label_ = label;
  total_ = total;
  begun_at_ = done;
  shown_percent_ = -1;
  begun_s_ = now_s();
  next_line_ = Deadline::after_ms(line_every_ms_);
  if (terminal_) show_bar(done);
}

void ProgressBar::show(int done) {
  if (terminal_) {
    show_bar(done);
  } else if (next_line_.passed() && done < total_) {
    show_line(done);
  }
}

void ProgressBar::show_line(int done) {
  next_line_ = Deadline::after_ms(line_every_ms_);
  const double gone_s = now_s() - begun_s_;
  const int now = done - begun_at_;
  fmt::print(stream_, "meshbed: {}: {} of {}, {:.0f} s gone, about {:.0f} s left\n", label_, done, total_, gone_s,
             now > 0 ? gone_s / now * (total_ - done) : 0.0);
  std::fflush(stream_);
}

void ProgressBar::show_bar(int done) {
  const int percent = std::min(100, 100 * done / total_);
  if (percent == shown_percent_) return;
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
  if (terminal_) fmt::print(stream_, "\r\033[K");
}

}  // namespace meshbed::testbed
