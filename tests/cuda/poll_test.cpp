// Kernels that look at memory until another writes: which of them let virtual time go on, and how long a look takes.
#include <string>

#include "models/gpu.h"
#include "sim/cuda/abi.h"
#include "tests/cuda/gpus.h"
#include "tests/cuda/scan_kernel.h"

using namespace meshbed;
using namespace meshbed::test;

namespace poll_test {
namespace {

// look: `count` loads one after the other.
constexpr char kKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry look(.param .u64 words, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [words];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, 0;
next:
  ld.volatile.u32 %r3, [%d1];
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra next;
  ret;
}
)";

/// The instruction `count` times, one after the other, by a kernel `repeat` like `look`: sums of ones.
std::string repeating(const std::string& instruction) {
  return R"(
.version 8.1
.target sm_90
.address_size 64
.visible .entry repeat(.param .u64 words, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .f32 %f<5>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [words];
  ld.param.u32 %r1, [count];
  mov.f32 %f3, 0f3F800000;
  mov.f32 %f4, 0f3F800000;
  mov.u32 %r2, 0;
next:
  )" + instruction +
         R"(
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra next;
  ret;
}
)";
}

/// From the call until the kernel has ended, one thread.
Picoseconds time_of(CUfunction kernel, CUdeviceptr words, unsigned count) {
  CUstream stream = make_stream();
  void* arguments[] = {&words, &count};
  const Picoseconds begun_ps = now_ps();
  CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  return now_ps() - begun_ps;
}

}  // namespace

TEST_CASE("a kernel that looks at many words in turn lets time go on, wherever the words are") {
  for (const unsigned count : {1U, 2U, 7U, 1000U}) {
    for (const bool pinned : {true, false}) {
      CAPTURE(count);
      CAPTURE(pinned);
      run_gpus({}, [&] {
        const Gpu gpu;
        CUfunction scan = find_function(kScanKernel, "scan");
        auto* const answer = static_cast<unsigned*>(allocate_pinned(4));
        *answer = 0;
        // Zeroed, both of them.
        auto words = pinned ? reinterpret_cast<CUdeviceptr>(allocate_pinned(4096)) : allocate(4096);
        auto where = reinterpret_cast<CUdeviceptr>(answer);
        std::uint64_t number = count;
        void* arguments[] = {&words, &number, &where};
        CUstream stream = make_stream(), other = make_stream();
        CHECK(cuLaunchKernel(scan, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) == 0);
        // A copy beside it: it comes at its time, whatever the kernel does.
        const unsigned value = 42;
        CHECK(cuMemcpyHtoDAsync_v2(words + 4 * (count - 1), &value, 4, other) == 0);
        CHECK(cuStreamSynchronize(other) == 0);
        CHECK(cuStreamSynchronize(stream) == 0);
        CHECK(*answer == 42);
      });
    }
  }
}

TEST_CASE("a look at pinned memory takes as long as a word to it") {
  const Picoseconds far_ps = models::find_gpu("H100")->host_flag_ps;
  run_gpus({.simulated = true}, [&] {
    const Gpu gpu;
    CUfunction look = find_function(kKernels, "look");
    const auto pinned = reinterpret_cast<CUdeviceptr>(allocate_pinned(4));
    CHECK(time_of(look, pinned, 30) - time_of(look, pinned, 20) == 10 * far_ps);
  });
}

TEST_CASE("an atomic that gives something back waits for pinned memory, a vector's like a number's") {
  struct Case {
    const char* instruction;
    bool waits;
  };
  const Picoseconds far_ps = models::find_gpu("H100")->host_flag_ps;
  for (const Case& one :
       {Case{"atom.global.add.f32 %f1, [%d1], %f3;", true},
        Case{"atom.global.add.v2.f32 {%f1, %f2}, [%d1], {%f3, %f4};", true},
        Case{"red.global.add.f32 [%d1], %f3;", false}, Case{"red.global.add.v2.f32 [%d1], {%f3, %f4};", false}}) {
    CAPTURE(one.instruction);
    run_gpus({.simulated = true}, [&] {
      const Gpu gpu;
      CUfunction repeat = find_function(repeating(one.instruction).c_str(), "repeat");
      void* const pinned = allocate_pinned(8);
      const auto words = reinterpret_cast<CUdeviceptr>(pinned);
      auto* const sums = static_cast<float*>(pinned);
      sums[0] = sums[1] = 0;
      const Picoseconds of_ten_ps = time_of(repeat, words, 30) - time_of(repeat, words, 20);
      CHECK(sums[0] == 50);
      if (one.waits) {
        CHECK(of_ten_ps == 10 * far_ps);
      } else {
        CHECK(of_ten_ps < far_ps);
      }
      // The GPU's own memory is at hand.
      const CUdeviceptr own = allocate(8);
      CHECK(time_of(repeat, own, 30) - time_of(repeat, own, 20) < far_ps);
    });
  }
}

}  // namespace poll_test
