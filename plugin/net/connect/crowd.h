#pragma once
// Who has to go where more wait than may: strangers before neighbours, and of those one from the address that most of
// them come from; so a thousand connections of one machine drive out each other, and not another machine's one.

#include <cstddef>
#include <optional>
#include <span>

#include "plugin/net/process/address.h"

namespace meshbed::net {

/// Somebody who waits.
struct Waiting {
  IpAddress from;
  bool spared = false;  // as long as there are others
};

/// The one of `waiting`, in the order in which they came, who has waited longest of the largest crowd; nullopt: there
/// is none.
std::optional<std::size_t> who_goes(std::span<const Waiting> waiting);

}  // namespace meshbed::net
