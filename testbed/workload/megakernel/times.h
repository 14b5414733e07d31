#pragma once
// RingTimes: the duration of a megakernel's steps in virtual time. These are parameters, not measurements: unless a
// scenario sets it, the duration of a step is the target of an RFC, or zero if no reliable figure is published.
//
// Modelled: the launch; the host's writes of slots; a claim; the delay until a published slot or a raised flag is seen
// (poll); the time from a signal to the wire (host proxy: doorbell and the proxy's poll of it; device-initiated: the
// device's own doorbell to the NIC, without a proxy) and from the arrival of a message to its flag; the memory traffic
// of REDUCE and COPY, at a separate rate for every lane; COMPUTE. Not modelled: contention of lanes for memory and for
// atomics, PCIe, the instructions themselves. A device-initiated put goes over the same net plugin: only its times
// differ. models/queue.h has the equations; a profile (models/profiles) gives values with their sources.

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

/// The times in use, each with its source: "scenario", "RFC target" (vyre, commit ca35047), "none published", or the
/// source that a profile states. Times without a default are left out unless a profile or scenario gives them.
std::vector<RingTime> ring_times(const Megakernel& settings);

/// From SIGNAL until the proxy or the device acts on it, by initiation.
inline Picoseconds doorbell_of(const Megakernel& settings) {
  return settings.initiation == "device" ? settings.device_doorbell_ps : settings.doorbell_ps;
}
/// Time of the proxy's thread for each message; zero for a device, which posts by its doorbell.
inline Picoseconds post_of(const Megakernel& settings) {
  return settings.initiation == "device" ? 0 : settings.post_ps;
}
/// Time of the lane that rings an IBGDA doorbell; zero where a proxy rings it.
inline Picoseconds ring_of(const Megakernel& settings) {
  return settings.initiation == "device" ? settings.post_ps : 0;
}
/// The initiations to run, one after the other.
std::vector<std::string> initiations_of(const Megakernel& settings);
/// Whether hosts publish into a ring from which lanes claim; kernels of one operation each need no ring.
inline bool has_ring(const Megakernel& settings) { return settings.initiation != "launch"; }

/// A little more than three timeouts of a queue pair: it retransmits after 4.096 us * 2^18 (NCCL_IB_TIMEOUT's default)
/// and gives up after eight of them.
inline constexpr Picoseconds kPatience_ps = 13 * (4'096'000 * (Picoseconds{1} << 18U)) / 4;
inline constexpr Picoseconds kLaunchRfcTarget_ps = 50 * kPicosecondsPerMicrosecond;
inline constexpr Picoseconds kSlotWriteRfcTarget_ps = 200 * kPicosecondsPerNanosecond;

}  // namespace meshbed::testbed
