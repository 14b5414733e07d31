#include "plugin/base/hca_list.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "plugin/base/name_list.h"

namespace meshbed {
namespace {

/// "name:port:rail:plane", each but the first may be missing.
struct Entry {
  std::string_view name, port, rail, plane;
};

Entry split(std::string_view text) {
  const auto cut = [&text] {
    const std::size_t end = std::min(text.find(':'), text.size());
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return first;
  };
  Entry entry;
  entry.name = cut();
  entry.port = cut();
  entry.rail = cut();
  entry.plane = text;
  return entry;
}

/// -1: it is no number from 0 to 32767.
std::int16_t identity(std::string_view text) {
  int number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || (number = 10 * number + (digit - '0')) > INT16_MAX) return -1;
  }
  return static_cast<std::int16_t>(text.empty() ? -1 : number);
}

bool is_port(std::string_view text) {
  constexpr int kLargest = UINT8_MAX;
  const int number = identity(text);
  return number >= 1 && number <= kLargest && text == std::to_string(number);
}

std::string entry_problem(std::string_view text) {
  const Entry entry = split(text);
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (entry.name.empty()) return quoted + " has no name, and is left out";
  if (!entry.port.empty() && !is_port(entry.port)) {
    return quoted + " fits no port, for they are numbered from 1 to 255: \"" + std::string(entry.port) + "\"";
  }
  if (text.back() == ':' && entry.port.empty() && entry.rail.empty())
    return quoted + " has no port behind its colon, and fits all of them";
  for (const auto& [value, what] : {std::pair{entry.rail, "rail"}, {entry.plane, "plane"}}) {
    if (value.empty() || identity(value) >= 0) continue;
    return "the " + std::string(what) + " of " + quoted + " is no number from 0 to 32767, and not taken";
  }
  return "";
}

}  // namespace

HcaChoice hca_choice(std::string_view list, std::string_view device, int port) {
  const NameList names = read_name_list(list);
  if (names.entries.empty()) return {.allowed = true};
  for (const std::string_view text : names.entries) {
    const Entry entry = split(text);
    const bool port_fits = entry.port.empty() || entry.port == std::to_string(port);
    if (!port_fits || !names.fits(entry.name, device)) continue;
    if (names.excludes) return {};
    return {.allowed = true, .rail = identity(entry.rail), .plane = identity(entry.plane)};
  }
  return {.allowed = names.excludes};
}

std::string hca_list_problem(std::string_view list) {
  std::string problem = name_list_problem(list);
  for (const std::string_view entry : read_name_list(list).entries) {
    const std::string what = entry.empty() ? "" : entry_problem(entry);
    if (!what.empty()) problem += (problem.empty() ? "" : "; ") + what;
  }
  return problem;
}

}  // namespace meshbed
