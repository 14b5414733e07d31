#pragma once
// RingTimes: what a megakernel's steps take in virtual time. Parameters, not facts: where a scenario says nothing, a
// step takes what an RFC aims at, or nothing at all where nobody has published a figure that could be trusted.
//
// What is modelled: the launch; the host's writes of slots; a claim; how long a published slot or a raised flag goes
// unseen (poll); the way from a signal to the wire (host proxy: doorbell and the proxy's look at it; device-initiated:
// the device's own doorbell to the NIC, without a proxy) and from the arrival of a message to its flag; the memory
// traffic of REDUCE and COPY, at a rate that every lane has for itself; COMPUTE. What is not: contention of lanes for
// memory and for atomics, PCIe, the instructions themselves. A device-initiated put is carried by the same net plugin:
// only its times differ. models/queue.h has the equations; a profile (models/profiles) gives values with their sources.

#include <cstdint>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct RingTime {
  const char* name;
  double ns = 0;  // of a rate: bytes per second
  std::string source;
};

/// As it is used, each with its source: "scenario", "RFC target" (vyre, commit ca35047), "none published", or what a
/// profile says. Those that only profiles and scenarios give are left out where neither does.
std::vector<RingTime> ring_times(const Megakernel& settings);

/// From SIGNAL until who posts acts on it, by who initiates.
inline Picoseconds doorbell_of(const Megakernel& settings) {
  return settings.initiation == "device" ? settings.device_doorbell_ps : settings.doorbell_ps;
}
/// Of the proxy's thread for each message; a device posts by its doorbell.
inline Picoseconds post_of(const Megakernel& settings) {
  return settings.initiation == "device" ? 0 : settings.post_ps;
}
/// Whether there is a ring that hosts publish into and lanes claim from: kernels of one operation each know theirs.
inline bool has_ring(const Megakernel& settings) { return settings.initiation != "launch"; }

/// Three timeouts of a queue pair and a little: it sends again after 4.096 us * 2^18 (NCCL_IB_TIMEOUT's default), and
/// gives up after eight of those.
inline constexpr Picoseconds kPatience_ps = 13 * (4'096'000 * (Picoseconds{1} << 18U)) / 4;
inline constexpr Picoseconds kLaunchRfcTarget_ps = 50 * kPicosecondsPerMicrosecond;
inline constexpr Picoseconds kSlotWriteRfcTarget_ps = 200 * kPicosecondsPerNanosecond;

}  // namespace meshbed::testbed
