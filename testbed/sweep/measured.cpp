#include "testbed/sweep/measured.h"

#include <nlohmann/json.hpp>

namespace meshbed::testbed::sweep {
namespace {

using document::Value;

std::optional<double> number_of(const Value& object, const char* key) {
  const Value& value = object.at(key);
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

}  // namespace

document::Value optional_value(const std::optional<double>& value) { return value ? Value(*value) : Value(nullptr); }

document::Value value_of(const Measured& measured) {
  return {{"status", measured.status},
          {"time_us", optional_value(measured.time_us)},
          {"busbw_GBps", optional_value(measured.busbw_GBps)},
          {"over_bound", optional_value(measured.over_bound)},
          {"low_us", optional_value(measured.low_us)},
          {"high_us", optional_value(measured.high_us)},
          {"algorithm", measured.algorithm},
          {"busiest_link", measured.busiest_link},
          {"reason", measured.reason}};
}

Measured measured_of(const Value& value) {
  return {.status = value.at("status"),
          .time_us = number_of(value, "time_us"),
          .busbw_GBps = number_of(value, "busbw_GBps"),
          .over_bound = number_of(value, "over_bound"),
          .low_us = number_of(value, "low_us"),
          .high_us = number_of(value, "high_us"),
          .algorithm = value.at("algorithm"),
          .busiest_link = value.at("busiest_link"),
          .reason = value.at("reason")};
}

}  // namespace meshbed::testbed::sweep
