#pragma once
// ProgressBar: a bar on a terminal, silence elsewhere. Written to standard error, so that standard output stays the
// result.

#include <cstdio>
#include <string>

#include "testbed/base/progress.h"

namespace meshbed::testbed {

class ProgressBar final : public ProgressViewer {
 public:
  /// Shows nothing unless `stream` is a terminal.
  explicit ProgressBar(std::FILE* stream);

  void begin(const std::string& label, int total) override;
  void show(int done) override;
  void end() override;  // wipes the bar

 private:
  std::FILE* stream_;
  bool visible_ = false;
  std::string label_;
  int total_ = 1;
  int shown_percent_ = -1;
};

}  // namespace meshbed::testbed
