#include "testbed/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace meshbed::testbed {
namespace {

constexpr std::size_t kMostTicks = 9;

std::string bytes_label(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

/// The values 1, 2 and 5 times powers of ten apart, or powers of two apart, in [low, high]; about five of them.
std::vector<double> even_ticks(double low, double high, bool binary) {
  const double wanted = (high - low) / 6;
  double step = binary ? std::exp2(std::floor(std::log2(wanted))) : std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {2.0, binary ? 2.0 : 2.5, 2.0}) {
    if (step * 1.001 >= wanted) break;
    step *= factor;
  }
  std::vector<double> values;
  for (double value = std::ceil(low / step) * step; value <= high + step * 1e-9; value += step) values.push_back(value);
  return values;
}

/// Powers of `base` in [low, high], each `stride`-th of them, so that there are not too many.
std::vector<double> power_ticks(double low, double high, double base) {
  const double first = std::ceil(std::log(low) / std::log(base) - 1e-9);
  const double last = std::floor(std::log(high) / std::log(base) + 1e-9);
  const double stride = std::max(1.0, std::ceil((last - first + 1) / static_cast<double>(kMostTicks)));
  std::vector<double> values;
  for (double power = first; power <= last; power += stride) values.push_back(std::pow(base, power));
  return values;
}

}  // namespace

bool PlotRange::holds(double value) const { return std::isfinite(value) && (!is_log() || value > 0); }

void PlotRange::take(double value) {
  low_ = has_any_ ? std::min(low_, value) : value;
  high_ = has_any_ ? std::max(high_, value) : value;
  has_any_ = true;
}

void PlotRange::close() {
  if (axis_.scale == PlotScale::kNames) {
    low_ = -0.5;
    high_ = std::max(0.5, static_cast<double>(axis_.names.size()) - 0.5);
    return;
  }
  constexpr double kMargin = 0.04;
  if (is_log()) {
    if (!has_any_) low_ = high_ = axis_.scale == PlotScale::kBytes ? 1024 : 1;
    const double margin = low_ == high_ ? 2 : std::pow(high_ / low_, kMargin);
    low_ /= margin;
    high_ *= margin;
    return;
  }
  // From 0 on where that is near: then heights compare.
  if (!has_any_) high_ = 1;
  if (low_ > 0 && (axis_.from_zero || low_ < 0.5 * high_)) low_ = 0;
  if (low_ == high_) {
    const double margin = low_ == 0 ? 1 : std::abs(low_) / 2;
    low_ -= margin;
    high_ += margin;
    return;
  }
  const double margin = (high_ - low_) * kMargin;
  if (low_ != 0) low_ -= margin;
  high_ += margin;
}

double PlotRange::part(double value) const {
  return is_log() ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
}

std::string PlotRange::label_of(double value) const {
  if (axis_.scale == PlotScale::kBytes) return bytes_label(value);
  if (std::abs(value) < 1e-12 * std::max(std::abs(low_), std::abs(high_))) value = 0;
  return fmt::format("{:.6g}", value);
}

std::vector<PlotTick> PlotRange::ticks() const {
  std::vector<PlotTick> ticks;
  if (axis_.scale == PlotScale::kNames) {
    for (std::size_t index = 0; index < axis_.names.size(); ++index) {
      ticks.push_back({static_cast<double>(index), axis_.names[index]});
    }
    return ticks;
  }
  const bool binary = axis_.scale == PlotScale::kBytes;
  std::vector<double> values;
  if (is_log()) values = power_ticks(low_, high_, binary ? 2 : 10);
  if (!binary && is_log() && values.size() < 4 && high_ / low_ > 3) {
    values.clear();
    for (double decade = std::pow(10, std::floor(std::log10(low_))); decade <= high_; decade *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = decade * factor;
        if (value >= low_ && value <= high_) values.push_back(value);
      }
    }
  }
  if (values.size() < 3) values = even_ticks(low_, high_, binary);
  for (const double value : values) ticks.push_back({value, label_of(value)});
  return ticks;
}

}  // namespace meshbed::testbed
