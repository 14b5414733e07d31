#pragma once
// ProgressBar: the progress of a computation: a bar on a terminal, elsewhere a line every ten seconds. Written to
// standard error, so that standard output has only the result.

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
  void simulated(std::uint64_t messages, std::int64_t at_ps) override;
  void end() override;  // wipes the bar

 private:
  void show_line();
  void show_bar();
  void write_bar(int percent) const;
  /// "at 12.5 ms, 51200 messages, 5120 a second"; empty: no simulation.
  std::string simulation_text() const;

  std::FILE* stream_;
  bool terminal_ = false;
  int line_every_ms_ = kLineEvery_ms;
  double begun_s_ = -1;  // -1: nothing has begun
  Deadline next_line_, next_look_;
  std::string label_;
  int total_ = 0;  // steps; 0: a simulation without any
  int done_ = 0;
  int begun_at_ = 0;  // steps that were done before
  int shown_percent_ = -1;
  std::uint64_t messages_ = 0;  // of the simulation; 0: none has ended
  std::int64_t at_ps_ = 0;      // its virtual time
};

}  // namespace meshbed::testbed
