// Threads of one program that call CUDA at the same time, in real time: each has its stream, memory, events and host
// functions; one asks what is done while the others work. ThreadSanitizer runs it in `./meshbed test`.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

#include "sim/cuda/process/open.h"

namespace calling_threads_test {

namespace cuda = meshbed::sim::cuda;

namespace {

constexpr int kThreads = 4, kRounds = 12;
constexpr unsigned kCount = 3000, kBlock = 128;

// numbers[i] = numbers[i] * 3 + value, and one to `sum`, which all threads' kernels add to.
constexpr char kKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 numbers, .param .u32 value, .param .u32 count, .param .u64 sum) {
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [numbers];
  ld.param.u32 %r1, [value];
  ld.param.u32 %r2, [count];
  ld.param.u64 %d4, [sum];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r2;
  @%p1 bra done;
  mul.wide.u32 %d2, %r6, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r7, [%d3];
  mad.lo.u32 %r7, %r7, 3, %r1;
  st.global.u32 [%d3], %r7;
  red.global.add.u32 [%d4], 1;
done:
  ret;
}
)";

std::atomic<int> g_failures = 0;

/// doctest's CHECK takes a lock, which would order what the simulator has to order itself.
bool good(bool condition, const char* what) {
  if (!condition && ++g_failures < 20) std::fprintf(stderr, "calling_threads_test: %s\n", what);
  return condition;
}
bool succeeded(int result, const char* what) { return good(result == 0, what); }

/// One thread's work: rounds of copies, kernels, host functions and a wait.
void work(const cuda::DriverTable& driver, cuda::Context* context, cuda::Kernel* kernel, cuda::CUdeviceptr sum,
          int number, std::atomic<cuda::Stream*>& told) {
  cuda::Stream* stream = nullptr;
  cuda::Event* event = nullptr;
  cuda::CUdeviceptr numbers = 0;
  if (!succeeded(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent") ||
      !succeeded(driver.cuStreamCreate(&stream, 1), "cuStreamCreate") ||
      !succeeded(driver.cuEventCreate(&event, 0), "cuEventCreate") ||
      !succeeded(driver.cuMemAlloc_v2(&numbers, kCount * sizeof(unsigned)), "cuMemAlloc")) {
    return;
  }
  told = stream;
  std::vector<unsigned> expected(kCount), seen(kCount);
  for (unsigned at = 0; at < kCount; ++at) expected[at] = at;
  int called = 0;
  for (int round = 0; round < kRounds && g_failures == 0; ++round) {
    auto value = static_cast<unsigned>(round * 100 + number), count = kCount;
    std::array<void*, 4> arguments{&numbers, &value, &count, &sum};
    succeeded(driver.cuMemcpyHtoDAsync_v2(numbers, expected.data(), kCount * sizeof(unsigned), stream),
              "to the device");
    succeeded(driver.cuLaunchKernel(kernel, (kCount + kBlock - 1) / kBlock, 1, 1, kBlock, 1, 1, 0, stream,
                                    arguments.data(), nullptr),
              "cuLaunchKernel");
    succeeded(driver.cuLaunchHostFunc(
                  stream, [](void* data) { ++*static_cast<int*>(data); }, &called),
              "cuLaunchHostFunc");
    succeeded(driver.cuMemcpyDtoHAsync_v2(seen.data(), numbers, kCount * sizeof(unsigned), stream), "from the device");
    succeeded(driver.cuEventRecord(event, stream), "cuEventRecord");
    succeeded(round % 2 == 0 ? driver.cuEventSynchronize(event) : driver.cuStreamSynchronize(stream), "the wait");
    for (unsigned& one : expected) one = one * 3 + value;
    good(seen == expected && called == round + 1, "what a round leaves");
  }
  told = nullptr;
  succeeded(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

/// Looks at the others' streams until all have ended.
void ask(const cuda::DriverTable& driver, cuda::Context* context,
         const std::array<std::atomic<cuda::Stream*>, kThreads>& streams, const std::atomic<int>& working) {
  succeeded(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent of who asks");
  while (working > 0) {
    for (const auto& told : streams) {
      cuda::Stream* const stream = told;
      if (stream == nullptr) continue;
      const int answer = driver.cuStreamQuery(stream);
      good(answer == 0 || answer == 600, "cuStreamQuery");
    }
    std::size_t left = 0, total = 0;
    succeeded(driver.cuMemGetInfo_v2(&left, &total), "cuMemGetInfo");
  }
}

}  // namespace

TEST_CASE("threads that call at the same time: each stream's work is its own, and counts of all of them add up") {
  for (const bool virtual_time : {false, true}) {
    CAPTURE(virtual_time);
    g_failures = 0;
    cuda::open_process({{"H100"}}, {.virtual_time = virtual_time, .environment = {}});
    const cuda::DriverTable& driver = cuda::process_driver_table();
    cuda::Context* context = nullptr;
    cuda::Module* module = nullptr;
    cuda::Kernel* kernel = nullptr;
    cuda::CUdeviceptr sum = 0;
    REQUIRE(driver.cuInit(0) == 0);
    REQUIRE(driver.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(driver.cuCtxSetCurrent(context) == 0);
    REQUIRE(driver.cuModuleLoadData(&module, kKernels) == 0);
    REQUIRE(driver.cuModuleGetFunction(&kernel, module, "step") == 0);
    REQUIRE(driver.cuMemAlloc_v2(&sum, sizeof(unsigned)) == 0);
    REQUIRE(driver.cuMemsetD32_v2(sum, 0, 1) == 0);
    std::array<std::atomic<cuda::Stream*>, kThreads> streams{};
    std::atomic<int> working = kThreads;
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        work(driver, context, kernel, sum, number, streams[static_cast<std::size_t>(number)]);
        --working;
      });
    }
    threads.emplace_back([&] { ask(driver, context, streams, working); });
    for (std::thread& thread : threads) thread.join();
    unsigned added = 0;
    CHECK(driver.cuMemcpyDtoH_v2(&added, sum, sizeof(added)) == 0);
    CHECK(added == kThreads * kRounds * kCount);
    CHECK(g_failures == 0);
    cuda::close_process();
  }
}

}  // namespace calling_threads_test
