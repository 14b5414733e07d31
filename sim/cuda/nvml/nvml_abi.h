#pragma once
// Types of NVML's interface as nvml.h (version 13) lays them out. Source: nvml.h of NVIDIA's CUDA toolkit.

#include <cstdint>

namespace meshbed::sim::cuda {

struct Device;
/// nvmlDevice_t: opaque to callers.
using NvmlDevice = const Device*;

enum NvmlResult : int {
  kNvmlSuccess = 0,
  kNvmlUninitialized = 1,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlNotFound = 6,
  kNvmlInsufficientSize = 7,
  kNvmlDriverNotLoaded = 9,
  kNvmlTimeout = 10,
  kNvmlVersionMismatch = 25,
};

struct NvmlPciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;  // the device's in the upper 16 bits, the vendor's in the lower
  char bus_id[32];
};
struct NvmlPciInfoExt {
  unsigned version;
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  unsigned base_class, sub_class;
  char bus_id[32];
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct NvmlConfComputeState {
  unsigned environment, feature, dev_tools_mode;
};
struct NvmlFabricInfo {
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
};
struct NvmlProcess1 {
  unsigned number;
  unsigned long long used_bytes;
};
struct NvmlProcess2 {
  unsigned number;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct NvmlFieldValue {
  unsigned field_id, scope_id;
  long long timestamp_us, latency_us;
  int type;
  int result;
  unsigned long long value;
};
/// A structure that begins with its size (lower 24 bits) and its version (upper 8 bits).
struct NvmlVersioned {
  unsigned version;
};
/// nvmlEventSet_t.
struct NvmlEventSet {
  unsigned long long types = 0;
};

static_assert(sizeof(NvmlPciInfo) == 68 && sizeof(NvmlPciInfoExt) == 64 && sizeof(NvmlMemory2) == 40);
static_assert(sizeof(NvmlFieldValue) == 40 && sizeof(NvmlFabricInfo) == 28);

}  // namespace meshbed::sim::cuda
