#include "cli/common/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

constexpr int kBarColumns = 40;
constexpr int kBarColumnsMin = 5;
constexpr int kColumnsUnknown = 80;
/// Between two looks at a simulation on a terminal.
constexpr int kLookEvery_ms = 250;

}  // namespace

ProgressBar::ProgressBar(std::FILE* stream, int line_every_ms)
    : stream_(stream), terminal_(isatty(fileno(stream)) == 1), line_every_ms_(line_every_ms) {}

void ProgressBar::begin(const std::string& label, int total, int done) {
  label_ = label;
  total_ = total;
  done_ = begun_at_ = done;
  shown_percent_ = -1;
  messages_ = 0;
  begun_s_ = now_s();
  next_line_ = Deadline::after_ms(line_every_ms_);
  if (terminal_) show_bar();
}

void ProgressBar::show(int done) {
  done_ = done;
  if (terminal_) {
    show_bar();
  } else if (next_line_.passed() && done < total_) {
    show_line();
  }
}

void ProgressBar::simulated(std::uint64_t messages, std::int64_t at_ps) {
  if (begun_s_ < 0) {
    begun_s_ = now_s();
    next_line_ = Deadline::after_ms(line_every_ms_);
  }
  messages_ = messages;
  at_ps_ = at_ps;
  if (!terminal_) {
    if (next_line_.passed()) show_line();
  } else if (next_look_.passed()) {
    next_look_ = Deadline::after_ms(kLookEvery_ms);
    write_bar(total_ > 0 ? 100 * done_ / total_ : -1);
  }
}

std::string ProgressBar::simulation_text() const {
  if (messages_ == 0) return "";
  const double gone_s = now_s() - begun_s_;
  const std::string rate = gone_s > 0 ? fmt::format(", {:.0f} a second", static_cast<double>(messages_) / gone_s) : "";
  return fmt::format("at {}, {} messages{}", duration_text(at_ps_), messages_, rate);
}

void ProgressBar::show_line() {
  next_line_ = Deadline::after_ms(line_every_ms_);
  const double gone_s = now_s() - begun_s_;
  const int now = done_ - begun_at_;
  std::string text = total_ > 0 ? fmt::format("{}: {} of {}, ", label_, done_, total_) : "";
  if (messages_ > 0) text += simulation_text() + ", ";
  text += fmt::format("{:.0f} s gone", gone_s);
  if (now > 0) text += fmt::format(", about {:.0f} s left", gone_s / now * (total_ - done_));
  fmt::print(stream_, "meshbed: {}\n", text);
  std::fflush(stream_);
}

void ProgressBar::show_bar() {
  const int percent = std::min(100, static_cast<int>(100LL * done_ / total_));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  write_bar(percent);
}

void ProgressBar::write_bar(int percent) const {
  winsize window{};
  // The last column stays free: a character there would wrap.
  const int columns =
      (ioctl(fileno(stream_), TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : kColumnsUnknown) - 1;
  std::string line;
  if (percent >= 0) {
    // "LABEL [" before the bar, "] 100 %" behind it.
    const int bar = std::min(kBarColumns, columns - static_cast<int>(label_.size()) - 9);
    const int filled = bar * percent / 100;
    line = bar < kBarColumnsMin
               ? fmt::format("{:3} %", percent)
               : fmt::format("{} [{:#<{}}{:<{}}] {:3} %", label_, "", filled, "", bar - filled, percent);
  }
  if (const std::string text = simulation_text(); !text.empty()) line += (line.empty() ? "" : "  ") + text;
  fmt::print(stream_, "\r{:.{}}\033[K", line, static_cast<std::size_t>(std::max(columns, 1)));
  std::fflush(stream_);
}

void ProgressBar::end() {
  if (terminal_) fmt::print(stream_, "\r\033[K");
}

}  // namespace meshbed::testbed
