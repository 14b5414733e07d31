#pragma once
// Null wire: a libibverbs.so.1 with one device whose queue pairs are all in this process, and which does as little as
// possible: a write is a copy into the peer's memory and its completions. The remaining cost of a message is the
// plugin's.
//
// No reads, no atomics, no memory protection: only what the data path over a cable needs. Any thread may call any verb;
// there is one lock.

#include <cstddef>
#include <cstdint>

namespace meshbed::cost {

/// The device's, /24. Two, so that what has no path to its own address, as a relay, has one to the other. Their
/// interface is there for programs that are linked with null_interface.cpp.
inline constexpr std::uint8_t kNullAddresses[2][4] = {{127, 94, 0, 1}, {127, 94, 0, 2}};

/// What work requests go through; callgrind stops counting in functions whose name begins so.
inline constexpr const char* kNullWirePrefix = "meshbed_null_wire_";

/// The longest write but for a message's own bytes: eight clear-to-sends.
inline constexpr std::size_t kControlBytesMost = 256;

}  // namespace meshbed::cost

/// From now on a write copies no more than the first `bytes` of each piece of memory that it names, as an adapter would
/// take none of the caller's time for the rest.
extern "C" void meshbed_null_wire_copy_at_most(std::size_t bytes);
/// While it is silent channels announce nothing; afterwards they do, for each armed queue that has completions.
extern "C" void meshbed_null_wire_be_silent(bool silent);
