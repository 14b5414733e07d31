// Grids that take the memory of grids before them: what is left there belongs to no grid.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda/ptx_bench.h"

namespace ptx_spares_test {

using namespace meshbed;
using namespace meshbed::test;

// litter: fills shared, local memory and registers, has half of a warp wait at barrier 3, and traps.
// look: the initial contents of shared memory, of local memory and of a register, and whether all threads of a block
// pass barrier 3.
// beyond: reads local memory at a distance that the caller says.
constexpr const char* kText = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry litter(.param .u64 out)
{
  .shared .align 4 .b8 s[4096];
  .local .align 4 .b8 l[512];
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .reg .pred %p<4>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
fill:
  mov.u32 %r4, s;
  add.u32 %r4, %r4, %r2;
  st.shared.u32 [%r4], 0x5a5a5a5a;
  mov.u32 %r5, l;
  shr.u32 %r6, %r2, 3;
  and.b32 %r6, %r6, 0xfffffffc;
  add.u32 %r5, %r5, %r6;
  st.local.u32 [%r5], 0x5a5a5a5a;
  add.u32 %r2, %r2, 4;
  setp.lt.u32 %p1, %r2, 4096;
  @%p1 bra fill;
  setp.lt.u32 %p2, %r1, 16;
  @%p2 bar.arrive 3, 96;
  setp.eq.u32 %p3, %r1, 40;
  @%p3 trap;
  bar.sync 0;
  ret;
}
.visible .entry look(.param .u64 out)
{
  .shared .align 4 .b8 s[4096];
  .local .align 4 .b8 l[512];
  .reg .b32 %r<20>;
  .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.u32 %r3, %r3, %r2;
  ld.shared.u32 %r4, [%r3+1024];
  mov.u32 %r5, l;
  add.u32 %r5, %r5, %r2;
  ld.local.u32 %r6, [%r5+128];
  or.b32 %r7, %r4, %r6;
  or.b32 %r7, %r7, %r15;
  bar.sync 3, 64;
  ld.param.u64 %rd1, [out];
  cvt.u64.u32 %rd2, %r2;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r7;
  ret;
}
.visible .entry beyond(.param .u64 distance)
{
  .local .align 4 .b8 l[16];
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [distance];
  mov.u64 %rd2, l;
  add.s64 %rd3, %rd2, %rd1;
  ld.local.u32 %r1, [%rd3];
  st.local.u32 [%rd2], %r1;
  ret;
}
)";

TEST_CASE("a grid finds nothing of the one whose memory it has, however that one ended") {
  Device device(module_of(kText));
  const auto out = device.memory.put(std::vector<std::uint32_t>(64, 9999));
  for (int round = 0; round < 3; ++round) {
    CHECK(device.run("litter", {.grid = 3, .block = 64, .resident = 2}, out).find("trap") != std::string::npos);
    CHECK(device.run("look", {.grid = 2, .block = 64, .resident = 1}, out) == "");
    CHECK(device.memory.get<std::uint32_t>(out, 64) == std::vector<std::uint32_t>(64, 0));
  }
}

TEST_CASE("where a thread's local memory ends is the kernel's, not that of one before it") {
  Device device(module_of(kText));
  const auto out = device.memory.allocate(256);
  const std::string fresh = device.run("beyond", {}, std::uint64_t{256});
  CHECK(fresh.find("reads 4 bytes") != std::string::npos);
  CHECK(device.run("litter", {.block = 64}, out).find("trap") != std::string::npos);
  CHECK(device.run("beyond", {}, std::uint64_t{256}) == fresh);
  CHECK(device.run("beyond", {}, std::uint64_t{12}) == "");
}

TEST_CASE("a launch counts what it did itself") {
  Device device(module_of(kText));
  const auto out = device.memory.allocate(256);
  REQUIRE(device.run("look", {.block = 64}, out) == "");
  const sim::ptx::Counts first = device.counts;
  CHECK(first.barriers == 2);
  REQUIRE(device.run("look", {.block = 64}, out) == "");
  CHECK(device.counts.lane_instructions == first.lane_instructions);
  CHECK(device.counts.barriers == first.barriers);
  CHECK(device.counts.global_bytes_written == first.global_bytes_written);
}

TEST_CASE("one element behind a block's shared memory is a fault, though the system's own part is somewhere behind") {
  Device device(module_of(R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry behind(.param .u32 index)
{
  .shared .align 4 .b8 s[128];
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [index];
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  ret;
}
.visible .entry systems(.param .u64 out)
{
  .shared .align 4 .b8 s[128];
  .reg .b32 %r<9>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %reserved_smem_offset_begin;
  mov.u32 %r2, %reserved_smem_offset_end;
  st.shared.u32 [%r1], 7;
  ld.shared.u32 %r3, [%r1];
  sub.u32 %r4, %r2, %r1;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r3;
  st.global.u32 [%rd1+4], %r4;
  ret;
}
)"));
  CHECK(device.run("behind", {}, 31U) == "");
  for (const unsigned index : {32U, 40U, 287U, 288U, 100'000U}) {
    CHECK(device.run("behind", {}, index).find("writes 4 bytes") != std::string::npos);
  }
  const auto out = device.memory.allocate(8);
  CHECK(device.run("systems", {}, out) == "");
  CHECK(device.memory.get<std::uint32_t>(out, 2) == std::vector<std::uint32_t>{7, 1024});
}

}  // namespace ptx_spares_test
