#include "testbed/base/closest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace meshbed::testbed {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours that make `right` of `left` (optimal string alignment).
/// O(left * right); names are short.
std::size_t edit_distance(const std::string& left, const std::string& right) {
  std::vector<std::size_t> before, last(right.size() + 1), row(right.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string closest_name(const std::string& word, const std::vector<std::string>& accepted) {
  if (word.size() > 64) return "";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto& name : accepted) {
    const std::size_t distance = edit_distance(word, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNamesMax = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesMax) text += fmt::format(" and {} more", names.size() - kNamesMax);
  return names.empty() ? "none" : text;
}

}  // namespace meshbed::testbed
