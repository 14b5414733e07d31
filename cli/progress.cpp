#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace meshbed::cli {
namespace {

constexpr int kBarColumns = 40;

}  // namespace

Progress::Progress(std::string label, int total, std::FILE* stream)
    : label_(std::move(label)), total_(std::max(total, 1)), stream_(stream), visible_(isatty(fileno(stream)) == 1) {
  draw();
}

Progress::~Progress() {
  if (visible_) fmt::print(stream_, "\r\033[K");
}

void Progress::step() {
  ++done_;
  draw();
}

void Progress::draw() {
  const int percent = std::min(100, 100 * done_ / total_);
  if (!visible_ || percent == shown_percent_) return;
  shown_percent_ = percent;
  const int filled = kBarColumns * percent / 100;
  fmt::print(stream_, "\r{} [{:#<{}}{:<{}}] {:3} %", label_, "", filled, "", kBarColumns - filled, percent);
  std::fflush(stream_);
}

}  // namespace meshbed::cli
