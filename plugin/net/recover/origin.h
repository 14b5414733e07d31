#pragma once
// Where a sending connection comes from.

#include <cstdint>

#include "plugin/net/wire/handle.h"

namespace meshbed::net {

class ProcessLinks;

/// What a sender keeps of its connection's beginning, to find the receiver again.
struct Origin {
  ProcessLinks* process = nullptr;
  Handle peer;
  int dev = 0;                     // asked for by the caller
  std::uint64_t session = 0;       // session_number()
  std::uint16_t service_port = 0;  // of the peer's process
};

}  // namespace meshbed::net
