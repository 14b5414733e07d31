// A CUDA program as nvcc would make it, written by hand so that no toolkit is needed: a fat binary with plain PTX that
// is registered with the runtime, a kernel launched by its host function, a variable, a managed variable. Prints what
// it found; status 0 where all is right. "fault": a kernel with a wrong address. "image": a fat binary without PTX.
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
)";

float g_factor;           // what names the variable `factor`
unsigned* g_done;         // where the runtime writes the managed variable's address
void saxpy_function() {}  // what names the kernel

std::string fat_binary(bool has_ptx) {
  std::string text = kPtx;
  text.push_back('\0');
  return meshbed::test::fat_image(
      {{.is_ptx = has_ptx, .architecture = 70, .ptx_version = 7U << 16U, .payload = std::move(text)}});
}

/// Tells which call failed; true: one did.
bool failed(const char* call, int error) {
  if (error != 0) std::printf("%s: %s\n", call, cudaGetErrorName(error));
  return error != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  static std::string image = fat_binary(wanted != "image");
  static struct {
    std::uint32_t magic = 0x466243B1, version = 1;
    const void* container = image.data();
    const void* rest = nullptr;
  } wrapper;
  void** binary = __cudaRegisterFatBinary(&wrapper);
  // Names twice, as nvcc's code gives them: once for the host's thing, once for the device's.
  static char names[][8] = {"saxpy", "factor", "done"};
  const auto* function = reinterpret_cast<const char*>(&saxpy_function);
  __cudaRegisterFunction(binary, function, names[0], names[0], -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterVar(binary, reinterpret_cast<char*>(&g_factor), names[1], names[1], 0, 4, 0, 0);
  __cudaRegisterManagedVar(binary, reinterpret_cast<void**>(&g_done), names[2], names[2], 0, 4, 0, 0);
  __cudaRegisterFatBinaryEnd(binary);
  __cudaInitModule(binary);

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
