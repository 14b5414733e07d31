#include "models/gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace gpu_test {

using namespace meshbed;
using namespace meshbed::models;

TEST_CASE("a GPU is found by its name in any case, and an unknown one is not") {
  for (const std::string& name : gpu_names()) CHECK(find_gpu(name) != nullptr);
  CHECK(find_gpu("gb10") == find_gpu("GB10"));
  CHECK(find_gpu("GB1") == nullptr);
  CHECK(find_gpu("") == nullptr);
}

TEST_CASE("every constant of every GPU says where it comes from and how far to trust it") {
  const std::set<std::string> trusts{"data sheet", "measured", "author", "secondary", "estimate", "guess"};
  for (const std::string& name : gpu_names()) {
    for (const GpuConstant& constant : provenance(*find_gpu(name))) {
      CAPTURE(name);
      CAPTURE(constant.field);
      CHECK(!constant.source.empty());
      CHECK(trusts.count(constant.trust) == 1);
      CHECK(constant.value != "0");
    }
  }
}

TEST_CASE("an SM holds as many blocks as its threads, its block slots, its registers and its shared memory allow") {
  const GpuModel& h100 = *find_gpu("H100");
  CHECK(resident_blocks(h100, 1024, 0) == 2);
  CHECK(resident_blocks(h100, 33, 0) == 32);  // two warps each: 32 by threads, 32 slots
  CHECK(resident_blocks(h100, 1, 0) == 32);
  CHECK(resident_blocks(h100, 128, 100 * kKiB) == 2);
  CHECK(resident_blocks(h100, 128, 228 * kKiB) == 0);
  CHECK(resident_blocks(h100, 1025, 0) == 0);
  CHECK(resident_blocks(h100, 0, 0) == 0);
  CHECK(resident_blocks(h100, 512, 0, 40) == 3);  // 16 warps of 1,280 registers each
  CHECK(resident_blocks(h100, 512, 0, 56) == 2);
  CHECK(resident_blocks(h100, 1024, 0, 255) == 0);
  CHECK(resident_blocks(h100, 32, 0, 0) == 32);
}

TEST_CASE(
    "golden 12: 80 schedulers that hold an SM each leave 68 of 128 workers of 148 SMs a place, packed by four all") {
  CHECK(std::min<std::uint64_t>(128, block_places(148, 80, 1)) == 68);
  CHECK(std::min<std::uint64_t>(128, block_places(148, 80 / 4, 1)) == 128);
  CHECK(block_places(4, 0, 2) == 8);
  CHECK(block_places(4, 5, 2) == 0);
}

TEST_CASE("a launch gets SMs for all of its blocks: registers count, as they do for how many an SM holds") {
  const GpuModel& h100 = *find_gpu("H100");
  // 800 threads of 64 registers: one block an SM, where threads alone leave room for two.
  const int held = resident_blocks(h100, 800, 0, 64);
  REQUIRE(held == 1);
  CHECK(resident_blocks(h100, 800, 0) == 2);
  CHECK(sms_wanted(h100, {.blocks = 132, .resident_blocks = held}) == 132);
}

TEST_CASE(
    "so many registers as most_registers() says leave an SM a block, and one more does not, but for the most there "
    "are") {
  for (const GpuModel& gpu : {*find_gpu("H100"), *find_gpu("GB10")}) {
    for (int threads = 1; threads <= 1024; ++threads) {
      const int most = most_registers(gpu, threads);
      REQUIRE(resident_blocks(gpu, threads, 0, most) >= 1);
      if (most < 255) REQUIRE(resident_blocks(gpu, threads, 0, most + 1) == 0);
    }
  }
  CHECK(most_registers(*find_gpu("H100"), 1024) == 64);
}

TEST_CASE("a kernel takes the longest of its bytes, its arithmetic and its waves") {
  const GpuModel& h100 = *find_gpu("H100");
  const GridShape full{.blocks = 264, .resident_blocks = resident_blocks(h100, 1024, 0)};
  CHECK(full.resident_blocks == 2);
  CHECK(sms_wanted(h100, full) == 132);
  CHECK(kernel_ps(h100, full, {.wave_ps = 1000}, 132) == 1000);
  CHECK(kernel_ps(h100, full, {.wave_ps = 1000}, 66) == 2000);
  CHECK(kernel_ps(h100, {.blocks = 265, .resident_blocks = 2}, {.wave_ps = 1000}, 132) == 2000);
  CHECK(kernel_ps(h100, full, {.memory_bytes = 3'350'000}, 132) == 1 * kPicosecondsPerMicrosecond);
  CHECK(kernel_ps(h100, full, {.float32_operations = 1'000'000'000}, 66) >
        19 * kPicosecondsPerMicrosecond * 3 / 2);  // half the SMs: twice the time
}

TEST_CASE("a copy is its start and its bytes over the rate of its kind; inside a GPU every byte moves twice") {
  const GpuModel& h100 = *find_gpu("H100");
  CHECK(copy_ps(h100, CopyKind::kPinned, 0) == h100.copy_start_ps);
  CHECK(copy_ps(h100, CopyKind::kPinned, 55'000'000) == h100.copy_start_ps + kPicosecondsPerMillisecond);
  CHECK(copy_ps(h100, CopyKind::kInside, 3'350'000) == h100.copy_start_ps + 2 * kPicosecondsPerMicrosecond);
  CHECK(fill_ps(h100, 3'350'000) == h100.copy_start_ps + kPicosecondsPerMicrosecond);
  CHECK(copy_ps(h100, CopyKind::kPageable, 1 << 20) > copy_ps(h100, CopyKind::kPinned, 1 << 20));
}

}  // namespace gpu_test
