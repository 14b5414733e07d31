#pragma once
// RingTimes: what a megakernel's steps take in virtual time. Parameters, not facts: where a scenario says nothing, a
// step takes what an RFC aims at, or nothing at all where nobody has published a figure that could be trusted.
//
// What is modelled: the launch; the host's writes of slots; a claim; how long a published slot or a raised flag goes
// unseen (poll); the way from a signal to the wire (host proxy: doorbell and the proxy's look at it; device-initiated:
// the device's own doorbell to the NIC, without a proxy) and from the arrival of a message to its flag; the memory
// traffic of REDUCE and COPY, at a rate that every lane has for itself; COMPUTE. What is not: contention of lanes for
// memory and for atomics, occupancy, PCIe, the instructions themselves. A device-initiated put is carried by the same
// net plugin: only its times differ.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/scenario/scenario.h"

namespace meshbed::cli {

struct RingTime {
  const char* name;
  double ns = 0;  // of a rate: bytes per second
  const char* source;
};

/// As it is used, each with its source: "scenario", "RFC target" (vyre, commit ca35047), "none published".
std::vector<RingTime> ring_times(const Megakernel& settings);

inline constexpr Picoseconds kLaunchRfcTarget_ps = 50 * kPicosecondsPerMicrosecond;
inline constexpr Picoseconds kSlotWriteRfcTarget_ps = 200 * kPicosecondsPerNanosecond;

}  // namespace meshbed::cli
