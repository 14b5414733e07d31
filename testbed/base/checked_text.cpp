#include "testbed/base/checked_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>

namespace meshbed::testbed {

std::uint64_t parse_count(const std::string& option, const std::string& text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw std::runtime_error(fmt::format("{} {}: expects a whole number from {} to {}", option, text, least, most));
  }
  return value;
}

void require_choice(const std::string& option, const std::string& what, const std::string& value,
                    const std::vector<std::string>& accepted) {
  if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return;
  throw std::runtime_error(
      fmt::format("{} {}: there is no such {}; accepted: {}", option, value, what, fmt::join(accepted, ", ")));
}

}  // namespace meshbed::testbed
