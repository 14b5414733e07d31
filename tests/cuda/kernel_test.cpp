// Kernels from PTX: what they compute, print and break; variables; how many blocks are resident.
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/gpus.h"

namespace kernel_test {

using namespace meshbed::test;

namespace {

/// y[i] = a x[i] + y[i] for i < n; what `offset` holds is added to i first.
constexpr const char* kSaxpy = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 offset = 0;
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<8>;
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [a];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  ld.global.u32 %r6, [offset];
  add.s32 %r5, %r5, %r6;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
DONE:
  ret;
}
)";

struct Saxpy {
  unsigned n = 1000;
  float a = 2;
  CUdeviceptr x = allocate(4000), y = allocate(4000);
  CUmodule module = nullptr;
  CUfunction function = nullptr;

  Saxpy() {
    CHECK(cuModuleLoadData(&module, kSaxpy) == 0);
    CHECK(cuModuleGetFunction(&function, module, "saxpy") == 0);
    std::vector<float> values(n);
    for (unsigned index = 0; index < n; ++index) values[index] = static_cast<float>(index);
    CHECK(cuMemcpyHtoD_v2(x, values.data(), 4000) == 0);
    CHECK(cuMemcpyHtoD_v2(y, values.data(), 4000) == 0);
  }
  CUresult launch(CUstream stream = nullptr) {
    void* arguments[] = {&n, &a, &x, &y};
    return cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr);
  }
  std::vector<float> result() {
    std::vector<float> values(1000);
    CHECK(cuMemcpyDtoH_v2(values.data(), y, 4000) == 0);
    return values;
  }
};

}  // namespace

TEST_CASE("a kernel's PTX does what it says") {
  run_gpus({}, [] {
    const Gpu gpu;
    Saxpy saxpy;
    CHECK(saxpy.launch() == 0);
    const std::vector<float> values = saxpy.result();
    int wrong = 0;
    for (unsigned index = 0; index < 1000; ++index) wrong += values[index] != 3.0F * static_cast<float>(index);
    CHECK(wrong == 0);
    if (!genuine_gpu()) CHECK(counters().launches == 1);
  });
}

TEST_CASE("a module's variable has a place, which the host may write") {
  run_gpus({}, [] {
    const Gpu gpu;
    Saxpy saxpy;
    CUdeviceptr place = 0;
    std::size_t bytes = 0;
    CHECK(cuModuleGetGlobal_v2(&place, &bytes, saxpy.module, "offset") == 0);
    CHECK(bytes == 4);
    CHECK(cuModuleGetGlobal_v2(&place, &bytes, saxpy.module, "other") == 500);
    CHECK(cuMemsetD32_v2(place, 999, 1) == 0);
    CHECK(saxpy.launch() == 0);
    const std::vector<float> values = saxpy.result();
    CHECK(values[998] == 998);
    CHECK(values[999] == 3 * 999);
  });
}

TEST_CASE("a program's variable keeps its value when a device that it is not on is reset, and not when its own is") {
  run_gpus({.gpus = 2}, [] {
    constexpr int kToDevice = 1, kToHost = 2;
    static char offset;  // what names the variable
    void** binary = __cudaRegisterFatBinary(const_cast<char*>(kSaxpy));
    __cudaRegisterVar(binary, &offset, nullptr, "offset", 0, 4, 0, 0);
    const unsigned seven = 7;
    CHECK(cudaMemcpyToSymbol(&offset, &seven, 4, 0, kToDevice) == 0);
    for (const int device : {1, 0}) {
      CAPTURE(device);
      CHECK(cudaSetDevice(device) == 0);
      CHECK(cudaDeviceReset() == 0);
      CHECK(cudaSetDevice(0) == 0);
      unsigned found = 99;
      CHECK(cudaMemcpyFromSymbol(&found, &offset, 4, 0, kToHost) == 0);
      CHECK(found == (device == 1 ? 7 : 0));
    }
    __cudaUnregisterFatBinary(binary);
  });
}

TEST_CASE("a wrong address ends the context: every later call says so, and it is said once where it happened") {
  const std::string said = run_gpus({}, [] {
    const Gpu gpu;
    Saxpy saxpy;
    saxpy.y += 2000;  // half of it is behind the end
    CHECK(saxpy.launch() == 0);
    CHECK(cuCtxSynchronize() == 700);
    CHECK(cuCtxSynchronize() == 700);
    CUdeviceptr more = 0;
    CHECK(cuMemAlloc_v2(&more, 4) == 700);
  });
  CAPTURE(said);
  CHECK(said.find("saxpy") != said.npos);
  CHECK(said.find("allocation of 4000 bytes") != said.npos);
  CHECK(said.find("saxpy", said.find('\n')) == said.npos);
}

TEST_CASE("memory that was freed is named as such") {
  const std::string said = run_gpus({}, [] {
    const Gpu gpu;
    Saxpy saxpy;
    CHECK(cuMemFree_v2(saxpy.x) == 0);
    CHECK(saxpy.launch() == 0);
    CHECK(cuCtxSynchronize() == 700);
  });
  CAPTURE(said);
  CHECK(said.find("that was freed") != said.npos);
}

TEST_CASE("an overrun into memory that was freed and allocated again is an overrun of what is there now") {
  const std::string said = run_gpus({}, [] {
    const Gpu gpu;
    Saxpy saxpy;
    // The same addresses, or the test has nothing to look at.
    CHECK(cuMemFree_v2(saxpy.y) == 0);
    CUdeviceptr again = allocate(3000);
    REQUIRE(again == saxpy.y);
    CHECK(saxpy.launch() == 0);
    CHECK(cuCtxSynchronize() == 700);
  });
  CAPTURE(said);
  CHECK(said.find("after the end of an allocation of 3000 bytes at 0x") != said.npos);
  CHECK(said.find("freed") == said.npos);
  CHECK(said.find("returns error 700 (an illegal memory access was encountered)") != said.npos);
}

TEST_CASE("a launch blocks while as many as may be pending are, until the device has begun with one of them") {
  const GpuProgram few{.pending_launches = "4", .simulated = true};
  run_gpus(few, [] {
    const Gpu gpu;
    Saxpy saxpy;  // loading a module waits for the device
    CUstream stream = nullptr;
    CHECK(cuStreamCreate(&stream, 1) == 0);
    int* flag = nullptr;
    CHECK(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 4, 0) == 0);
    *flag = 0;
    CHECK(cuStreamWaitValue32_v2(stream, reinterpret_cast<CUdeviceptr>(flag), 1, 0) == 0);
    std::atomic<int> launched = 0;
    std::thread launcher([&] {
      CHECK(cuCtxPushCurrent_v2(gpu.context) == 0);
      for (int number = 0; number < 6; ++number) {
        CHECK(saxpy.launch(stream) == 0);
        ++launched;
      }
    });
    while (launched < 4) std::this_thread::yield();
    // The fifth is in the call by now, or comes to it: it cannot come back before the flag is set.
    for (int look = 0; look < 1000; ++look) {
      CHECK(cuStreamQuery(stream) == 600);
      CHECK(launched == 4);
    }
    *reinterpret_cast<volatile int*>(flag) = 1;
    launcher.join();
    CHECK(launched == 6);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(saxpy.result()[1] == 1 + 6 * 2);
  });
  const std::string said = run_gpus({.pending_launches = "none"}, [] { const Gpu gpu; });
  CHECK(said.find("MESHBED_CUDA_PENDING_LAUNCHES=none: not a number from 1 to 1048576; 1024 is used") != said.npos);
}

TEST_CASE("PTX that is none is refused with its place, and a launch needs an argument for each parameter") {
  const std::string said = run_gpus({}, [] {
    const Gpu gpu;
    CUmodule module = nullptr;
    CHECK(cuModuleLoadData(&module, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { oops; }\n") !=
          0);
    Saxpy saxpy;
    CHECK(cuLaunchKernel(saxpy.function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == 1);
    void* arguments[] = {&saxpy.n, &saxpy.a, nullptr, &saxpy.y};
    CHECK(cuLaunchKernel(saxpy.function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == 1);
  });
  CAPTURE(said);
  CHECK(said.find("a module:4") != said.npos);
}

TEST_CASE("a kernel whose PTX names many registers may have blocks of 1024 threads: an assembler would make room") {
  run_gpus({}, [] {
    const Gpu gpu;
    const std::string text =
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry many()\n{\n"
        "  .reg .b32 %r<2000>;\n  mov.u32 %r1999, %tid.x;\n  ret;\n}\n";
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    CHECK(cuModuleLoadData(&module, text.c_str()) == 0);
    CHECK(cuModuleGetFunction(&function, module, "many") == 0);
    CHECK(cuLaunchKernel(function, 300, 1, 1, 1024, 1, 1, 0, nullptr, nullptr, nullptr) == 0);
    CHECK(cuCtxSynchronize() == 0);
    int blocks = 0;
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 1024, 0) == 0);
    CHECK(blocks == 1);
  });
}

TEST_CASE("a kernel takes the time of its bytes, and two streams overlap where the SMs hold both") {
  run_gpus({}, [] {
    const Gpu gpu;
    Saxpy first, second;
    CUstream one = make_stream(), other = make_stream();
    CUevent events[4];
    for (CUevent& event : events) event = make_event();
    CHECK(cuEventRecord(events[0], one) == 0);
    CHECK(first.launch(one) == 0);
    CHECK(cuEventRecord(events[1], one) == 0);
    CHECK(cuEventRecord(events[2], other) == 0);
    CHECK(second.launch(other) == 0);
    CHECK(cuEventRecord(events[3], other) == 0);
    CHECK(cuCtxSynchronize() == 0);
    float milliseconds = 0;
    CHECK(cuEventElapsedTime_v2(&milliseconds, events[0], events[1]) == 0);
    CHECK(milliseconds > 0);
    CHECK(milliseconds < 1);
  });
}

TEST_CASE("a kernel that polls a word of the host's goes on when the host writes it, and other streams meanwhile") {
  run_gpus({}, [] {
    const Gpu gpu;
    CUfunction waits = find_function(R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry waits(.param .u64 words)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [words];
POLL:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra POLL;
  st.global.u32 [%rd1+4], 7;
  ret;
}
)",
                                     "waits");
    auto* words = static_cast<volatile unsigned*>(allocate_pinned(8));
    auto address = reinterpret_cast<CUdeviceptr>(words);
    words[0] = 0;
    words[1] = 0;
    void* arguments[] = {&address};
    CUstream stream = make_stream(), other = make_stream();
    Saxpy saxpy;  // before the kernel begins: what a driver does for it may wait for the device
    CHECK(cuLaunchKernel(waits, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) == 0);
    CHECK(saxpy.launch(other) == 0);
    CHECK(cuStreamSynchronize(other) == 0);
    CHECK(cuStreamQuery(stream) == 600);
    CHECK(words[1] == 0);
    words[0] = 1;
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(words[1] == 7);
  });
}

}  // namespace kernel_test
