// Start, errors and devices: cuInit, cuGetErrorName, cuDevice*.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

struct ErrorText {
  CUresult code;
  const char* driver;
  const char* runtime;
  const char* text;
};
constexpr ErrorText kErrors[] = {
#define MESHBED_CUDA_ERROR(code, driver, runtime, text) {code, driver, runtime, text},
#include "sim/cuda/errors.def"
#undef MESHBED_CUDA_ERROR
};

const ErrorText* find_error(CUresult code) {
  const auto* found =
      std::find_if(std::begin(kErrors), std::end(kErrors), [code](const ErrorText& one) { return one.code == code; });
  return found != std::end(kErrors) ? found : nullptr;
}

CUresult tell(CUresult code, const char** text, const char* ErrorText::*field) {
  if (text == nullptr) return kInvalidValue;
  const ErrorText* found = find_error(code);
  const bool known = found != nullptr && *found->driver != '\0';
  *text = known ? found->*field : nullptr;
  return known ? kSuccess : kInvalidValue;
}

CUresult with_device(CUdevice ordinal, Device*& device) {
  Caller caller;
  return with_device(ordinal, caller, device);
}

CUresult copy_text(char* target, int length, const std::string& text) {
  if (target == nullptr || length < 1) return kInvalidValue;
  std::snprintf(target, static_cast<std::size_t>(length), "%s", text.c_str());
  return kSuccess;
}

/// cuda.h's CUdevice_attribute; what is not listed is 0, as for a feature that the device does not have.
int attribute_of(const Device& device, int attribute) {
  const models::GpuModel& model = *device.model;
  constexpr int kMost = 2147483647, kMostThreads = 1024;
  switch (attribute) {
    case 1:
    case 2:
    case 3:
      return kMostThreads;  // threads a block, in x, in y
    case 4:
      return 64;  // in z
    case 5:
      return kMost;  // blocks in x
    case 6:
    case 7:
      return 65535;  // in y, in z
    case 8:
      return 48 * 1024;  // shared memory a block, not asked for
    case 9:
      return 64 * 1024;  // constant memory
    case 10:
      return 32;  // warp
    case 11:
      return kMost;  // pitch
    case 12:
    case 82:
      return model.registers_per_sm;  // a block's, an SM's
    case 14:
      return kTextureAlignment;
    case 21:
    case 22:
      return 1 << 17;  // a texture's width, of one dimension and of two
    case 23:
      return 1 << 16;  // and height
    case 24:
    case 25:
    case 26:
      return 1 << 14;  // each way, of three
    case 51:
      return kTexturePitchAlignment;
    case 15:
    case 19:
    case 31:
    case 41:
    case 78:
    case 83:
      return 1;  // overlap, mapped, concurrent, unified, priorities, managed
    case 16:
      return model.sms;
    case 18:
      return model.integrated ? 1 : 0;
    case 33:
      return pci_bus_of(device);
    case 38:
      return static_cast<int>(model.l2_bytes);
    case 39:
      return model.threads_per_sm;
    case 40:
      return 2;  // copy engines: in and out
    case 69:
      return kMostLinearTexels;
    case 70:
      return kMostPitchedWidth;
    case 71:
      return kMostPitchedRows;
    case 72:
      return kMostTexturePitch;
    case 75:
      return model.compute_major;
    case 76:
      return model.compute_minor;
    case 81:
      return static_cast<int>(model.shared_bytes_per_sm);
    case 91:
    case 95:
    case 99:
    case 102:
    case 103:
    case 115:
    case 122:
    case 123:
      return 1;  // registered, cooperative, VMM and its descriptors, pools, memory operations of streams
    case 120:
      return model.compute_major >= 9 ? 1 : 0;  // clusters
    case 124:
    case 125:
      return host().has_neighbours() ? 1 : 0;  // dma-bufs, which adapters take; events between processes
    case 97:
      return static_cast<int>(model.shared_bytes_per_block);
    case 106:
      return model.blocks_per_sm;
    default:
      return 0;
  }
}

}  // namespace

// The name shows that the device is simulated: software that needs a genuine device must not accept it.
std::string name_of(const Device& device) { return "Meshbed simulated " + device.model->name; }

int pci_bus_of(const Device& device) { return 0x10 + device.index; }

std::string pci_name(const Device& device) {
  char text[32];
  std::snprintf(text, sizeof(text), "0000:%02X:00.0", static_cast<unsigned>(pci_bus_of(device)));
  return text;
}

CUuuid uuid_of(const Device& device) {
  CUuuid uuid{};
  std::memcpy(uuid.bytes, "meshbed-sim", 12);
  uuid.bytes[12] = static_cast<char>(device.node >> 16);
  uuid.bytes[13] = static_cast<char>(device.node >> 8);
  uuid.bytes[14] = static_cast<char>(device.node);
  uuid.bytes[15] = static_cast<char>(device.index);
  return uuid;
}

CUresult cuInit(unsigned flags) {
  Driver* driver = current_driver();
  if (driver == nullptr || driver->devices.empty()) return kNoDevice;
  if (flags != 0) return kInvalidValue;
  driver->initialized = true;
  return kSuccess;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kCudaVersion;
  return kSuccess;
}

const char* error_text(CUresult code) {
  const ErrorText* found = find_error(code);
  return found != nullptr ? found->text : "unrecognized error code";
}

CUresult cuGetErrorName(CUresult error, const char** text) { return tell(error, text, &ErrorText::driver); }
CUresult cuGetErrorString(CUresult error, const char** text) { return tell(error, text, &ErrorText::text); }

const char* cudaGetErrorName(CUresult error) {
  const ErrorText* found = find_error(error);
  return found != nullptr && *found->runtime != '\0' ? found->runtime : "unrecognized error code";
}
const char* cudaGetErrorString(CUresult error) {
  const ErrorText* found = find_error(error);
  return found != nullptr && *found->runtime != '\0' ? found->text : "unrecognized error code";
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found = nullptr;
  const CUresult error = with_device(ordinal, found);
  if (error != kSuccess) return error;
  if (device == nullptr) return kInvalidValue;
  *device = ordinal;
  return kSuccess;
}

CUresult cuDeviceGetCount(int* count) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (count == nullptr) return kInvalidValue;
  *count = static_cast<int>(caller.driver->devices.size());
  return kSuccess;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  Device* found = nullptr;
  const CUresult error = with_device(device, found);
  return error != kSuccess ? error : copy_text(name, length, name_of(*found));
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  Device* found = nullptr;
  const CUresult error = with_device(device, found);
  if (error != kSuccess) return error;
  if (uuid == nullptr) return kInvalidValue;
  *uuid = uuid_of(*found);
  return kSuccess;
}

CUresult cuDeviceTotalMem_v2(std::size_t* size, CUdevice device) {
  Device* found = nullptr;
  const CUresult error = with_device(device, found);
  if (error != kSuccess) return error;
  if (size == nullptr) return kInvalidValue;
  *size = found->model->memory_bytes;
  return kSuccess;
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  constexpr int kLastAttribute = 147;  // of CUDA 13.0
  Device* found = nullptr;
  const CUresult error = with_device(device, found);
  if (error != kSuccess) return error;
  if (value == nullptr || attribute < 1 || attribute > kLastAttribute) return kInvalidValue;
  *value = attribute_of(*found, attribute);
  return kSuccess;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  Device* found = nullptr;
  const CUresult error = with_device(device, found);
  return error != kSuccess ? error : copy_text(text, length, pci_name(*found));
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (device == nullptr || text == nullptr) return kInvalidValue;
  const auto& devices = caller.driver->devices;
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const Device* one) { return pci_name(*one) == text; });
  if (found == devices.end()) return kInvalidDevice;
  *device = static_cast<CUdevice>(found - devices.begin());
  return kSuccess;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  Device* found = nullptr;
  if (const CUresult error = with_device(device, found)) return error;
  if (major == nullptr || minor == nullptr) return kInvalidValue;
  *major = found->model->compute_major;
  *minor = found->model->compute_minor;
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
