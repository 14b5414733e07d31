// A CUDA program as nvcc would make it, written by hand so that no toolkit is needed: a fat binary with plain PTX that
// is registered with the runtime, a kernel launched by its host function, a variable, a managed variable. Prints what
// it found; status 0 where all is right. "fault": a kernel with a wrong address. "image": a fat binary without PTX.
// "stub": the same, launched as nvcc's code for the host does it. "wrong": calls with wrong pointers and shapes, and
// what each answered. "gather": blocks that wait for all others, more than there is room for: it never ends.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/program/fat_image.h"

extern "C" {
struct dim3 {
  unsigned x, y, z;
};
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** binary);
void __cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int threads, void* tid,
                            void* bid, void* block, void* grid, int* warps);
void __cudaRegisterVar(void** binary, char* host, char* device, const char* name, int external, std::size_t size,
                       int constant, int global);
void __cudaRegisterManagedVar(void** binary, void** slot, char* device, const char* name, int external,
                              std::size_t size, int constant, int global);
char __cudaInitModule(void** binary);
int cudaMalloc(void** address, std::size_t size);
int cudaMemcpy(void* target, const void* source, std::size_t size, int kind);
int cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t size, std::size_t offset, int kind);
int cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared, void* stream);
int cudaDeviceSynchronize();
int cudaFree(void* address);
int cudaProfilerStart();
int __cudaGetKernel(void** kernel, const void* function);
int __cudaLaunchKernel(void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, void* stream);
const char* cudaGetErrorName(int error);
}

namespace {

constexpr const char* kPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .f32 factor;
.visible .global .attribute(.managed) .align 4 .u32 done = 0;
.visible .entry saxpy(.param .u32 n, .param .u64 x, .param .u64 y)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<8>;
  ld.param.u32 %r1, [n];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [factor];
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
  atom.global.add.u32 %r6, [done], 1;
DONE:
  ret;
}
.visible .global .align 4 .u32 arrived = 0;
.visible .entry gather(.param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [n];
  atom.global.add.u32 %r2, [arrived], 1;
LOOK:
  ld.volatile.global.u32 %r3, [arrived];
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra LOOK;
  ret;
}
)";

float g_factor;           // what names the variable `factor`
unsigned* g_done;         // where the runtime writes the managed variable's address
void saxpy_function() {}  // what names the kernel
void gather_function() {}

std::string fat_binary(bool has_ptx) {
  std::string text = kPtx;
  text.push_back('\0');
  return meshbed::test::fat_image(
      {{.is_ptx = has_ptx, .architecture = 70, .ptx_version = 7U << 16U, .payload = std::move(text)}});
}

/// Prints a call that failed; true: it did.
bool failed(const char* call, int error) {
  if (error != 0) std::printf("%s: %s\n", call, cudaGetErrorName(error));
  return error != 0;
}

int stub(const void* function) {
  void* kernel = nullptr;
  static_cast<void>(__cudaGetKernel(&kernel, function));
  return failed("the launch", __cudaLaunchKernel(kernel, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr)) ? 7 : 0;
}

int wrong(const void* function) {
  constexpr std::size_t kBytes = 4096;
  constexpr int kToDevice = 1, kToHost = 2, kOnDevice = 3, kDefault = 4;
  std::vector<char> host(kBytes);
  void* arguments[] = {host.data(), host.data(), host.data()};
  void *gone = nullptr, *there = nullptr;
  if (failed("cudaMalloc", cudaMalloc(&gone, kBytes)) || failed("cudaMalloc", cudaMalloc(&there, kBytes)) ||
      failed("cudaFree", cudaFree(gone))) {
    return 1;
  }
  failed("from freed memory", cudaMemcpy(host.data(), gone, kBytes, kToHost));
  failed("to freed memory", cudaMemcpy(gone, host.data(), kBytes, kToDevice));
  failed("within, from freed memory", cudaMemcpy(there, gone, kBytes, kOnDevice));
  failed("from freed memory, by its address", cudaMemcpy(host.data(), gone, kBytes, kDefault));
  failed("from nowhere", cudaMemcpy(host.data(), reinterpret_cast<void*>(0x1234), kBytes, kToHost));
  failed("host memory said to be a device's", cudaMemcpy(host.data(), host.data(), kBytes, kToHost));
  failed("nothing from nowhere", cudaMemcpy(nullptr, nullptr, 0, kToHost));
  failed("freed twice", cudaFree(gone));
  failed("too many threads", cudaLaunchKernel(function, {1, 1, 1}, {2000, 1, 1}, arguments, 0, nullptr));
  failed("no leave for 64 KiB", cudaLaunchKernel(function, {1, 1, 1}, {32, 1, 1}, arguments, 64 << 10, nullptr));
  failed("more than there is", cudaLaunchKernel(function, {1, 1, 1}, {32, 1, 1}, arguments, 1 << 20, nullptr));
  failed("cudaProfilerStart", cudaProfilerStart());
  // Who looks whether a process has CUDA, looks for the driver's library; the runtime has brought it.
  std::printf("the driver is %s\n",
              ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr ? "there" : "not there");
  return 0;
}

int gather() {
  unsigned blocks = 1U << 13U;
  void* arguments[] = {&blocks};
  const auto* function = reinterpret_cast<const void*>(&gather_function);
  return failed("cudaLaunchKernel", cudaLaunchKernel(function, {blocks, 1, 1}, {1, 1, 1}, arguments, 0, nullptr)) ||
                 failed("cudaDeviceSynchronize", cudaDeviceSynchronize())
             ? 7
             : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  static std::string image = fat_binary(wanted != "image" && wanted != "stub");
  static struct {
    std::uint32_t magic = 0x466243B1, version = 1;
    const void* container = image.data();
    const void* rest = nullptr;
  } wrapper;
  void** binary = __cudaRegisterFatBinary(&wrapper);
  // Names twice, as nvcc's code gives them: once for the host's thing, once for the device's.
  static char names[][8] = {"saxpy", "factor", "done", "gather"};
  const auto* function = reinterpret_cast<const char*>(&saxpy_function);
  __cudaRegisterFunction(binary, function, names[0], names[0], -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFunction(binary, reinterpret_cast<const char*>(&gather_function), names[3], names[3], -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterVar(binary, reinterpret_cast<char*>(&g_factor), names[1], names[1], 0, 4, 0, 0);
  __cudaRegisterManagedVar(binary, reinterpret_cast<void**>(&g_done), names[2], names[2], 0, 4, 0, 0);
  __cudaRegisterFatBinaryEnd(binary);
  __cudaInitModule(binary);

  if (wanted == "stub") return stub(function);
  if (wanted == "wrong") return wrong(function);
  if (wanted == "gather") return gather();
  unsigned n = 1000;
  const float factor = 2;
  void *x = nullptr, *y = nullptr;
  std::vector<float> values(n);
  for (unsigned index = 0; index < n; ++index) values[index] = static_cast<float>(index);
  void* arguments[] = {&n, &x, &y};
  if (failed("cudaMalloc", cudaMalloc(&x, n * 4)) || failed("cudaMalloc", cudaMalloc(&y, n * 4)) ||
      failed("cudaMemcpy", cudaMemcpy(x, values.data(), n * 4, 1)) ||
      failed("cudaMemcpy", cudaMemcpy(y, values.data(), n * 4, 1)) ||
      failed("cudaMemcpyToSymbol", cudaMemcpyToSymbol(&g_factor, &factor, 4, 0, 1))) {
    return 7;
  }
  if (wanted == "fault") y = static_cast<char*>(y) + 2000;
  if (failed("cudaLaunchKernel", cudaLaunchKernel(function, {4, 1, 1}, {256, 1, 1}, arguments, 0, nullptr)) ||
      failed("cudaDeviceSynchronize", cudaDeviceSynchronize()) ||
      failed("cudaMemcpy", cudaMemcpy(values.data(), y, n * 4, 2))) {
    return 7;
  }
  int wrong = 0;
  for (unsigned index = 0; index < n; ++index) wrong += values[index] != 3 * static_cast<float>(index);
  std::printf("%d wrong, %u done\n", wrong, *g_done);
  return wrong == 0 && *g_done == n ? 0 : 1;
}
