#pragma once
// Two results beside each other as a user asks: how much more time, which operations, which links. Pure functions of
// what runs and sweeps write (summary.json, sweep.json); any thread.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "testbed/result/document.h"

namespace meshbed::testbed {

struct ResultComparison {
  document::Section section;  // title, fields and tables, with the text to show
  /// The greatest |right / left - 1| of all times that both have; empty: they have none.
  std::optional<double> change;
  /// What no tolerance allows: another outcome, wrong data, a broken proof, a row that one of two sweeps lacks. Empty:
  /// nothing of that kind.
  std::string broken;
};

/// Two summary.json. Throws nlohmann::json::exception for an object that no run wrote.
ResultComparison compare_runs(const nlohmann::json& left, const nlohmann::json& right);
/// Two sweep.json: their points by varied values and failure.
ResultComparison compare_sweeps(const nlohmann::json& left, const nlohmann::json& right);

}  // namespace meshbed::testbed
