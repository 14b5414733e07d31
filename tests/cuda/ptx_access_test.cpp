// Loads and stores of every width, of lanes that stand in a row, at one place, apart, or not all there.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>

#include "tests/cuda/ptx_bench.h"

namespace ptx_access_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// Thread i < n copies element from[i] of `in` to element to[i] of `out`, in the type and by way of a register of
/// that class; `shared`: by way of shared memory, too.
std::string copy_kernel(const std::string& type, const std::string& registers, unsigned bytes, bool shared) {
  const std::string size = std::to_string(bytes);
  return R"(.version 8.0
.target sm_70
.address_size 64
.shared .align 16 .b8 buffer[512];
.visible .entry copy(.param .u32 n, .param .u64 in, .param .u64 out, .param .u64 from, .param .u64 to)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<12>;
  .reg )" +
         registers + R"( %v<3>;
  ld.param.u32 %r1, [n];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u64 %rd3, [from];
  ld.param.u64 %rd4, [to];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd5, %r2, 4;
  add.s64 %rd6, %rd3, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.u32 %r3, [%rd6];
  ld.global.u32 %r4, [%rd7];
  mul.wide.u32 %rd8, %r3, )" +
         size + R"(;
  mul.wide.u32 %rd9, %r4, )" +
         size + R"(;
  add.s64 %rd8, %rd1, %rd8;
  add.s64 %rd10, %rd2, %rd9;
  ld.global.)" +
         type + " %v1, [%rd8];\n" +
         (shared ? "mov.u64 %rd11, buffer; add.s64 %rd11, %rd11, %rd9; st.shared." + type +
                       " [%rd11], %v1; ld.shared." + type + " %v1, [%rd11];\n"
                 : "") +
         "st.global." + type + R"( [%rd10], %v1;
DONE:
  ret;
}
)";
}

using Indices = std::vector<std::uint32_t>;

template <typename T>
void check_copies(const std::string& type, const std::string& registers) {
  CAPTURE(type);
  Indices row(32), same(32, 7), back(32), apart(32);
  std::iota(row.begin(), row.end(), 0);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    back[lane] = 31 - lane;
    apart[lane] = lane * 11 % 32;
  }
  std::vector<T> values(64);
  for (std::size_t index = 0; index < values.size(); ++index)
    values[index] = static_cast<T>(index * 0x9e3779b97f4a7c15ULL);
  for (const bool shared : {false, true}) {
    Device device(module_of(copy_kernel(type, registers, sizeof(T), shared)));
    for (const Indices& from : {row, same, back, apart}) {
      for (const Indices& to : {row, same, back, apart}) {
        if (shared && to == same) continue;  // whose value is there then is not said
        for (const std::uint32_t lanes : {32U, 19U, 1U}) {
          CAPTURE(lanes);
          std::vector<T> expected(64, T{3});
          for (std::uint32_t lane = 0; lane < lanes; ++lane) expected[to[lane]] = values[from[lane]];
          const auto in = device.memory.put(values), out = device.memory.put(std::vector<T>(64, T{3}));
          const auto at_from = device.memory.put(from), at_to = device.memory.put(to);
          CHECK(device.run("copy", {.block = 32}, lanes, in, out, at_from, at_to) == "");
          CHECK(device.memory.get<T>(out, 64) == expected);
          CHECK(device.counts.global_bytes_read == lanes * (8 + sizeof(T)));
          CHECK(device.counts.global_bytes_written == lanes * sizeof(T));
          CHECK(device.counts.shared_bytes == (shared ? lanes * 2 * sizeof(T) : 0));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("elements of every width go from and to a row, one place, and places apart, with all lanes or some") {
  check_copies<std::uint8_t>("u8", ".b16");
  check_copies<std::uint8_t>("b8", ".b32");
  check_copies<std::uint16_t>("u16", ".b16");
  check_copies<std::uint32_t>("b32", ".b32");
  check_copies<std::uint64_t>("b64", ".b64");
}

TEST_CASE("a row that runs over an allocation's end is an error of the first lane that is outside") {
  Device device(module_of(copy_kernel("b32", ".b32", 4, false)));
  Indices row(32);
  std::iota(row.begin(), row.end(), 0);
  const auto in = device.memory.put(std::vector<std::uint32_t>(20, 1)), out = device.memory.allocate(128);
  const auto at = device.memory.put(row);
  const std::string fault = device.run("copy", {.block = 32}, 32, in, out, at, at);
  CHECK(fault.find("thread (20,0,0)") != std::string::npos);
  CHECK(fault.find("reads 4 bytes") != std::string::npos);
}

TEST_CASE("%tid counts along the three axes of a block, whatever their lengths") {
  const std::string text = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry place(.param .u64 out)
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %ntid.y;
  mad.lo.s32 %r6, %r3, %r5, %r2;
  mad.lo.s32 %r6, %r6, %r4, %r1;
  mul.wide.u32 %rd2, %r6, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
}
)";
  const auto module = module_of(text);
  for (const std::array<std::uint32_t, 3> block :
       {std::array{5U, 7U, 3U}, {1U, 1U, 64U}, {64U, 2U, 1U}, {3U, 40U, 2U}}) {
    const std::uint32_t threads = block[0] * block[1] * block[2];
    DeviceMemory memory;
    const auto out = memory.put(std::vector<std::uint32_t>(threads, 9999));
    sim::ptx::LaunchRequest request;
    request.module = module;
    request.kernel = module->find_kernel("place");
    request.block = block;
    request.parameters.resize(8);
    std::memcpy(request.parameters.data(), &out, 8);
    auto started = sim::ptx::Execution::start(std::move(request), memory);
    REQUIRE(started.has_value());
    CHECK((*started)->step(1'000'000) == sim::ptx::Execution::State::kFinished);
    std::vector<std::uint32_t> expected(threads);
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(memory.get<std::uint32_t>(out, threads) == expected);
  }
}

TEST_CASE("vabsdiff4 computes how far four bytes are apart, one by one or in sum, signed or not") {
  const std::string text = R"(.version 8.0
.target sm_70
.address_size 64
.visible .entry apart(.param .u32 a, .param .u32 b, .param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<2>;
  ld.param.u32 %r1, [a];
  ld.param.u32 %r2, [b];
  ld.param.u64 %rd1, [out];
  mov.b32 %r3, 1000;
  vabsdiff4.u32.u32.u32.add %r4, %r1, %r2, %r3;
  vabsdiff4.u32.s32.s32.add %r5, %r1, %r2, %r3;
  vabsdiff4.u32.u32.u32 %r6, %r1, %r2, %r3;
  st.global.u32 [%rd1], %r4;
  st.global.u32 [%rd1+4], %r5;
  st.global.u32 [%rd1+8], %r6;
  ret;
}
)";
  Device device(module_of(text));
  const auto out = device.memory.allocate(12);
  CHECK(device.run("apart", {.block = 32}, 0x01ff0310U, 0x0500020fU, out) == "");
  CHECK(device.memory.get<std::uint32_t>(out, 3) == std::vector<std::uint32_t>{1000 + 261, 1000 + 7, 0x04ff0101U});
}

TEST_CASE("atomics of the system's scope and the host's on the same words lose nothing") {
  // Each thread adds `count` times one to five words: of 32 and 64 bits, by compare-and-swap, of f32 and of two f32.
  const auto module = module_of(R"(.version 8.1
.target sm_90
.address_size 64
.visible .entry add(.param .u64 words, .param .u32 count)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [count];
  mov.f32 %f1, 0f3F800000;
  mov.f32 %f2, 0f3F800000;
again:
  red.relaxed.sys.global.add.u32 [%rd1], 1;
  atom.sys.global.add.u64 %rd2, [%rd1+8], 1;
swap:
  ld.relaxed.sys.global.u32 %r3, [%rd1+16];
  add.u32 %r4, %r3, 1;
  atom.sys.global.cas.b32 %r5, [%rd1+16], %r3, %r4;
  setp.ne.u32 %p1, %r5, %r3;
  @%p1 bra swap;
  red.sys.global.add.f32 [%rd1+20], %f1;
  red.sys.global.v2.f32.add [%rd1+24], {%f1, %f2};
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra again;
  ret;
}
)");
  Device device(module);
  const std::uint64_t words = device.memory.put(std::vector<std::uint64_t>(4));
  auto* const bytes = static_cast<std::byte*>(device.memory.at(words, 32, true));
  std::atomic<bool> ended = false;
  std::uint64_t added = 0;
  std::thread host([&] {
    while (!ended) {
      ++added;
      std::atomic_ref(*reinterpret_cast<std::uint32_t*>(bytes)).fetch_add(1);
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(bytes + 8)).fetch_add(1);
      std::atomic_ref(*reinterpret_cast<std::uint32_t*>(bytes + 16)).fetch_add(1);
      // A float counts in ones up to 2^24 alone.
      if (added > 4'000'000) continue;
      for (const int at : {20, 24, 28}) std::atomic_ref(*reinterpret_cast<float*>(bytes + at)).fetch_add(1.0F);
    }
  });
  // The lanes of a warp, which swap one after the other, and two warps.
  CHECK(device.run("add", {.grid = 1, .block = 64}, words, 20'000U) == "");
  ended = true;
  host.join();
  const std::uint64_t all = added + 64ULL * 20'000,
                      counted = std::min<std::uint64_t>(added, 4'000'000) + 64ULL * 20'000;
  CHECK(device.memory.get<std::uint64_t>(words, 2)[1] == all);
  const auto in_words = device.memory.get<std::uint32_t>(words, 8);
  CHECK(in_words[0] == static_cast<std::uint32_t>(all));
  CHECK(in_words[4] == static_cast<std::uint32_t>(all));
  const auto in_floats = device.memory.get<float>(words, 8);
  for (const int at : {5, 6, 7}) CHECK(in_floats[at] == static_cast<float>(counted));
}

}  // namespace ptx_access_test
