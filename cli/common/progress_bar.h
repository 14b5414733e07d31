#pragma once
// ProgressBar: how far a computation is: a bar on a terminal, elsewhere a line every ten seconds. Written to standard
// error, so that standard output stays the result.

#include <cstdio>
#include <string>

#include "plugin/base/deadline.h"
#include "testbed/base/progress.h"

namespace meshbed::testbed {

class ProgressBar final : public ProgressViewer {
 public:
  /// Between two lines where `stream` is not a terminal.
  static constexpr int kLineEvery_ms = 10'000;
  explicit ProgressBar(std::FILE* stream, int line_every_ms = kLineEvery_ms);

  void begin(const std::string& label, int total, int done) override;
  void show(int done) override;
  void end() override;  // wipes the bar

 private:
  void show_line(int done);
  void show_bar(int done);

  std::FILE* stream_;
  bool terminal_ = false;
  int line_every_ms_ = kLineEvery_ms;
  double begun_s_ = 0;
  Deadline next_line_;
  std::string label_;
  int total_ = 1;
  int begun_at_ = 0;  // steps that were done before
  int shown_percent_ = -1;
};

}  // namespace meshbed::testbed
