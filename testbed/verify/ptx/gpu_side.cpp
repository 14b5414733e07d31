#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <stdexcept>

#include "plugin/cuda/constants.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/module.h"
#include "plugin/cuda/stream.h"
#include "testbed/verify/ptx/twin.h"

namespace meshbed::testbed::ptx_twin {
namespace {

void require_done(const Result<void>& result) {
  if (!result) throw std::runtime_error("conformance ptx: " + result.error().text);
}
template <typename T>
T required(Result<T> result) {
  if (!result) throw std::runtime_error("conformance ptx: " + result.error().text);
  return std::move(result).value();
}

/// The simulated driver exports its host's clock (sim/cuda/meshbed_cuda.h); no other does.
bool driver_is_simulated() {
  void* library = ::dlopen(cuda::kCudaLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const bool found = ::dlsym(library, "meshbedCudaHostClock") != nullptr;
  ::dlclose(library);
  return found;
}

}  // namespace

struct GpuSide::Parts {
  Parts(cuda::Driver opened, int device) : driver(opened), current(driver, required(driver.retain_primary(device))) {
    require_done(current.outcome());
    stream = required(cuda::Stream::create(driver));
  }
  /// The operands on the device, copied once.
  cuda::CUdeviceptr operand(Kind kind, std::size_t place, Operands& operands) {
    cuda::DeviceMemory& memory = inputs[{kind, place}];
    if (memory.data() == nullptr) {
      const std::vector<std::byte>& bytes = operands.of(kind, place);
      memory = required(cuda::DeviceMemory::allocate(driver, bytes.size()));
      require_done(stream.copy(memory.data(), bytes.data(), bytes.size()));
      require_done(stream.synchronize());
    }
    return cuda::address_of(memory.data());
  }

  cuda::Driver driver;
  cuda::Current current;
  cuda::Stream stream;
  std::map<std::pair<Kind, std::size_t>, cuda::DeviceMemory> inputs;
  cuda::DeviceMemory output;
};

GpuSide::GpuSide(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
GpuSide::~GpuSide() = default;

Result<std::unique_ptr<GpuSide>> GpuSide::open(int device) {
  auto driver = cuda::Driver::open();
  if (!driver) return driver.error();
  if (device >= driver->devices()) {
    return Error{ErrorCode::kInvalidArgument, Scope::kRequest,
                 fmt::format("--device {}: the driver has {}, counted from 0", device, driver->devices())};
  }
  std::unique_ptr<GpuSide> side(new GpuSide(std::make_unique<Parts>(*driver, device)));
  const cuda::Driver& opened = side->parts_->driver;
  Gpu& gpu = side->gpu_;
  gpu.name = required(opened.device_name(device));
  gpu.is_simulated = driver_is_simulated();
  const int version = required(opened.version());
  gpu.driver_version = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  // The driver interface reports only the version of CUDA.
  std::ifstream file("/sys/module/nvidia/version");
  if (std::string text; !gpu.is_simulated && std::getline(file, text)) gpu.driver_version += ", driver " + text;
  constexpr int kNewestTarget = 90;
  gpu.target = std::min(kNewestTarget, required(opened.attribute(device, cuda::kDeviceMajor)) * 10 +
                                           required(opened.attribute(device, cuda::kDeviceMinor)));
  return side;
}

std::vector<Results> GpuSide::run(const std::vector<const Form*>& forms, Operands& operands) {
  std::vector<Results> all(forms.size());
  const std::size_t most = operands.count() * sizeof(std::uint64_t);
  if (parts_->output.size_bytes() < most) parts_->output = required(cuda::DeviceMemory::allocate(parts_->driver, most));
  run_module(forms, 0, forms.size(), operands, all);
  return all;
}

/// Splits a module that the driver refuses into halves until the refused form is found.
void GpuSide::run_module(const std::vector<const Form*>& forms, std::size_t first, std::size_t count,
                         Operands& operands, std::vector<Results>& all) {
  const auto begin = forms.begin() + static_cast<std::ptrdiff_t>(first);
  const std::vector<const Form*> these(begin, begin + static_cast<std::ptrdiff_t>(count));
  const auto module = cuda::Module::load(parts_->driver, module_text(these, gpu_.target).c_str());
  if (!module) {
    if (count == 1) {
      all[first].refusal = module.error().text;
      return;
    }
    run_module(forms, first, count / 2, operands, all);
    run_module(forms, first + count / 2, count - count / 2, operands, all);
    return;
  }
  for (std::size_t index = 0; index < count; ++index) {
    const Form& form = *these[index];
    const cuda::CUfunction kernel = required(module->kernel(fmt::format("f{}", index)));
    std::vector<std::byte>& bytes = all[first + index].bytes;
    bytes.resize(bytes_of(form.result) * operands.count());
    std::array<cuda::CUdeviceptr, 5> addresses{};
    addresses[0] = cuda::address_of(parts_->output.data());
    for (std::size_t place = 0; place < form.sources.size(); ++place) {
      addresses[place + 1] = parts_->operand(form.sources[place], place, operands);
    }
    std::array<void*, 5> arguments{};
    for (std::size_t at = 0; at < arguments.size(); ++at) arguments[at] = &addresses[at];
    // A fault invalidates the context for all later forms: the test ends, with the form's name.
    const auto done = [&](const Result<void>& result) {
      if (!result) throw std::runtime_error(fmt::format("conformance ptx: {}: {}", form.name, result.error().text));
    };
    done(parts_->stream.fill(parts_->output.data(), 0, bytes.size()));
    done(cuda::launch(parts_->driver, kernel,
                      {.grid = {static_cast<unsigned>(operands.count() / kBlockThreads)},
                       .block = {kBlockThreads},
                       .shared_bytes = 0,
                       .stream = parts_->stream.handle()},
                      arguments.data()));
    done(parts_->stream.copy(bytes.data(), parts_->output.data(), bytes.size()));
    done(parts_->stream.synchronize());
  }
}

}  // namespace meshbed::testbed::ptx_twin
