#pragma once
// Which client is dropped where more wait than may: one that is not spared before one that is, and of those one from
// the address with the most of them; so a thousand connections of one machine displace each other, and not another
// machine's single one.

#include <cstddef>
#include <optional>
#include <span>

#include "plugin/base/address.h"

namespace meshbed {

/// A client that waits.
struct Waiting {
  IpAddress from;
  bool spared = false;  // as long as there are others
};

/// The one of `waiting`, in the order of their arrival, that has waited longest of the largest crowd; nullopt: there is
/// none.
std::optional<std::size_t> select_victim(std::span<const Waiting> waiting);

}  // namespace meshbed
