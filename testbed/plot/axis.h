#pragma once
// The scale of one axis of a plot: positions of values, and the values with a tick.

#include <string>
#include <vector>

#include "testbed/plot/plot.h"

namespace meshbed::testbed {

struct PlotTick {
  double value = 0;
  std::string label;
};

class PlotRange {
 public:
  explicit PlotRange(const PlotAxis& axis) : axis_(axis) {}

  /// False: the axis cannot hold it.
  bool holds(double value) const;
  void take(double value);
  /// After the last take(): widens the range to what is drawn, also where all values are one, or there are none.
  void close();

  /// 0 at the low end, 1 at the high one.
  double part(double value) const;
  /// At least two.
  std::vector<PlotTick> ticks() const;

 private:
  bool is_log() const { return axis_.scale == PlotScale::kLog || axis_.scale == PlotScale::kBytes; }
  std::string label_of(double value) const;

  const PlotAxis& axis_;
  bool has_any_ = false;
  double low_ = 0, high_ = 0;
};

}  // namespace meshbed::testbed
