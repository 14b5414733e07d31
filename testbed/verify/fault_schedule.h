#pragma once
// Random fault schedules: a scenario file from a number. A small cluster (pairs with up to three rails, rings, lines,
// stars, a full mesh) with a small workload: a collective, or short connections with grouped receives. During the run
// cables, ports and nodes fail and recover, interfaces get other addresses, a rank is late, and sometimes a node loses
// its power permanently. Equal numbers give equal files, on every machine.

#include <cstdint>
#include <string>

namespace meshbed::testbed {

enum class Schedules {
  kAny,
  kGpuRails,  // pairs, rings and lines with several cables each; grouped receives into GPU memory, striped
};

/// The text of a scenario file. But for a node that loses its power and an address that stays another one, its faults
/// end soon enough for every connection to be taken up again. Right is what its [expect] says.
std::string fault_schedule(std::uint64_t seed, Schedules which = Schedules::kAny);

}  // namespace meshbed::testbed
