// NVML: what lies between devices. No model has links from one GPU to another.
#include "plugin/base/units.h"
#include "sim/cuda/nvml/caller.h"
#include "sim/cuda/nvml/nvml.h"

namespace meshbed::sim::cuda {

using namespace nvml;

namespace {

constexpr unsigned kLinks = 18;  // that software asks for; all are inactive

int link_answer(NvmlDevice device, unsigned link, int answer) {
  if (const int error = ready(device)) return error;
  return link < kLinks ? answer : kNvmlInvalidArgument;
}

}  // namespace

int nvmlDeviceGetNvLinkState(NvmlDevice device, unsigned link, int* active) {
  const int error = link_answer(device, link, active != nullptr ? kNvmlSuccess : kNvmlInvalidArgument);
  if (error == kNvmlSuccess) *active = 0;
  return error;
}
int nvmlDeviceGetNvLinkCapability(NvmlDevice device, unsigned link, int, unsigned* result) {
  const int error = link_answer(device, link, result != nullptr ? kNvmlSuccess : kNvmlInvalidArgument);
  if (error == kNvmlSuccess) *result = 0;
  return error;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice device, unsigned link, NvmlPciInfo*) {
  return link_answer(device, link, kNvmlNotSupported);
}
int nvmlDeviceGetNvLinkRemotePciInfo(NvmlDevice device, unsigned link, NvmlPciInfo* info) {
  return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, info);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice device, unsigned link, int*) {
  return link_answer(device, link, kNvmlNotSupported);
}

// As cuDeviceCanAccessPeer(): a device reaches itself alone.
int nvmlDeviceGetP2PStatus(NvmlDevice device, NvmlDevice peer, int index, int* status) {
  constexpr int kOk = 0, kNotSupportedHere = 5, kIndices = 5;  // NVML_P2P_STATUS_*, NVML_P2P_CAPS_INDEX_*
  if (const int error = ready(device)) return error;
  if (!is_here(peer) || index < 0 || index >= kIndices || status == nullptr) return kNvmlInvalidArgument;
  *status = device == peer ? kOk : kNotSupportedHere;
  return kNvmlSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(NvmlDevice device, NvmlDevice peer, int* level) {
  constexpr int kInternal = 0, kNode = 40;  // NVML_TOPOLOGY_*: the same board, the same NUMA node
  if (const int error = ready(device)) return error;
  if (!is_here(peer) || level == nullptr) return kNvmlInvalidArgument;
  *level = device == peer ? kInternal : kNode;
  return kNvmlSuccess;
}

int nvmlDeviceGetFieldValues(NvmlDevice device, int count, NvmlFieldValue* values) {
  constexpr unsigned kLinkCount = 91;  // NVML_FI_DEV_NVLINK_LINK_COUNT
  constexpr int kUnsigned = 1;         // NVML_VALUE_TYPE_UNSIGNED_INT
  if (const int error = ready(device)) return error;
  if (values == nullptr || count < 1) return kNvmlInvalidArgument;
  for (int index = 0; index < count; ++index) {
    NvmlFieldValue& one = values[index];
    const bool is_known = one.field_id == kLinkCount;
    one = {.field_id = one.field_id,
           .scope_id = one.scope_id,
           .timestamp_us = host().now() / kPicosecondsPerMicrosecond,
           .latency_us = 0,
           .type = kUnsigned,
           .result = is_known ? kNvmlSuccess : kNvmlNotSupported,
           .value = 0};
  }
  return kNvmlSuccess;
}

// NVML_GPU_FABRIC_STATE_NOT_SUPPORTED is 0.
int nvmlDeviceGetGpuFabricInfo(NvmlDevice device, NvmlFabricInfo* info) {
  return answer_of(device, info, [](const Device&) { return NvmlFabricInfo{}; });
}
int nvmlDeviceGetGpuFabricInfoV(NvmlDevice device, NvmlVersioned* info) {
  const int error = ready(device);
  return error != kNvmlSuccess ? error : clear(info);
}
int nvmlDeviceGetPlatformInfo(NvmlDevice device, NvmlVersioned*) {
  const int error = ready(device);
  return error != kNvmlSuccess ? error : static_cast<int>(kNvmlNotSupported);
}

}  // namespace meshbed::sim::cuda
