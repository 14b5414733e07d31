#pragma once
// Descriptors that other rooms of the simulator hand to a rank: pollable, fcntl-able, without data of their own.
//
// The verbs back end backs ibv_context::async_fd and ibv_comp_channel::fd with them. Numbers start at kFirstDescriptor,
// so that the real files of the process pass beside them. All calls may come from events as well as from threads.

#include "sim/engine/world.h"

namespace meshbed::sim {

/// Simulated descriptors are at least this; smaller ones belong to the real operating system.
inline constexpr int kFirstDescriptor = 1 << 20;

/// A new blocking descriptor of `process` that is not readable. It is never writable, and read() fails with EINVAL.
int make_event_descriptor(Process& process);
/// Level-triggered: POLLIN holds until it is set back. Wakes pollers and signals the process where it turns true.
void set_readable(Process& process, int descriptor, bool readable);
/// The last setting by fcntl(F_SETFL, O_NONBLOCK) or ioctl(FIONBIO); false for a descriptor that is not open.
bool is_nonblocking(Process& process, int descriptor);
/// Closes it; a number that is not open is left alone.
void close_descriptor(Process& process, int descriptor);

}  // namespace meshbed::sim
