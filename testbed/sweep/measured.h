#pragma once
// A point of a sweep, before and after it is run.

#include <optional>
#include <string>

#include "testbed/result/document.h"
#include "testbed/sweep/points.h"

namespace meshbed::testbed::sweep {

/// A row before it is run.
struct Point {
  Values values;
  std::string failed;  // empty: nothing is
  Changes changes;
  Changes removed;  // with what fails taken away from the start; shows whether all ranks still reach each other
};

inline constexpr const char* kOk = "ok";

/// Of a point that was run, as the journal has it: the row's values behind the varied keys, less the ratio.
struct Measured {
  std::string status = kOk;
  std::optional<double> time_us, busbw_GBps, over_bound, low_us, high_us;
  std::string algorithm, busiest_link, reason;
};

document::Value optional_value(const std::optional<double>& value);
document::Value value_of(const Measured& measured);
/// From value_of(); throws nlohmann::json::exception for anything else.
Measured measured_of(const document::Value& value);

}  // namespace meshbed::testbed::sweep
