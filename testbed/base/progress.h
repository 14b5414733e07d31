#pragma once
// Progress: a bar on a terminal, silence elsewhere. Written to standard error, so that standard output stays the
// result.

#include <cstdio>
#include <string>

namespace meshbed::testbed {

class Progress {
 public:
  /// `total` steps; shows nothing unless `stream` is a terminal.
  Progress(std::string label, int total, std::FILE* stream = stderr);
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step();

 private:
  void draw();

  std::string label_;
  int total_ = 0;
  int done_ = 0;
  int shown_percent_ = -1;
  std::FILE* stream_ = nullptr;
  bool visible_ = false;
};

}  // namespace meshbed::testbed
