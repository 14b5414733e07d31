#pragma once
// Diagnostics: the errors of one scenario file, collected so that all are reported at once.

#include <toml++/toml.h>

#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace meshbed::testbed {

/// Where a value was written: a file with line and column, or a --set argument.
using Place = toml::source_region;

/// The file name in the places of values given by "--set ARGUMENT".
inline constexpr const char* kOverridePrefix = "--set ";
inline constexpr const char* kFaultPrefix = "--fault ";

/// One error of a scenario file.
struct ScenarioProblem {
  std::string place;  // "FILE:LINE:COLUMN", "--set ARGUMENT" or "FILE"
  std::string text;   // what is wrong, and what is accepted
};

/// what() has a line "PLACE: TEXT" for each problem.
class ScenarioError : public std::runtime_error {
 public:
  explicit ScenarioError(std::vector<ScenarioProblem> problems);
  ScenarioError(std::string place, std::string text)
      : ScenarioError(std::vector<ScenarioProblem>{{std::move(place), std::move(text)}}) {}
  const std::vector<ScenarioProblem>& problems() const { return problems_; }

 private:
  std::vector<ScenarioProblem> problems_;
};

/// The file does not exist or cannot be read.
class UnreadableScenario : public ScenarioError {
 public:
  using ScenarioError::ScenarioError;
};

class Diagnostics {
 public:
  explicit Diagnostics(std::string file) : file_(std::move(file)) {}

  /// The same message at the same place is shown once.
  void add(const Place& place, const std::string& message);
  /// An error of the file as a whole.
  void add(const std::string& message);
  bool empty() const { return lines_.empty(); }
  /// How often add was called.
  std::size_t count() const { return count_; }
  /// Throws ScenarioError with one line per error, in order of their places (at most kShownMax; the rest is counted).
  void throw_if_any() const;

  static constexpr std::size_t kShownMax = 20;

 private:
  struct Line {
    std::size_t line, column;
    ScenarioProblem problem;
  };
  std::string file_;
  std::vector<Line> lines_;
  std::set<std::pair<std::string, std::string>> known_;  // place and text of lines_
  std::size_t count_ = 0;
};

/// "FILE:LINE:COLUMN" or "--set ARGUMENT"; `file` where the place is unknown.
std::string to_string(const Place& place, const std::string& file);

}  // namespace meshbed::testbed
