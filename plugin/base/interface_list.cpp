#include "plugin/base/interface_list.h"

#include <algorithm>

namespace meshbed {
namespace {

bool begins_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

}  // namespace

bool names_interfaces(std::string_view list) { return !list.empty() && list.front() != '^' && list != "="; }

std::optional<std::size_t> interface_place(std::string_view list, std::string_view netdev) {
  const bool excludes = begins_with(list, "^");
  if (excludes) list.remove_prefix(1);
  const bool whole_names = begins_with(list, "=");
  if (whole_names) list.remove_prefix(1);
  if (list.empty()) return 0;
  for (std::size_t place = 0; !list.empty(); ++place) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const bool fits = whole_names ? netdev == entry : begins_with(netdev, entry);
    if (!entry.empty() && fits) return excludes ? std::nullopt : std::optional(place);
  }
  return excludes ? std::optional<std::size_t>(0) : std::nullopt;
}

}  // namespace meshbed
