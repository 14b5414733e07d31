// MESHBED_CUDA_CHECK=race: data races between the blocks of a kernel.
#include <string>

#include "tests/cuda/gpus.h"

namespace race_test {

using namespace meshbed::test;

namespace {

/// Each block stores to words[block] and does `then`; the places of its own word and of the next block's are in %rd3
/// and %rd4, the block's number in %r1. Block b has one thread.
std::string kernel(const std::string& then) {
  return R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry meet(.param .u64 words)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b16 %h<3>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  xor.b32 %r2, %r1, 1;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd4, %rd1, %rd2;
  mov.b16 %h1, 5;
)" + then +
         "\n  ret;\n}\n";
}

/// What is said of a launch of four blocks.
std::string said_of(const std::string& then, bool cooperative = false, const std::string& check = "race") {
  return run_gpus({.check = check}, [&] {
    const Gpu gpu;
    CUdeviceptr words = allocate(64);
    void* arguments[] = {&words};
    const CUfunction function = find_function(kernel(then).c_str(), "meet");
    const CUresult result = cooperative ? cuLaunchCooperativeKernel(function, 4, 1, 1, 1, 1, 1, 0, nullptr, arguments)
                                        : cuLaunchKernel(function, 4, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
    CHECK(result == 0);
    CHECK(cuCtxSynchronize() == 0);
  });
}

/// A grid's barrier as cooperative groups have it: one adds, and waits until all four have.
const std::string kGridBarrier = R"(
  mov.u32 %r3, %envreg2;
  mov.u32 %r4, %envreg1;
  mov.b64 %rd5, {%r3, %r4};
  atom.add.release.gpu.u32 %r5, [%rd5+4], 1;
WAIT:
  ld.acquire.gpu.u32 %r5, [%rd5+4];
  setp.lt.u32 %p1, %r5, 4;
  @%p1 bra WAIT;
)";

}  // namespace

TEST_CASE("a word that one block writes and another reads is a race, named with blocks, address and lines") {
  const std::string log = said_of("  st.global.u32 [%rd3], %r1;\n  ld.global.u32 %r3, [%rd4];");
  CAPTURE(log);
  CHECK(log.find("kernel meet: blocks (") != std::string::npos);
  CHECK(log.find(" race for 0x") != std::string::npos);
  CHECK(log.find("PTX line 19") != std::string::npos);
  CHECK(log.find("at line 18") != std::string::npos);
  CHECK(log.find("blocks (0,0,0) and (1,0,0)") != std::string::npos);
  // Once a launch, and not where the check is off.
  CHECK(log.find("race for", log.find("race for") + 1) == std::string::npos);
  CHECK(said_of("  st.global.u32 [%rd3], %r1;\n  ld.global.u32 %r3, [%rd4];", false, "").empty());
}

TEST_CASE("two writers of a word race, and a reader with a writer after it") {
  CHECK(said_of("  st.global.u32 [%rd1], %r1;").find("the first writes") != std::string::npos);
  const std::string one_writes =
      "  setp.eq.u32 %p1, %r1, 1;\n  @!%p1 ld.global.u32 %r3, [%rd1];\n  @%p1 st.global.u32 [%rd1], %r1;";
  CHECK(said_of(one_writes).find("the first reads") != std::string::npos);
}

TEST_CASE("blocks that keep to their own words, or to their own bytes of a word, do not race; nor do readers") {
  CHECK(said_of("  st.global.u32 [%rd3], %r1;\n  ld.global.u32 %r3, [%rd3];").empty());
  CHECK(said_of("  cvt.u64.u32 %rd5, %r1;\n  add.s64 %rd5, %rd1, %rd5;\n  st.global.u8 [%rd5], %h1;").empty());
  CHECK(said_of("  ld.global.u32 %r3, [%rd1];").empty());
}

TEST_CASE("atomics, and volatile accesses, are a program's own order") {
  CHECK(said_of("  red.global.add.u32 [%rd1], 1;").empty());
  CHECK(said_of("  st.volatile.global.u32 [%rd3], %r1;\n  ld.volatile.global.u32 %r3, [%rd4];").empty());
}

TEST_CASE("a grid-wide barrier orders what is before it and what is after it") {
  const std::string write = "  st.global.u32 [%rd3], %r1;\n", read = "  ld.global.u32 %r3, [%rd4];\n";
  CHECK(said_of(write + kGridBarrier + read, true).empty());
  CHECK(said_of(write + read + kGridBarrier, true).find("race for") != std::string::npos);
}

TEST_CASE("another word than race is answered with what is accepted") {
  CHECK(said_of("  ld.global.u32 %r3, [%rd1];", false, "leaks").find("accepted: race") != std::string::npos);
}

}  // namespace race_test
