#pragma once
// Random fault schedules: from a number to a scenario file. A small cluster, a small all-reduce, and cables, ports and
// nodes that fail and come back while it runs. Equal numbers give equal files, on every machine.

#include <cstdint>
#include <string>

namespace meshbed::cli {

struct FaultSchedule {
  std::string toml;
  /// Whether the run may end with an error: a connection may be on its way through relays, which keep no message, when
  /// another fault hits that way. Never may it end with wrong data, or not at all.
  bool may_fail = false;
};

FaultSchedule fault_schedule(std::uint64_t seed);

}  // namespace meshbed::cli
