// CUDA and NVML in ranks' programs: what libraries with kernels do at the end, and what GPUs say they are.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace cuda_program_test {

using namespace meshbed::test;

namespace {

constexpr const char* kGpus = "gpus = 2\ngpu_model = \"H100\"\n";
const std::string kCuda = "-L" + kBuild + "/cuda-lib ";

}  // namespace

TEST_CASE("a library with kernels that a rank opens may take them back when the simulator ends") {
  const Programs programs("cuda-program-opened");
  // As nvcc's objects: registered by a constructor, taken back by atexit().
  std::ofstream(programs.folder() + "/kernels.c") << R"(
#include <stdlib.h>
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** binary);
void __cudaUnregisterFatBinary(void** binary);
int cudaGetDeviceCount(int* count);
static struct { int magic, version; void *data, *name; } image = {0x466243b1, 1, "", 0};
static void** binary;
static void take_back(void) { __cudaUnregisterFatBinary(binary); }
__attribute__((constructor)) static void begin(void) {
  binary = __cudaRegisterFatBinary(&image);
  __cudaRegisterFatBinaryEnd(binary);
  atexit(take_back);
}
int devices(void) { int count = -1; return cudaGetDeviceCount(&count) == 0 ? count : -1; }
)";
  programs.build("cc -shared -fPIC", "kernels.so", programs.folder() + "/kernels.c",
                 kCuda + "-Wl,--no-as-needed -l:libcudart.so.13");
  programs.compile("c++", "opens",
                   fmt::format(R"(
#include <cstdio>
#include <dlfcn.h>
int main() {{
  void* library = dlopen("{}/kernels.so", RTLD_NOW);
  if (library == nullptr) return std::puts(dlerror()), 1;
  std::printf("devices %d\n", reinterpret_cast<int (*)()>(dlsym(library, "devices"))());
}}
)",
                               programs.folder()));
  const CommandResult run = programs.run("opens", 2, "", kGpus);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "devices 2\n") == 4);
}

TEST_CASE("ranks' NVML has the GPUs of their node, under the names that their CUDA has for them") {
  const Programs programs("cuda-program-nvml");
  programs.compile("c++", "manages", R"(
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
template <typename... Parameters>
int call(void* library, const char* name, Parameters... parameters) {
  auto* function = reinterpret_cast<int (*)(Parameters...)>(dlsym(library, name));
  return function != nullptr ? function(parameters...) : -1;
}
int main() {
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (nvml == nullptr || cuda == nullptr) return std::puts(dlerror()), 1;
  unsigned count = 0;
  const int early = call(nvml, "nvmlDeviceGetCount_v2", &count);
  int wrong = call(nvml, "nvmlInit_v2") + call(nvml, "nvmlDeviceGetCount_v2", &count) + call(cuda, "cuInit", 0U);
  for (unsigned index = 0; index < count; ++index) {
    void *device = nullptr, *again = nullptr;
    char bus[32] = {}, uuid[96] = {}, name[96] = {}, cuda_name[96] = {};
    wrong += call(nvml, "nvmlDeviceGetHandleByIndex_v2", index, &device);
    wrong += call(cuda, "cuDeviceGetPCIBusId", bus, 32, static_cast<int>(index));
    wrong += call(nvml, "nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(bus), &again) + (again != device);
    wrong += call(nvml, "nvmlDeviceGetUUID", device, uuid, 96U) + call(nvml, "nvmlDeviceGetName", device, name, 96U);
    wrong += call(nvml, "nvmlDeviceGetHandleByUUID", static_cast<const char*>(uuid), &again) + (again != device);
    wrong += call(cuda, "cuDeviceGetName", cuda_name, 96, static_cast<int>(index)) + std::strcmp(name, cuda_name) != 0;
    std::printf("%u %s %s\n", index, bus, uuid);
  }
  int gone = call(nvml, "nvmlDeviceSetPowerManagementLimit", static_cast<void*>(nullptr), 1U);
  gone += call(nvml, "nvmlDeviceSetPowerManagementLimit", static_cast<void*>(nullptr), 1U);
  wrong += call(nvml, "nvmlShutdown");
  std::printf("count %u early %d refused %d wrong %d late %d\n", count, early, gone, wrong,
              call(nvml, "nvmlDeviceGetCount_v2", &count));
}
)",
                   "-ldl");
  const CommandResult run = programs.run("manages", 2, "", kGpus);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "count 2 early 1 refused 6 wrong 0 late 1\n") == 4);
  for (const char* uuid : {"0 0000:10:00.0 GPU-6d657368-6265-642d-7369-6d0000000000\n",
                           "1 0000:11:00.0 GPU-6d657368-6265-642d-7369-6d0000000001\n",
                           "0 0000:10:00.0 GPU-6d657368-6265-642d-7369-6d0000000100\n"}) {
    CHECK(lines_with(run.output, uuid) == 2);
  }
  CHECK(lines_with(run.output, "nvmlDeviceSetPowerManagementLimit is not implemented in the simulated NVML") == 1);
}

}  // namespace cuda_program_test
