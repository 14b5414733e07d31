#include "plugin/cuda/driver.h"

#include <array>

#include "plugin/cuda/constants.h"

namespace meshbed::cuda {
namespace {

// The oldest driver that has cuGetProcAddress_v2, whose results show what is missing: CUDA 12.0.
constexpr int kAbiVersion = 12000;

using GetProcAddress = CUresult (*)(const char* symbol, void** function, int version, std::uint64_t flags, int* found);

Error unsupported(std::string text) { return {ErrorCode::kUnsupported, Scope::kDevice, std::move(text)}; }
Error unfit(std::string text) { return {ErrorCode::kSystem, Scope::kDevice, std::move(text)}; }

/// The entry; its name goes into `missing` where the driver has none.
template <typename Function>
void bind(GetProcAddress get, const char* name, Function& function, std::string& missing) {
  void* found = nullptr;
  int status = 0;
  if (get(name, &found, kAbiVersion, 0, &status) == kCudaSuccess && found != nullptr) {
    function = reinterpret_cast<Function>(found);
    return;
  }
  missing += missing.empty() ? name : std::string(", ") + name;
}

}  // namespace

Result<Driver> Driver::open() {
  // Never closed: the driver's own threads do not end with it.
  void* library = ::dlopen(kCudaLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return unsupported(std::string("there is no CUDA driver here: ") + (why != nullptr ? why : kCudaLibrary));
  }
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return unfit("the CUDA driver is older than 12.0: it has no cuGetProcAddress_v2");
  Driver driver;
  std::string missing;
#define MESHBED_CUDA_ENTRY(name, parameters) bind(get, #name, driver.calls_.name, missing);
#include "plugin/cuda/driver_calls.def"
#undef MESHBED_CUDA_ENTRY
  if (!missing.empty()) return unfit("the CUDA driver lacks " + missing);
  const CUresult code = driver.calls_.cuInit(0);
  if (code == kErrorNoDevice) return unsupported("the CUDA driver sees no device");
  if (auto begun = driver.outcome(code, "cuInit"); !begun) {
    return unsupported("the CUDA driver does not start: " + begun.error().text);
  }
  if (auto counted = driver.outcome(driver.calls_.cuDeviceGetCount(&driver.devices_), "cuDeviceGetCount"); !counted) {
    return unsupported(counted.error().text);
  }
  if (driver.devices_ == 0) return unsupported("the CUDA driver sees no device");
  return driver;
}

Result<void> Driver::outcome(CUresult code, const char* call) const {
  if (code == kCudaSuccess) return ok();
  const char *name = nullptr, *text = nullptr;
  if (calls_.cuGetErrorName(code, &name) != kCudaSuccess || name == nullptr) name = "an unknown error";
  if (calls_.cuGetErrorString(code, &text) != kCudaSuccess || text == nullptr) text = "no text";
  return Error{ErrorCode::kSystem, Scope::kDevice,
               std::string(call) + ": " + name + " " + std::to_string(code) + " (" + text + ")"};
}

Result<std::string> Driver::device_name(CUdevice device) const {
  std::array<char, 256> name{};
  auto done =
      outcome(calls_.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), device), "cuDeviceGetName");
  if (!done) return done.error();
  return std::string(name.data());
}

Result<int> Driver::attribute(CUdevice device, CUdevice_attribute attribute) const {
  int value = 0;
  if (auto done = outcome(calls_.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute"); !done) {
    return done.error();
  }
  return value;
}

Result<std::uint64_t> Driver::memory_bytes(CUdevice device) const {
  std::size_t size = 0;
  if (auto done = outcome(calls_.cuDeviceTotalMem(&size, device), "cuDeviceTotalMem"); !done) return done.error();
  return std::uint64_t{size};
}

Result<int> Driver::version() const {
  int version = 0;
  if (auto done = outcome(calls_.cuDriverGetVersion(&version), "cuDriverGetVersion"); !done) return done.error();
  return version;
}

Result<Pointer> Driver::look_at(const void* address) const {
  // Together they cost one call; and of a foreign address this one knows nothing, without an error.
  std::array<CUpointer_attribute, 4> asked{kPointerContext, kPointerMemoryType, kPointerIsManaged,
                                           kPointerDeviceOrdinal};
  Pointer pointer;
  unsigned type = 0;
  unsigned managed = 0;  // documented as a Boolean of 4 bytes
  std::array<void*, 4> answers{&pointer.context, &type, &managed, &pointer.device};
  const CUresult code = calls_.cuPointerGetAttributes(static_cast<unsigned>(asked.size()), asked.data(), answers.data(),
                                                      address_of(address));
  if (auto done = outcome(code, "cuPointerGetAttributes"); !done) return done.error();
  pointer.on_device = type == kMemoryTypeDevice;
  pointer.is_managed = managed != 0;
  return pointer;
}

Result<bool> Driver::is_gpu_direct(const void* address) const {
  std::array<CUpointer_attribute, 1> asked{kPointerGpuDirect};
  unsigned capable = 0;  // documented as a Boolean of 4 bytes
  std::array<void*, 1> answers{&capable};
  const CUresult code = calls_.cuPointerGetAttributes(static_cast<unsigned>(asked.size()), asked.data(), answers.data(),
                                                      address_of(address));
  if (auto done = outcome(code, "cuPointerGetAttributes"); !done) return done.error();
  return capable != 0;
}

Result<CUcontext> Driver::retain_primary(CUdevice device) const {
  CUcontext context = nullptr;
  auto done = outcome(calls_.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  if (!done) return done.error();
  return context;
}

Result<CUcontext> Driver::current() const {
  CUcontext context = nullptr;
  if (auto done = outcome(calls_.cuCtxGetCurrent(&context), "cuCtxGetCurrent"); !done) return done.error();
  return context;
}

Result<unsigned long long> Driver::current_number() const {
  unsigned long long number = 0;
  if (auto done = outcome(calls_.cuCtxGetId(nullptr, &number), "cuCtxGetId"); !done) return done.error();
  return number;
}

Current::Current(const Driver& driver, CUcontext context)
    : driver_(driver), outcome_(driver.outcome(driver.calls().cuCtxPushCurrent(context), "cuCtxPushCurrent")) {}

Current::~Current() {
  CUcontext context = nullptr;
  if (outcome_) driver_.calls().cuCtxPopCurrent(&context);
}

}  // namespace meshbed::cuda
