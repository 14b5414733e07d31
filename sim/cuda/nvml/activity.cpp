// NVML: which programs use a device, and what happens on it.
#include <algorithm>
#include <utility>
#include <vector>

#include "plugin/base/units.h"
#include "sim/cuda/nvml/caller.h"
#include "sim/cuda/nvml/nvml.h"

namespace meshbed::sim::cuda {

using namespace nvml;

namespace {

constexpr unsigned long long kUnknownBytes = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE: memory is counted by device
constexpr unsigned kNoInstance = 0xffffffff;

/// Programs with a context on the device, by their process numbers. `count` has the room in `list`.
template <typename Entry, typename Make>
int list_processes(NvmlDevice device, unsigned* count, Entry* list, const Make& entry_of) {
  if (const int error = ready(device)) return error;
  if (count == nullptr) return kNvmlInvalidArgument;
  std::vector<unsigned> numbers;
  for (const auto& [process, driver] : system().drivers) {
    const bool uses = std::any_of(driver->contexts.begin(), driver->contexts.end(),
                                  [device](const auto& context) { return context->device == device; });
    if (uses) numbers.push_back(host().number_of(process));
  }
  std::sort(numbers.begin(), numbers.end());
  const unsigned room = std::exchange(*count, static_cast<unsigned>(numbers.size()));
  if (room < numbers.size()) return kNvmlInsufficientSize;
  if (list == nullptr) return numbers.empty() ? kNvmlSuccess : kNvmlInvalidArgument;
  std::transform(numbers.begin(), numbers.end(), list, entry_of);
  return kNvmlSuccess;
}

}  // namespace

// --- processes that use a device ---

int nvmlDeviceGetComputeRunningProcesses(NvmlDevice device, unsigned* count, NvmlProcess1* list) {
  return list_processes(device, count, list,
                        [](unsigned number) { return NvmlProcess1{.number = number, .used_bytes = kUnknownBytes}; });
}
int nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess2* list) {
  return list_processes(device, count, list, [](unsigned number) {
    return NvmlProcess2{
        .number = number, .used_bytes = kUnknownBytes, .gpu_instance = kNoInstance, .compute_instance = kNoInstance};
  });
}
int nvmlDeviceGetComputeRunningProcesses_v2(NvmlDevice device, unsigned* count, NvmlProcess2* list) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}

// --- events: none ever happens ---

int nvmlDeviceGetSupportedEventTypes(NvmlDevice device, unsigned long long* types) {
  constexpr unsigned long long kXidCritical = 8;  // nvmlEventTypeXidCriticalError
  return answer_of(device, types, [](const Device&) { return kXidCritical; });
}
int nvmlDeviceRegisterEvents(NvmlDevice device, unsigned long long types, NvmlEventSet* set) {
  if (const int error = ready(device)) return error;
  if (set == nullptr) return kNvmlInvalidArgument;
  unsigned long long supported = 0;
  nvmlDeviceGetSupportedEventTypes(device, &supported);
  if ((types & ~supported) != 0) return kNvmlNotSupported;
  set->types |= types;
  return kNvmlSuccess;
}
int nvmlEventSetCreate(NvmlEventSet** set) {
  if (const int error = ready()) return error;
  if (set == nullptr) return kNvmlInvalidArgument;
  *set = new NvmlEventSet;
  return kNvmlSuccess;
}
int nvmlEventSetWait_v2(NvmlEventSet* set, void* data, unsigned timeout_ms) {
  if (const int error = ready()) return error;
  if (set == nullptr || data == nullptr) return kNvmlInvalidArgument;
  host().sleep(static_cast<Picoseconds>(timeout_ms) * kPicosecondsPerMillisecond);
  return kNvmlTimeout;
}
int nvmlEventSetWait(NvmlEventSet* set, void* data, unsigned timeout_ms) {
  return nvmlEventSetWait_v2(set, data, timeout_ms);
}
int nvmlEventSetFree(NvmlEventSet* set) {
  if (set == nullptr) return kNvmlInvalidArgument;
  delete set;
  return kNvmlSuccess;
}

}  // namespace meshbed::sim::cuda
