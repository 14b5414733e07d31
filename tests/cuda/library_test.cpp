// Libraries: kernels by number, their parameters and settings; memory that is filled slice by slice; hints that are
// copied.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/cuda/gpus.h"

extern "C" {
CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module);
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned most, CUmodule module);
CUresult cuFuncIsLoaded(int* state, CUfunction function);
CUresult cuFuncLoad(CUfunction function);
CUresult cuKernelGetAttribute(int* value, int attribute, meshbed::sim::cuda::Kernel* kernel, CUdevice device);
CUresult cuKernelSetAttribute(int attribute, int value, meshbed::sim::cuda::Kernel* kernel, CUdevice device);
CUresult cuKernelGetLibrary(meshbed::sim::cuda::Module** library, meshbed::sim::cuda::Kernel* kernel);
CUresult cuKernelGetParamInfo(meshbed::sim::cuda::Kernel* kernel, std::size_t index, std::size_t* offset,
                              std::size_t* size);
CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, std::size_t bytes);
CUresult cuCtxGetSharedMemConfig(int* config);
CUresult cuCtxSetSharedMemConfig(int config);
cudaError_t cudaLibraryLoadData(meshbed::sim::cuda::Module** library, const void* image, int* options, void** values,
                                unsigned count, int* library_options, void** library_values, unsigned library_count);
cudaError_t cudaLibraryUnload(meshbed::sim::cuda::Module* library);
cudaError_t cudaLibraryGetKernel(meshbed::sim::cuda::Kernel** kernel, meshbed::sim::cuda::Module* library,
                                 const char* name);
cudaError_t cudaLibraryGetGlobal(void** address, std::size_t* bytes, meshbed::sim::cuda::Module* library,
                                 const char* name);
cudaError_t cudaLibraryGetKernelCount(unsigned* count, meshbed::sim::cuda::Module* library);
cudaError_t cudaLibraryEnumerateKernels(meshbed::sim::cuda::Kernel** kernels, unsigned most,
                                        meshbed::sim::cuda::Module* library);
cudaError_t cudaMemset3D(meshbed::sim::cuda::cudaPitchedPtr target, int value, meshbed::sim::cuda::cudaExtent extent);
cudaError_t cudaMemset3DAsync(meshbed::sim::cuda::cudaPitchedPtr target, int value,
                              meshbed::sim::cuda::cudaExtent extent, CUstream stream);
cudaError_t cudaStreamSetAttribute(CUstream stream, int id, const void* value);
cudaError_t cudaStreamGetAttribute(CUstream stream, int id, void* value);
cudaError_t cudaStreamCopyAttributes(CUstream target, CUstream source);
}

namespace library_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

constexpr const char* kText = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .b8 table[24];
.visible .entry first(.param .u64 out, .param .u8 small, .param .u32 number)
{
  ret;
}
.visible .entry second()
{
  ret;
}
)";
constexpr int kInvalidValue = 1, kInvalidDevice = 101, kInvalidHandle = 400, kNotFound = 500;

cuda::Module* load() {
  cuda::Module* library = nullptr;
  CHECK(::cudaLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0) == 0);
  return library;
}

}  // namespace

TEST_CASE("a library's kernels are counted, listed in the order of its text, and found by name") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Module* const library = load();
    unsigned count = 0;
    CHECK(::cudaLibraryGetKernelCount(&count, library) == 0);
    CHECK(count == 2);
    std::vector<cuda::Kernel*> kernels(3, nullptr);
    CHECK(::cudaLibraryEnumerateKernels(kernels.data(), 3, library) == 0);
    cuda::Kernel *first = nullptr, *second = nullptr, *none = nullptr;
    CHECK(::cudaLibraryGetKernel(&first, library, "first") == 0);
    CHECK(::cudaLibraryGetKernel(&second, library, "second") == 0);
    CHECK(::cudaLibraryGetKernel(&none, library, "third") == kNotFound);
    // Their order is NVIDIA's own on a GPU.
    CHECK(std::count(kernels.begin(), kernels.end(), first) == 1);
    CHECK(std::count(kernels.begin(), kernels.end(), second) == 1);
    if (!genuine_gpu()) CHECK(kernels == std::vector<cuda::Kernel*>{first, second, nullptr});
    cuda::Module* its = nullptr;
    CHECK(::cuKernelGetLibrary(&its, second) == 0);
    CHECK(its == library);
    CHECK(::cudaLibraryEnumerateKernels(nullptr, 1, library) == kInvalidValue);
    void* address = nullptr;
    std::size_t bytes = 0;
    CHECK(::cudaLibraryGetGlobal(&address, &bytes, library, "table") == 0);
    CHECK(bytes == 24);
    CHECK(::cudaLibraryUnload(library) == 0);
    if (!genuine_gpu()) CHECK(::cudaLibraryGetKernelCount(&count, library) == kInvalidHandle);
  });
}

TEST_CASE("a module's functions are counted, listed and loaded") {
  run_gpus({}, [] {
    const Gpu gpu;
    CUmodule module = nullptr;
    REQUIRE(cuModuleLoadData(&module, kText) == 0);
    unsigned count = 0;
    CHECK(::cuModuleGetFunctionCount(&count, module) == 0);
    CHECK(count == 2);
    CUfunction one = nullptr;
    CHECK(::cuModuleEnumerateFunctions(&one, 1, module) == 0);
    REQUIRE(one != nullptr);
    int state = 0;
    CHECK(::cuFuncLoad(one) == 0);
    CHECK(::cuFuncIsLoaded(&state, one) == 0);
    CHECK(state == 1);
    CHECK(::cuModuleGetFunctionCount(nullptr, module) == kInvalidValue);
    CHECK(cuModuleUnload(module) == 0);
  });
}

TEST_CASE("a kernel has offsets of its parameters, and attributes on a device that is there") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Module* const library = load();
    cuda::Kernel* kernel = nullptr;
    REQUIRE(::cudaLibraryGetKernel(&kernel, library, "first") == 0);
    std::size_t offset = 99, size = 99;
    CHECK(::cuKernelGetParamInfo(kernel, 2, &offset, &size) == 0);
    CHECK(offset == 12);
    CHECK(size == 4);
    CHECK(::cuKernelGetParamInfo(kernel, 3, &offset, &size) == kInvalidValue);
    constexpr int kMaxThreads = 0, kMaxDynamicShared = 8, kMostShared = 64 << 10;
    int value = 0;
    CHECK(::cuKernelGetAttribute(&value, kMaxThreads, kernel, 0) == 0);
    CHECK(value == 1024);
    CHECK(::cuKernelSetAttribute(kMaxDynamicShared, kMostShared, kernel, 0) == 0);
    CHECK(::cuKernelGetAttribute(&value, kMaxDynamicShared, kernel, 0) == 0);
    CHECK(value == kMostShared);
    CHECK(::cuKernelGetAttribute(&value, kMaxThreads, kernel, 7) == kInvalidDevice);
    CHECK(::cudaLibraryUnload(library) == 0);
  });
}

TEST_CASE("banks of shared memory have four bytes, whatever is asked for") {
  run_gpus({}, [] {
    const Gpu gpu;
    int config = 0;
    CHECK(::cuCtxSetSharedMemConfig(2) == 0);
    CHECK(::cuCtxGetSharedMemConfig(&config) == 0);
    CHECK(config == 1);
    if (!genuine_gpu()) CHECK(::cuCtxSetSharedMemConfig(3) == kInvalidValue);
  });
}

TEST_CASE("memory is filled in three dimensions, and what stands between rows and slices stays") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr std::size_t kPitch = 32, kRows = 4, kSlices = 3, kBytes = kPitch * kRows * kSlices;
    const CUdeviceptr memory = allocate(kBytes);
    const cuda::cudaPitchedPtr whole{
        .pointer = reinterpret_cast<void*>(memory), .pitch = kPitch, .width = 20, .height = kRows};
    const auto filled = [&](std::size_t width, std::size_t height, std::size_t depth) {
      std::vector<unsigned char> expected(kBytes, 0), got(kBytes, 0);
      for (std::size_t slice = 0; slice < depth; ++slice) {
        for (std::size_t row = 0; row < height; ++row) {
          const auto begin = expected.begin() + static_cast<std::ptrdiff_t>((slice * kRows + row) * kPitch);
          std::fill(begin, begin + static_cast<std::ptrdiff_t>(width), 0xab);
        }
      }
      CHECK(cuMemcpyDtoH_v2(got.data(), memory, kBytes) == 0);
      return got == expected;
    };
    CHECK(cuMemsetD8_v2(memory, 0, kBytes) == 0);
    CHECK(::cudaMemset3D(whole, 0xab, {.width = 7, .height = 2, .depth = 2}) == 0);
    CHECK(filled(7, 2, 2));
    CHECK(cuMemsetD8_v2(memory, 0, kBytes) == 0);
    const CUstream stream = make_stream();
    CHECK(::cudaMemset3DAsync(whole, 0xab, {.width = 20, .height = kRows, .depth = kSlices}, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(filled(20, kRows, kSlices));
    CHECK(::cudaMemset3D(whole, 1, {.width = 0, .height = 2, .depth = 2}) == 0);
    CHECK(filled(20, kRows, kSlices));
    CHECK(cuMemFree_v2(memory) == 0);
  });
}

TEST_CASE("a stream takes another one's hints") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kSynchronizationPolicy = 3, kYield = 2;
    const CUstream one = make_stream(), two = make_stream();
    char set[64] = {}, got[64] = {};
    set[0] = kYield;
    CHECK(::cudaStreamSetAttribute(one, kSynchronizationPolicy, set) == 0);
    CHECK(::cudaStreamCopyAttributes(two, one) == 0);
    CHECK(::cudaStreamGetAttribute(two, kSynchronizationPolicy, got) == 0);
    CHECK(got[0] == kYield);
  });
}

}  // namespace library_test
