#include "plugin/base/interface_list.h"

#include <algorithm>

#include "plugin/base/name_list.h"

namespace meshbed {

bool names_interfaces(std::string_view list) {
  const NameList names = read_name_list(list);
  return !names.excludes && !names.entries.empty();
}

bool names_exactly(std::string_view list, std::string_view netdev) {
  const NameList names = read_name_list(list);
  return !names.excludes && std::find(names.entries.begin(), names.entries.end(), netdev) != names.entries.end();
}

std::optional<std::size_t> interface_place(std::string_view list, std::string_view netdev) {
  const NameList names = read_name_list(list);
  if (names.entries.empty()) return 0;
  for (std::size_t place = 0; place < names.entries.size(); ++place) {
    if (names.fits(names.entries[place], netdev)) return names.excludes ? std::nullopt : std::optional(place);
  }
  return names.excludes ? std::optional<std::size_t>(0) : std::nullopt;
}

}  // namespace meshbed
