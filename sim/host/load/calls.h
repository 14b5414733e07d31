#pragma once
// What the redirected calls share: finding the file behind a descriptor.

#include <memory>

#include "sim/host/host_state.h"

namespace meshbed::sim {

/// The call is not ours: outside of a simulated thread, or on a descriptor of the real operating system.
inline bool is_real(int descriptor) { return outside() || !is_simulated(descriptor); }

/// The file behind a simulated descriptor of the current process; nullptr where it is not open (EBADF).
inline std::shared_ptr<File> file_at(int descriptor) { return current_state().descriptors.find(descriptor); }

/// Before the first rank's program: no rank can close what is open now.
void note_descriptors_of_command();

/// True where a call on `file` may wait; `flags` as in recv(2).
inline bool may_block(const File& file, int flags) { return !file.nonblocking && (flags & MSG_DONTWAIT) == 0; }

}  // namespace meshbed::sim
