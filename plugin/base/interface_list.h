#pragma once
// How NCCL_SOCKET_IFNAME chooses interfaces by name: a list of beginnings, with "=" at its start of whole names, with
// "^" of those to leave out. Pure.

#include <cstddef>
#include <optional>
#include <string_view>

namespace meshbed {

/// How the list places an interface: the position of the entry that lets it in (0 where "^" does or nothing is named);
/// nullopt: left out.
std::optional<std::size_t> interface_place(std::string_view list, std::string_view netdev);
/// The list has an entry that is this whole name, to use it.
bool names_exactly(std::string_view list, std::string_view netdev);
/// The list names interfaces to use, and not those to leave out.
bool names_interfaces(std::string_view list);

}  // namespace meshbed
