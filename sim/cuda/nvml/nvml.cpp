#include "sim/cuda/nvml/nvml.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "plugin/base/log.h"
#include "sim/cuda/nvml/caller.h"

namespace meshbed::sim::cuda {

using namespace nvml;

namespace {

// The first driver with CUDA 13.0; the rest of the text shows that it is simulated, as a device's name does.
constexpr const char *kDriverVersion = "580.0.0-meshbed", *kNvmlVersion = "13.580.0-meshbed";

int copy_text(char* target, unsigned length, const std::string& text) {
  if (target == nullptr) return kNvmlInvalidArgument;
  if (length <= text.size()) return kNvmlInsufficientSize;
  std::memcpy(target, text.c_str(), text.size() + 1);
  return kNvmlSuccess;
}

template <typename Found>
int find_device(NvmlDevice* device, const Found& found) {
  if (const int error = ready()) return error;
  if (device == nullptr) return kNvmlInvalidArgument;
  const std::vector<Device>& all = devices();
  const auto place = std::find_if(all.begin(), all.end(), found);
  if (place == all.end()) return kNvmlNotFound;
  *device = &*place;
  return kNvmlSuccess;
}

/// "00000000:10:00.0"; the driver's name for it has a domain of four digits.
std::string long_pci_name(const Device& device) { return "0000" + pci_name(device); }

std::string uuid_text(const Device& device) {
  const CUuuid uuid = uuid_of(device);
  std::string text = "GPU-";
  for (std::size_t index = 0; index < sizeof(uuid.bytes); ++index) {
    char byte[3];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned char>(uuid.bytes[index]));
    text += (index == 4 || index == 6 || index == 8 || index == 10 ? "-" : "") + std::string(byte);
  }
  return text;
}

/// Of a link of 16 lanes with this rate: 4, 8, 16, 32, 64 GB/s before coding (PCI Express base specification). 0: an
/// integrated GPU has none.
unsigned pcie_generation(const models::GpuModel& model) {
  if (model.integrated) return 0;
  unsigned generation = 1;
  for (std::uint64_t rate = 4'000'000'000; rate < model.link_bytes_per_second; rate *= 2) ++generation;
  return generation;
}

int pcie_answer(NvmlDevice device, unsigned* answer, unsigned (*value)(const models::GpuModel& model)) {
  if (const int error = ready(device)) return error;
  if (answer == nullptr) return kNvmlInvalidArgument;
  if (device->model->integrated) return kNvmlNotSupported;
  *answer = value(*device->model);
  return kNvmlSuccess;
}

/// nvml.h's NVML_DEVICE_ARCH_*.
unsigned architecture_of(const models::GpuModel& model) {
  constexpr unsigned kVolta = 5, kTuring = 6, kAmpere = 7, kAda = 8, kHopper = 9, kBlackwell = 10;
  switch (model.compute_major) {
    case 7:
      return model.compute_minor < 5 ? kVolta : kTuring;
    case 8:
      return model.compute_minor < 9 ? kAmpere : kAda;
    case 9:
      return kHopper;
    case 10:
    case 11:
    case 12:
      return kBlackwell;
    default:
      return 0xffffffff;  // unknown
  }
}

}  // namespace

int refuse_nvml(const char* name) {
  if (!has_host()) return kNvmlDriverNotLoaded;
  if (system().refused.insert(name).second) {
    MESHBED_WARN("%s is not implemented in the simulated NVML: NVML_ERROR_NOT_SUPPORTED", name);
  }
  return kNvmlNotSupported;
}

// --- the library ---

int nvmlInitWithFlags(unsigned) {
  const ProcessKey process = caller();
  if (process == nullptr) return kNvmlDriverNotLoaded;
  ++system().nvml_users[process];
  return kNvmlSuccess;
}
int nvmlInit() { return nvmlInitWithFlags(0); }
int nvmlInit_v2() { return nvmlInitWithFlags(0); }

int nvmlShutdown() {
  if (const int error = ready()) return error;
  --system().nvml_users[caller()];
  return kNvmlSuccess;
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case kNvmlSuccess:
      return "Success";
    case kNvmlUninitialized:
      return "Uninitialized";
    case kNvmlInvalidArgument:
      return "Invalid Argument";
    case kNvmlNotSupported:
      return "Not Supported";
    case kNvmlNotFound:
      return "Not Found";
    case kNvmlInsufficientSize:
      return "Insufficient Size";
    case kNvmlDriverNotLoaded:
      return "Driver Not Loaded";
    case kNvmlTimeout:
      return "Timeout";
    case kNvmlVersionMismatch:
      return "Argument Version Mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  if (const int error = ready()) return error;
  return copy_text(text, length, kDriverVersion);
}
int nvmlSystemGetNVMLVersion(char* text, unsigned length) { return copy_text(text, length, kNvmlVersion); }
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return kNvmlInvalidArgument;
  *version = kCudaVersion;
  return kNvmlSuccess;
}
int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

int nvmlSystemGetConfComputeState(NvmlConfComputeState* state) {
  if (const int error = ready()) return error;
  if (state == nullptr) return kNvmlInvalidArgument;
  *state = {};
  return kNvmlSuccess;
}
int nvmlSystemGetConfComputeSettings(NvmlVersioned* settings) {
  const int error = ready();
  return error != kNvmlSuccess ? error : clear(settings);
}

// --- finding a device ---

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (const int error = ready()) return error;
  if (count == nullptr) return kNvmlInvalidArgument;
  *count = static_cast<unsigned>(devices().size());
  return kNvmlSuccess;
}
int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  const int error =
      find_device(device, [index](const Device& one) { return static_cast<unsigned>(one.index) == index; });
  return error == kNvmlNotFound ? static_cast<int>(kNvmlInvalidArgument) : error;
}
int nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* text, NvmlDevice* device) {
  if (text == nullptr) return kNvmlInvalidArgument;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2) return kNvmlInvalidArgument;
  }
  return find_device(device, [&](const Device& one) {
    return domain == 0 && slot == 0 && function == 0 && pci_bus_of(one) == static_cast<int>(bus);
  });
}
int nvmlDeviceGetHandleByPciBusId(const char* text, NvmlDevice* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

int nvmlDeviceGetHandleByUUID(const char* text, NvmlDevice* device) {
  if (text == nullptr) return kNvmlInvalidArgument;
  return find_device(device, [text](const Device& one) { return uuid_text(one) == text; });
}

// --- what a device is ---

int nvmlDeviceGetIndex(NvmlDevice device, unsigned* index) {
  return answer_of(device, index, [](const Device& one) { return static_cast<unsigned>(one.index); });
}
int nvmlDeviceGetMinorNumber(NvmlDevice device, unsigned* number) { return nvmlDeviceGetIndex(device, number); }

int nvmlDeviceGetName(NvmlDevice device, char* text, unsigned length) {
  const int error = ready(device);
  return error != kNvmlSuccess ? error : copy_text(text, length, name_of(*device));
}
int nvmlDeviceGetUUID(NvmlDevice device, char* text, unsigned length) {
  const int error = ready(device);
  return error != kNvmlSuccess ? error : copy_text(text, length, uuid_text(*device));
}
int nvmlDeviceGetBrand(NvmlDevice device, int* brand) {
  constexpr int kNvidia = 14;  // NVML_BRAND_NVIDIA
  return answer_of(device, brand, [](const Device&) { return kNvidia; });
}
int nvmlDeviceGetArchitecture(NvmlDevice device, unsigned* number) {
  return answer_of(device, number, [](const Device& one) { return architecture_of(*one.model); });
}
int nvmlDeviceGetCudaComputeCapability(NvmlDevice device, int* major, int* minor) {
  if (major == nullptr) return kNvmlInvalidArgument;
  const int error = answer_of(device, minor, [](const Device& one) { return one.model->compute_minor; });
  if (error == kNvmlSuccess) *major = device->model->compute_major;
  return error;
}

int nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo* info) {
  return answer_of(device, info, [](const Device& one) {
    NvmlPciInfo made{};
    made.bus = static_cast<unsigned>(pci_bus_of(one));
    std::snprintf(made.legacy_bus_id, sizeof(made.legacy_bus_id), "%s", pci_name(one).c_str());
    std::snprintf(made.bus_id, sizeof(made.bus_id), "%s", long_pci_name(one).c_str());
    return made;
  });
}
int nvmlDeviceGetPciInfo_v2(NvmlDevice device, NvmlPciInfo* info) { return nvmlDeviceGetPciInfo_v3(device, info); }
/// Its structure ends before the long name.
int nvmlDeviceGetPciInfo(NvmlDevice device, NvmlPciInfo* info) {
  if (info == nullptr) return kNvmlInvalidArgument;
  NvmlPciInfo made{};
  const int error = nvmlDeviceGetPciInfo_v3(device, &made);
  constexpr std::size_t kOldBytes = offsetof(NvmlPciInfo, bus_id);
  if (error == kNvmlSuccess) std::memcpy(static_cast<void*>(info), &made, kOldBytes);
  return error;
}
int nvmlDeviceGetPciInfoExt(NvmlDevice device, NvmlPciInfoExt* info) {
  constexpr unsigned kVersion1 = sizeof(NvmlPciInfoExt) | (1U << 24U);
  constexpr unsigned kDisplayController = 3, k3d = 2;  // PCI code and ID assignment specification
  if (const int error = ready(device)) return error;
  if (info == nullptr) return kNvmlInvalidArgument;
  if (info->version != kVersion1) return kNvmlVersionMismatch;
  *info = {.version = kVersion1,
           .domain = 0,
           .bus = static_cast<unsigned>(pci_bus_of(*device)),
           .device = 0,
           .device_id = 0,
           .subsystem_id = 0,
           .base_class = kDisplayController,
           .sub_class = k3d,
           .bus_id = {}};
  std::snprintf(info->bus_id, sizeof(info->bus_id), "%s", long_pci_name(*device).c_str());
  return kNvmlSuccess;
}

// NVML_PCIE_LINK_MAX_SPEED_* count as generations do.
int nvmlDeviceGetPcieLinkMaxSpeed(NvmlDevice device, unsigned* speed) {
  return pcie_answer(device, speed, &pcie_generation);
}
int nvmlDeviceGetMaxPcieLinkGeneration(NvmlDevice device, unsigned* generation) {
  return pcie_answer(device, generation, &pcie_generation);
}
int nvmlDeviceGetCurrPcieLinkGeneration(NvmlDevice device, unsigned* generation) {
  return pcie_answer(device, generation, &pcie_generation);
}
int nvmlDeviceGetMaxPcieLinkWidth(NvmlDevice device, unsigned* width) {
  return pcie_answer(device, width, [](const models::GpuModel&) { return 16U; });
}
int nvmlDeviceGetCurrPcieLinkWidth(NvmlDevice device, unsigned* width) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, width);
}

int nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  return answer_of(device, memory, [](const Device& one) {
    const std::uint64_t total = one.model->memory_bytes;
    return NvmlMemory{.total = total, .free = total - one.used_bytes, .used = one.used_bytes};
  });
}
int nvmlDeviceGetMemoryInfo_v2(NvmlDevice device, NvmlMemory2* memory) {
  constexpr unsigned kVersion2 = sizeof(NvmlMemory2) | (2U << 24U);
  if (memory != nullptr && memory->version != kVersion2) return kNvmlVersionMismatch;
  return answer_of(device, memory, [](const Device& one) {
    const std::uint64_t total = one.model->memory_bytes;
    return NvmlMemory2{
        .version = kVersion2, .total = total, .reserved = 0, .free = total - one.used_bytes, .used = one.used_bytes};
  });
}

int nvmlDeviceGetAddressingMode(NvmlDevice device, NvmlVersioned* mode) {
  const int error = ready(device);
  return error != kNvmlSuccess ? error : clear(mode);
}

// No GPU can be divided.
int nvmlDeviceGetMigMode(NvmlDevice device, unsigned*, unsigned*) {
  const int error = ready(device);
  return error != kNvmlSuccess ? error : static_cast<int>(kNvmlNotSupported);
}
int nvmlDeviceGetMaxMigDeviceCount(NvmlDevice device, unsigned* count) {
  return answer_of(device, count, [](const Device&) { return 0U; });
}
int nvmlDeviceIsMigDeviceHandle(NvmlDevice device, unsigned* is_mig) {
  return answer_of(device, is_mig, [](const Device&) { return 0U; });
}

}  // namespace meshbed::sim::cuda
