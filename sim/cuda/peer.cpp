// Devices to one another, of which the model knows no path: every question is answered so, and access is not given.
#include <algorithm>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr CUresult kPeerAccessNotEnabled = 705;

CUresult with_two(CUdevice device, CUdevice peer) {
  Caller caller;
  Device* found = nullptr;
  const CUresult error = with_device(device, caller, found);
  return error != kSuccess ? error : with_device(peer, caller, found);
}

CUresult without_path(CUdevice device, CUdevice peer, CUresult answer) {
  const CUresult error = with_two(device, peer);
  if (error != kSuccess) return error;
  return device == peer ? kInvalidDevice : answer;
}

/// Access of a device to its own pool is given; another's cannot be.
CUresult set_access(Pool* pool, const CUmemAccessDesc* access, std::size_t count) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (find_pool(*caller.driver, pool) == nullptr || (count > 0 && access == nullptr)) return kInvalidValue;
  for (std::size_t index = 0; index < count; ++index) {
    if (access[index].location.type != 1) return refuse("cuMemPoolSetAccess for something that is no device");
    if (find_device(*caller.driver, access[index].location.id) == nullptr) return kInvalidDevice;
    const bool own = access[index].location.id == pool->ordinal;
    if (own && access[index].flags == 0) return kInvalidDevice;  // its own device always reaches it
    if (!own && access[index].flags != 0) return kInvalidDevice;
  }
  return kSuccess;
}

CUresult get_access(int* flags, Pool* pool, CUmemLocation* location) {
  constexpr int kReadAndWrite = 3, kNone = 0;
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (flags == nullptr || location == nullptr || find_pool(*caller.driver, pool) == nullptr) return kInvalidValue;
  if (location->type != 1 || find_device(*caller.driver, location->id) == nullptr) return kInvalidDevice;
  *flags = location->id == pool->ordinal ? kReadAndWrite : kNone;
  return kSuccess;
}

}  // namespace

CUresult cuDeviceCanAccessPeer(int* answer, CUdevice device, CUdevice peer) {
  if (const CUresult error = with_two(device, peer)) return error;
  if (answer == nullptr) return kInvalidValue;
  *answer = 0;
  return kSuccess;
}

CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice device, CUdevice peer) {
  constexpr int kFirst = 1, kLast = 5;  // cuda.h's CUdevice_P2PAttribute
  if (value == nullptr || attribute < kFirst || attribute > kLast) return kInvalidValue;
  const CUresult error = without_path(device, peer, kSuccess);
  if (error == kSuccess) *value = 0;
  return error;
}

CUresult cuCtxEnablePeerAccess(Context* peer, unsigned flags) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (flags != 0) return kInvalidValue;
  if (find_context(*caller.driver, peer) == nullptr) return kInvalidContext;
  return kPeerAccessUnsupported;
}
CUresult cuCtxDisablePeerAccess(Context* peer) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  return find_context(*caller.driver, peer) != nullptr ? kPeerAccessNotEnabled : kInvalidContext;
}

CUresult cudaDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  return in_runtime([&] { return cuDeviceGetP2PAttribute(value, attribute, device, peer); });
}
CUresult cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    return flags != 0 ? kInvalidValue : without_path(caller.context->ordinal, peer, kPeerAccessUnsupported);
  });
}
CUresult cudaDeviceDisablePeerAccess(int peer) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    return without_path(caller.context->ordinal, peer, kPeerAccessNotEnabled);
  });
}

CUresult cuMemPoolSetAccess(Pool* pool, const CUmemAccessDesc* access, std::size_t count) {
  return set_access(pool, access, count);
}
CUresult cuMemPoolGetAccess(int* flags, Pool* pool, CUmemLocation* location) {
  return get_access(flags, pool, location);
}
CUresult cudaMemPoolSetAccess(Pool* pool, const CUmemAccessDesc* access, std::size_t count) {
  return in_runtime([&] { return set_access(pool, access, count); });
}
CUresult cudaMemPoolGetAccess(int* flags, Pool* pool, CUmemLocation* location) {
  return in_runtime([&] { return get_access(flags, pool, location); });
}

}  // namespace meshbed::sim::cuda
