#include "testbed/base/repeated_lines.h"

#include <fmt/format.h>

#include <cctype>
#include <ostream>

#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

std::string without_numbers(const std::string& text) {
  std::string kind;
  for (const char letter : text) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!is_digit) {
      kind.push_back(letter);
    } else if (kind.empty() || kind.back() != '#') {
      kind.push_back('#');
    }
  }
  return kind;
}

}  // namespace

void RepeatedLines::warn(int rank, const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Kind& kind = kinds_[without_numbers(text)];
  if (kind.first.empty()) kind.first = text;
  const bool is_known = kind.shown.count(text) > 0;
  if (!is_known && kind.shown.size() < kShownOfKind) {
    kind.shown.insert(text);
    out_ << fmt::format("meshbed: warning: rank {}: {}\n", rank, text) << std::flush;
    return;
  }
  ++kind.left_out;
  kind.ranks.insert(rank);
  kind.varied = kind.varied || !is_known;
}

RepeatedLines::~RepeatedLines() {
  for (const auto& [text, kind] : kinds_) {
    if (kind.left_out == 0) continue;
    out_ << fmt::format("meshbed: warning: repeated {}{}, by {}: {}\n", counted(kind.left_out, "time"),
                        kind.varied ? ", some with other numbers" : "", counted(kind.ranks.size(), "rank"), kind.first);
  }
}

}  // namespace meshbed::testbed
