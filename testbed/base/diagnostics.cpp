#include "testbed/base/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace meshbed::testbed {
namespace {

/// Text from a file may hold control characters, which would garble a terminal.
std::string printable_word(const std::string& text) {
  std::string clean;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) {
      clean += fmt::format("\\x{:02x}", byte);
    } else {
      clean += letter;
    }
  }
  return clean;
}

std::string lines_of(const std::vector<ScenarioProblem>& problems) {
  std::string text;
  for (const ScenarioProblem& problem : problems) {
    text += (text.empty() ? "" : "\n") + problem.place + ": " + problem.text;
  }
  return text;
}

}  // namespace

ScenarioError::ScenarioError(std::vector<ScenarioProblem> problems)
    : std::runtime_error(lines_of(problems)), problems_(std::move(problems)) {}

std::string to_string(const Place& place, const std::string& file) {
  const std::string path = place.path ? *place.path : file;
  constexpr std::size_t kOverrideShownMax = 200;
  if (path.rfind(kOverridePrefix, 0) == 0 || path.rfind(kFaultPrefix, 0) == 0) {
    return path.size() <= kOverrideShownMax ? path : path.substr(0, kOverrideShownMax) + "...";
  }
  if (!place.begin) return path;
  return fmt::format("{}:{}:{}", path, place.begin.line, place.begin.column);
}

void Diagnostics::add(const Place& place, const std::string& message) {
  ++count_;
  ScenarioProblem problem{printable_word(to_string(place, file_)), printable_word(message)};
  if (!known_.emplace(problem.place, problem.text).second) return;
  lines_.push_back({place.begin.line, place.begin.column, std::move(problem)});
}

void Diagnostics::add(const std::string& message) { add(Place{}, message); }

void Diagnostics::throw_if_any() const {
  if (lines_.empty()) return;
  auto sorted = lines_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Line& left, const Line& right) {
    return std::tie(left.line, left.column) < std::tie(right.line, right.column);
  });
  std::vector<ScenarioProblem> problems;
  for (std::size_t i = 0; i < std::min(sorted.size(), kShownMax); ++i) problems.push_back(std::move(sorted[i].problem));
  if (sorted.size() > kShownMax)
    problems.push_back({file_, fmt::format("and {} more errors", sorted.size() - kShownMax)});
  throw ScenarioError(std::move(problems));
}

}  // namespace meshbed::testbed
