#include "cli/common/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace meshbed::cli {
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

}  // namespace

std::string to_string(const Place& place, const std::string& file) {
  const std::string path = place.path ? *place.path : file;
  if (path.rfind(kOverridePrefix, 0) == 0 || path.rfind(kFaultPrefix, 0) == 0 || !place.begin) return path;
  return fmt::format("{}:{}:{}", path, place.begin.line, place.begin.column);
}

void Diagnostics::add(const Place& place, const std::string& message) {
  ++count_;
  std::string text = printable_word(fmt::format("{}: {}", to_string(place, file_), message));
  if (said_.insert(text).second) lines_.push_back({place.begin.line, place.begin.column, std::move(text)});
}

void Diagnostics::add(const std::string& message) { add(Place{}, message); }

void Diagnostics::throw_if_any() const {
  if (lines_.empty()) return;
  auto sorted = lines_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Line& left, const Line& right) {
    return std::tie(left.line, left.column) < std::tie(right.line, right.column);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(sorted.size(), kShownMax); ++i) text += (i == 0 ? "" : "\n") + sorted[i].text;
  if (sorted.size() > kShownMax) text += fmt::format("\n{}: and {} more errors", file_, sorted.size() - kShownMax);
  throw ScenarioError(text);
}

}  // namespace meshbed::cli
