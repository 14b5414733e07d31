#pragma once
// The common part of NVML's calls: the caller and the device.

#include <algorithm>
#include <cstring>
#include <vector>

#include "sim/cuda/host.h"
#include "sim/cuda/nvml/nvml_abi.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda::nvml {

/// The calling program; nullptr: no simulation is there.
inline ProcessKey caller() { return has_host() ? host().process() : nullptr; }

/// Between nvmlInit() and nvmlShutdown().
inline int ready() {
  const ProcessKey process = caller();
  if (process == nullptr) return kNvmlDriverNotLoaded;
  return system().nvml_users[process] > 0 ? kNvmlSuccess : kNvmlUninitialized;
}

inline std::vector<Device>& devices() { return system().devices[static_cast<std::size_t>(host().node_of(caller()))]; }

inline bool is_here(NvmlDevice device) {
  const std::vector<Device>& all = devices();
  return std::any_of(all.begin(), all.end(), [device](const Device& one) { return &one == device; });
}

/// ready(), and `device` is one of the node's.
inline int ready(NvmlDevice device) {
  const int error = ready();
  if (error != kNvmlSuccess) return error;
  return is_here(device) ? kNvmlSuccess : kNvmlInvalidArgument;
}

template <typename Answer, typename Value>
int answer_of(NvmlDevice device, Answer* answer, const Value& value_of) {
  if (const int error = ready(device)) return error;
  if (answer == nullptr) return kNvmlInvalidArgument;
  *answer = value_of(*device);
  return kNvmlSuccess;
}

/// What follows the version becomes 0: "none" in every structure where this is used.
inline int clear(NvmlVersioned* structure) {
  constexpr unsigned kSizeBits = 24, kMostBytes = 4096;
  if (structure == nullptr) return kNvmlInvalidArgument;
  const unsigned bytes = structure->version & ((1U << kSizeBits) - 1);
  if (bytes < sizeof(*structure) || bytes > kMostBytes) return kNvmlVersionMismatch;
  std::memset(reinterpret_cast<char*>(structure) + sizeof(*structure), 0, bytes - sizeof(*structure));
  return kNvmlSuccess;
}

}  // namespace meshbed::sim::cuda::nvml
