#pragma once
// The number of a circuit, and the relays that it goes through.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/net/wire/neighbour_map.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

/// A circuit through relays, as its sender knows it.
struct CircuitStart {
  std::uint64_t number = 0;
  std::uint8_t hop_limit = 0;
  std::vector<Hop> hops{};
  std::string relays{};  // their addresses, the nearest first: "192.168.100.2, 192.168.101.3"
};

}  // namespace meshbed::net
