// Kernels that nvcc made, run by the interpreter: whole programs, divergence, barriers, calls, printf and faults.
#include <doctest/doctest.h>

#include <numeric>

#include "tests/cuda/ptx_bench.h"

namespace ptx_kernels_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::ptx::Execution;

namespace {

template <typename T>
std::vector<T> counted(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the first program: shared memory, a ballot, an atomic, a managed and a device variable") {
  Device device(module_file("first.ptx"));
  const std::vector<int> dv{1, 2, 3, 4};
  std::memcpy(device.memory.at(device.variable("dv"), 16, true), dv.data(), 16);
  const int mv = 5;
  std::memcpy(device.memory.at(device.variable("mv"), 4, true), &mv, 4);
  const auto x = device.memory.put(counted<float>(1024));
  const auto y = device.memory.put(counted<float>(1024));
  const auto c = device.memory.put(std::vector<int>{0});
  CHECK(device.run("_Z1kifPKfPfPi", {.grid = 4, .block = 256, .resident = 2}, 1024, 2.0F, x, y, c) == "");
  const auto found = device.memory.get<float>(y, 1024);
  for (int index = 0; index < 1024; ++index)
    REQUIRE(found[index] == 2.0F * static_cast<float>(index ^ 1) + static_cast<float>(index));
  CHECK(device.memory.get<int>(c, 1)[0] == 32 * (16 + 2 + 5));
  CHECK(device.counts.atomics == 32);
  CHECK(device.counts.flops == 2048);
  CHECK(device.counts.global_bytes_written == 4096 + 32 * 4);
}

TEST_CASE("saxpy, a reduction, a scan and a histogram give what the host computes, in any order of warps") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    CAPTURE(seed);
    Device device(module_file("kernels.ptx"));
    const auto x = device.memory.put(counted<float>(5000));
    const auto y = device.memory.put(std::vector<float>(5000, 1.0F));
    CHECK(device.run("saxpy", {.grid = 7, .block = 96, .seed = seed}, 5000, 3.0F, x, y) == "");
    const auto sums = device.memory.get<float>(y, 5000);
    for (int index = 0; index < 5000; ++index) REQUIRE(sums[index] == 3.0F * static_cast<float>(index) + 1.0F);

    const auto ones = device.memory.put(std::vector<float>(10000, 0.5F));
    const auto total = device.memory.put(std::vector<float>{0});
    CHECK(device.run("reduce", {.grid = 5, .block = 256, .seed = seed}, 10000, ones, total) == "");
    CHECK(device.memory.get<float>(total, 1)[0] == 5000.0F);

    const auto in = device.memory.put(std::vector<int>(512, 2));
    const auto out = device.memory.put(std::vector<int>(512, 0));
    CHECK(device.run("scan", {.block = 512, .seed = seed}, in, out) == "");
    const auto scanned = device.memory.get<int>(out, 512);
    for (int index = 0; index < 512; ++index) REQUIRE(scanned[index] == 2 * (index + 1));

    std::vector<unsigned char> bytes(3000);
    for (std::size_t index = 0; index < bytes.size(); ++index) bytes[index] = static_cast<unsigned char>(index * 7);
    std::vector<unsigned> expected(256);
    for (const unsigned char byte : bytes) ++expected[byte];
    const auto from = device.memory.put(bytes);
    const auto bins = device.memory.put(std::vector<unsigned>(256, 0));
    CHECK(device.run("histogram", {.grid = 3, .block = 256, .seed = seed}, from, 3000, bins) == "");
    CHECK(device.memory.get<unsigned>(bins, 256) == expected);
  }
}

TEST_CASE("printf prints what the host's printf prints") {
  Device device(module_file("kernels.ptx"));
  const char name[] = "thread";
  const auto who = device.memory.put(std::vector<char>(name, name + sizeof name));
  CHECK(device.run("print", {.block = 64}, who) == "");
  CHECK(device.printed == "thread 0 of 64:  0.00 123456789abc %\nthread 32 of 64: 10.67 123456789abc %\n");
}

TEST_CASE("an assertion that fails names itself") {
  Device device(module_file("kernels.ptx"));
  const auto good = device.memory.put(std::vector<int>(32, 1));
  CHECK(device.run("check", {}, good) == "");
  const auto bad = device.memory.put(std::vector<int>{1, 1, 1, 0, 1, 1, 1, 1});
  const std::string fault = device.run("check", {.block = 8}, bad);
  CHECK_MESSAGE(has(fault, "block: [0,0,0], thread: [3,0,0] Assertion `x[threadIdx.x] > 0` failed."), fault);
}

TEST_CASE("recursion, calls by address and a switch: every lane its own way") {
  Device device(module_file("kernels.ptx"));
  const auto out = device.memory.put(std::vector<int>(64, 0));
  CHECK(device.run("recursion", {.block = 64}, out) == "");
  const int fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  const auto found = device.memory.get<int>(out, 64);
  for (int index = 0; index < 64; ++index) REQUIRE(found[index] == fib[index % 12]);
  CHECK(device.run("indirect", {.block = 64}, out) == "");
  const auto products = device.memory.get<int>(out, 64);
  for (int index = 0; index < 64; ++index) REQUIRE(products[index] == index * (index % 2 == 0 ? 2 : 3));
  const auto x = device.memory.put(counted<int>(64));
  CHECK(device.run("cases", {.block = 64}, x) == "");
  const auto cases = device.memory.get<int>(x, 64);
  for (int v = 0; v < 64; ++v) {
    const int expected[] = {v * 3, v + 7, v ^ 5, v * v, -v, v << 2, v | 64, v % 3};
    REQUIRE(cases[v] == expected[v % 8]);
  }
}

TEST_CASE("a lane that spins for a lock of its own warp never starves the one that holds it") {
  for (const std::uint64_t seed : {0, 3}) {
    Device device(module_file("kernels.ptx"));
    const auto lock = device.memory.put(std::vector<int>{0});
    const auto sum = device.memory.put(std::vector<int>{0});
    CHECK(device.run("spin_lock", {.grid = 3, .block = 64, .resident = 2, .seed = seed}, lock, sum) == "");
    CHECK(device.memory.get<int>(sum, 1)[0] == 192);
  }
}

TEST_CASE("a barrier of the grid: all blocks resident pass it, more blocks than fit spin and are named") {
  Device device(module_file("kernels.ptx"));
  const auto data = device.memory.put(std::vector<int>(256, -1));
  const auto out = device.memory.put(std::vector<int>(256, -1));
  CHECK(device.run("grid_barrier", {.grid = 4, .block = 64, .resident = 4, .cooperative = true}, data, out) == "");
  const auto found = device.memory.get<int>(out, 256);
  for (int index = 0; index < 256; ++index) REQUIRE(found[index] == 255 - index);
  const std::string fault =
      device.run("grid_barrier", {.grid = 4, .block = 64, .resident = 3, .cooperative = true}, data, out);
  CHECK_MESSAGE(has(fault, "spins: kernel grid_barrier: "), fault);
  CHECK_MESSAGE(has(fault, "1 blocks have not begun, because only 3 fit"), fault);
}

TEST_CASE("a barrier of the grid in an ordinary launch is a trap, as cooperative_groups.h has it") {
  Device device(module_file("kernels.ptx"));
  const auto data = device.memory.put(std::vector<int>(256, -1));
  const auto out = device.memory.put(std::vector<int>(256, -1));
  const std::string fault = device.run("grid_barrier", {.grid = 4, .block = 64, .resident = 4}, data, out);
  CHECK_MESSAGE(has(fault, "kernel grid_barrier, block (0,0,0), thread (0,0,0), PTX line "), fault);
  CHECK_MESSAGE(has(fault, "trap: a grid-wide barrier (grid.sync()) in an ordinary launch; launch the kernel by "),
                fault);
}

TEST_CASE("blocks that poll never keep others from their turn, however many they are and however short a step is") {
  Device device(module_file("kernels.ptx"));
  constexpr std::uint32_t kBlocks = 100, kThreads = kBlocks * 64;
  const auto data = device.memory.put(std::vector<int>(kThreads, -1));
  const auto out = device.memory.put(std::vector<int>(kThreads, -1));
  const auto end_of = [&](std::uint32_t resident) {
    auto execution = device.start("grid_barrier",
                                  {.grid = kBlocks, .block = 64, .resident = resident, .cooperative = true}, data, out);
    auto state = Execution::State::kRunning;
    for (int steps = 0; steps < 10000 && state == Execution::State::kRunning; ++steps) state = execution->step(1000);
    return state;
  };
  CHECK(end_of(kBlocks) == Execution::State::kFinished);
  const auto found = device.memory.get<int>(out, kThreads);
  for (std::uint32_t index = 0; index < kThreads; ++index)
    REQUIRE(found[index] == static_cast<int>(kThreads - 1 - index));
  CHECK(end_of(kBlocks - 1) == Execution::State::kSpinning);
}

TEST_CASE("a kernel that polls a flag lets others act, and goes on when they have") {
  Device device(module_file("kernels.ptx"));
  const auto flag = device.memory.put(std::vector<int>{0});
  const auto out = device.memory.put(std::vector<int>(32, 0));
  auto execution = device.start("wait_flag", {}, flag, out);
  CHECK(execution->step(1000000) == Execution::State::kSpinning);
  CHECK(execution->step(1000000) == Execution::State::kSpinning);
  CHECK(execution->counts().lane_instructions < 10000);
  const int seven = 7;
  std::memcpy(device.memory.at(flag, 4, true), &seven, 4);
  CHECK(execution->step(1000000) == Execution::State::kFinished);
  CHECK(device.memory.get<int>(out, 32) == std::vector<int>(32, 7));
}

TEST_CASE("faults are named: past the end, freed, and a barrier that not all reach") {
  Device device(module_file("kernels.ptx"));
  const auto x = device.memory.put(std::vector<int>(64, 0));
  std::string fault = device.run("past_end", {.block = 64}, x);
  CHECK_MESSAGE(has(fault, "kernel past_end, block (0,0,0), thread (63,0,0), PTX line "), fault);
  CHECK_MESSAGE(has(fault, "writes 4 bytes at 0x7f"), fault);
  CHECK_MESSAGE(has(fault, "no allocation holds it"), fault);
  fault = device.run("past_end", {.block = 32}, x + 2);
  CHECK_MESSAGE(has(fault, "is not a multiple of 4"), fault);
  fault = device.run("half_barrier", {.block = 64}, x);
  CHECK_MESSAGE(has(fault, "a barrier that not all reach: 32 threads wait at line "), fault);
  CHECK_MESSAGE(has(fault, "(barrier 1), 32 have ended"), fault);
  device.memory.release(x);
  fault = device.run("half_barrier", {.block = 128}, x);
  CHECK_MESSAGE(has(fault, "no allocation holds it"), fault);
}

TEST_CASE("atomics of every width: the old value comes back, the new one stands there") {
  struct Row {
    const char* opcode;
    int bytes;
    std::uint64_t before, operand, after;
  };
  const Row rows[] = {{"atom.add.u32", 4, 0xffffffff, 2, 1},
                      {"atom.global.min.s32", 4, 5, 0xfffffffe, 0xfffffffe},
                      {"atom.max.u32", 4, 5, 0xfffffffe, 0xfffffffe},
                      {"atom.inc.u32", 4, 7, 7, 0},
                      {"atom.dec.u32", 4, 0, 7, 7},
                      {"atom.relaxed.gpu.or.b32", 4, 0xf0, 0x0f, 0xff},
                      {"atom.max.s64", 8, ~0ULL, 3, 3},
                      {"atom.exch.b64", 8, 1, 1ULL << 40U, 1ULL << 40U},
                      {"atom.add.f32", 4, 0x3f800000, 0x40000000, 0x40400000},
                      {"atom.add.f32", 4, 0x7f800000, 0xff800000, 0x7fffffff},
                      {"atom.add.f64", 8, 0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000},
                      {"atom.add.noftz.f16", 2, 0x3c00, 0x4000, 0x4200},
                      {"atom.add.noftz.bf16", 2, 0x3f80, 0x4000, 0x4040},
                      {"atom.add.noftz.f16x2", 4, 0x3c003c00, 0x40003c00, 0x42004000},
                      {"atom.cas.b16", 2, 9, 9, 77},
                      {"atom.cas.b64", 8, 9, 8, 9}};
  for (const Row& row : rows) {
    const std::string type = ".b" + std::to_string(row.bytes * 8);
    const std::string last = std::string(row.opcode).find("cas") == std::string::npos ? "" : ", 77";
    Device device(
        module_of(".version 9.0 .target sm_90 .address_size 64\n"
                  ".visible .entry k(.param .u64 at, .param .u64 out) { .reg .b64 %l<3>; .reg " +
                  type + " %d, %b;\n ld.param.u64 %l1, [at]; ld.param.u64 %l2, [out]; mov" + type + " %b, " +
                  std::to_string(row.operand) + ";\n " + row.opcode + " %d, [%l1], %b" + last + "; st.global" + type +
                  " [%l2], %d; ret; }\n"));
    const auto at = device.memory.put(std::vector<std::uint64_t>{row.before});
    const auto out = device.memory.put(std::vector<std::uint64_t>{0});
    CHECK_MESSAGE(device.run("k", {.block = 1}, at, out) == "", row.opcode);
    CHECK_MESSAGE(device.memory.get<std::uint64_t>(out, 1)[0] == row.before, row.opcode);
    CHECK_MESSAGE(device.memory.get<std::uint64_t>(at, 1)[0] == row.after, row.opcode);
  }
}

TEST_CASE("a call by the address of a kernel is a fault, and a parameter in a register may have 8 bits") {
  Device device(module_of(
      ".version 9.0 .target sm_90 .address_size 64\n"
      ".visible .entry other(.param .align 8 .b8 x[60000]) { ret; }\n"
      ".func (.reg .b32 %o) sum(.reg .b64 %l, .reg .u8 %a, .reg .b32 %b)\n"
      "{ .reg .b32 %t; cvt.u32.u64 %t, %l; cvt.u32.u16 %o, %a; add.u32 %o, %o, %b; add.u32 %o, %o, %t; ret; }\n"
      ".visible .entry calls(.param .u64 out) {\n"
      " .reg .b16 %h; .reg .b32 %r<4>; .reg .b64 %l<4>; mov.u32 %r1, %tid.x; cvt.u16.u32 %h, %r1;\n"
      " ld.param.u64 %l1, [out]; mov.u64 %l3, 1000; call (%r2), sum, (%l3, %h, %r1); mad.wide.u32 %l2, %r1, 4, %l1;\n"
      " st.global.u32 [%l2], %r2; ret; }\n"
      ".visible .entry k() { .reg .b64 %l; .param .align 8 .b8 p[60000];\n"
      " mov.u64 %l, other; form: .callprototype _ (.param .align 8 .b8 _[60000]);\n call %l, (p), form; ret; }\n"));
  const auto out = device.memory.put(std::vector<unsigned>(32, 0));
  CHECK(device.run("calls", {}, out) == "");
  const auto found = device.memory.get<unsigned>(out, 32);
  for (unsigned lane = 0; lane < 32; ++lane) CHECK(found[lane] == 1000 + 2 * lane);
  CHECK(device.run("k", {}) ==
        "kernel k, block (0,0,0), thread (0,0,0), PTX line 11: the call of kernel other is not implemented");
}

TEST_CASE("a launch of a shape that no device or not this kernel takes does not begin") {
  const auto module = module_of(
      ".version 9.0 .target sm_90 .address_size 64\n"
      ".visible .entry k(.param .u64 x) .maxntid 128 { ret; }\n.visible .entry r() .reqntid 32, 2, 1 { ret; }\n");
  DeviceMemory memory;
  const auto why = [&](const char* name, std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                       std::uint32_t shared = 0, std::size_t bytes = 8) {
    sim::ptx::LaunchRequest request;
    request.module = module;
    request.kernel = module->find_kernel(name);
    request.grid = grid;
    request.block = block;
    request.dynamic_shared_bytes = shared;
    request.parameters.resize(bytes);
    const auto started = sim::ptx::Execution::start(std::move(request), memory);
    return started ? "" : started.error().text;
  };
  constexpr std::uint32_t kMost = 0x7fffffff;
  CHECK(why("k", {kMost, 65535, 65535}, {128, 1, 1}) == "");
  CHECK(why("k", {1, 0, 1}, {1, 1, 1}) == "kernel k: a dimension of 0");
  CHECK(why("k", {kMost, kMost, kMost}, {1, 1, 1}) ==
        "kernel k: a grid of 2147483647 blocks along axis y, where 65535 are allowed");
  CHECK(why("k", {1, 1, 1}, {129, 1, 1}) == "kernel k: 129 threads a block, where 128 are allowed");
  CHECK(why("r", {1, 1, 1}, {64, 1, 1}) == "kernel r: its .reqntid asks for another block");
  CHECK(why("k", {1, 1, 1}, {1, 1, 1}, 228U << 10U) ==
        "kernel k: more shared memory than a block may have (232448 bytes)");
  CHECK(why("k", {1, 1, 1}, {1, 1, 1}, 0, 7) == "kernel k: 7 bytes of parameters of 8");
}

}  // namespace ptx_kernels_test
