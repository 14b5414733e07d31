#pragma once
// Shared memory: pages that another process maps by a descriptor that it was handed.
//
// A memfd, not shm_open: it has no name anywhere, so that nothing is left of it when the last process that holds it is
// gone, for any reason, and no other process can open it.

#include <cstddef>
#include <memory>

#include "plugin/base/descriptor.h"
#include "plugin/base/result.h"

namespace meshbed::local {

struct SharedMemory {
  Descriptor descriptor;        // to be handed on
  std::shared_ptr<void> begin;  // zeros at first
};

/// kSystem: the kernel's reason.
Result<SharedMemory> create_shared(std::size_t size_bytes);
/// Another process's. kRemote: it is of another size, or could shrink below our feet.
Result<SharedMemory> map_shared(Descriptor descriptor, std::size_t size_bytes);

}  // namespace meshbed::local
