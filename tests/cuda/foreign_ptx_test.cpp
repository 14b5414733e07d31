// PTX of other people's programs: what is not implemented ends the kernel that executes it, and nothing else.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "tests/cuda/gpus.h"
#include "tests/cuda/ptx_bench.h"

namespace foreign_ptx_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// Line 6 is the body's first.
std::string body(const std::string& text, const std::string& version = "9.0") {
  return ".version " + version +
         "\n.target sm_100a\n.address_size 64\n.const .align 16 .b8 cm[64]; .shared .align 128 .b8 sm[1024];\n"
         ".visible .entry k(.param .u64 x) { .reg .pred %p<8>, %q; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .f32 "
         "%f<64>; .reg .b64 %l<16>; .reg .f64 %d<8>; .reg .b128 %q<4>; ld.param.u64 %l0, [x]; setp.ne.u64 %q, %l0, "
         "0;\n" +
         text + "\nret; }\n";
}

std::string refusal(const std::string& text) {
  const auto parsed = sim::ptx::Module::parse(text, "a.ptx");
  return parsed ? "" : parsed.error().text;
}

/// What executing it says, behind the place.
std::string executed(const std::string& text) {
  Device device(module_of(body(text)));
  const std::string place = "kernel k, block (0,0,0), thread (0,0,0), PTX line 6: ";
  const std::string found = device.run("k", {.block = 1}, std::uint64_t{0});
  return found.rfind(place, 0) == 0 ? found.substr(place.size()) : found;
}

}  // namespace

TEST_CASE("each form of PTX ISA 9.0 is loaded, and is not in the way of a kernel that never comes to it") {
  // One statement a line; NVIDIA's ptxas 13.0 takes each of them for sm_90a, sm_100a or sm_120a.
  std::ifstream file(std::string(MESHBED_SOURCE_DIR) + "/tests/cuda/ptx/foreign_forms.txt");
  REQUIRE(file.good());
  int forms = 0;
  for (std::string form; std::getline(file, form); ++forms) {
    CAPTURE(form);
    const std::string text = body("@%q " + form);
    const std::string error = refusal(text);
    CHECK(error == "");
    if (!error.empty()) continue;
    Device device(module_of(text));
    CHECK(device.run("k", {.block = 1}, std::uint64_t{0}) == "");
  }
  CHECK(forms > 340);
}

TEST_CASE("an instruction that is not implemented is named with its kernel and line where it is executed") {
  CHECK(executed("multimem.red.relaxed.gpu.global.add.f32 [%l1], %f1;") ==
        "opcode multimem.red.relaxed.gpu.global.add.f32 is not implemented");
  CHECK(executed("wgmma.fence.sync.aligned;") == "opcode wgmma.fence.sync.aligned is not implemented");
  CHECK(executed("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%l1], [%r2], 16;") ==
        "opcode cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16: modifier .reduce is not implemented");
  CHECK(executed("mov.u32 %r1, %envreg7;") == "opcode mov.u32: register %envreg7 is not implemented");
  CHECK(executed("add.novel.u32 %r1, %r2, %r3;") == "opcode add.novel.u32: modifier .novel is not implemented");
  CHECK(executed("vadd.s32.u32.s32.sat %r1, %r2.b0, %r3.h1;") ==
        "opcode vadd.s32.u32.s32.sat: an operand with .b0 is not implemented");
  CHECK(executed(".reg .v4 .f32 %v; mov.b32 %f1, %v.x;") == "opcode mov.b32: a register of .v4 is not implemented");
  CHECK(executed(".reg .b128 %w; st.global.u64 [%l1], %w;") == "opcode st.global.u64: this type is not implemented");
  // One that skips it runs.
  CHECK(executed("bra out; wgmma.fence.sync.aligned; out:") == "");
}

TEST_CASE("what PTX of a newer version has is not implemented; what no version has is refused") {
  CHECK(refusal(body("frobnicate.u32 %r1, %r2;", "9.1")) == "");
  CHECK(refusal(body("frobnicate.u32 %r1, %r2;")) == "a.ptx:6: frobnicate.u32: PTX ISA 9.0 has no such instruction");
  CHECK(refusal(body("add.u64 %l1, %l2, %r1;", "9.1")) ==
        "a.ptx:6: add.u64: a register of 32 bits where 64 are expected");
}

TEST_CASE("variables of a type that is not known are those of the kernels that use them") {
  const std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n.global .texref picture;\n.global .samplerref sampler = { "
      "addr_mode_0 = clamp_to_edge };\n.visible .entry k() { ret; }\n.visible .entry reads() { .reg .b64 %l; "
      "mov.u64 %l, picture; ret; }\n";
  Device device(module_of(text));
  CHECK(device.run("k", {}) == "");
  CHECK(device.run("reads", {}) ==
        "kernel reads, block (0,0,0), thread (0,0,0), PTX line 7: opcode mov.u64: variable picture has a type that is "
        "not implemented");
}

TEST_CASE("a launch that comes to such an instruction ends in CUDA's own error, with one warning") {
  const std::string said = run_gpus({.simulated = true}, [] {
    const Gpu gpu;
    CUmodule module = nullptr;
    CUfunction never = nullptr, reaches = nullptr;
    REQUIRE(cuModuleLoadData(&module,
                             ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry never() { .reg .pred %p; "
                             "setp.ne.u32 %p, 0, 0; @%p wgmma.fence.sync.aligned; ret; }\n.visible .entry reaches() "
                             "{\n wgmma.fence.sync.aligned; ret; }\n") == 0);
    CHECK(cuModuleGetFunction(&never, module, "never") == 0);
    CHECK(cuModuleGetFunction(&reaches, module, "reaches") == 0);
    CHECK(cuLaunchKernel(never, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == 0);
    CHECK(cuCtxSynchronize() == 0);
    CHECK(cuLaunchKernel(reaches, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == 0);
    CHECK(cuCtxSynchronize() == 801);  // NOT_SUPPORTED: a limit of the simulator, not the program's mistake
  });
  CAPTURE(said);
  const std::string warning =
      "kernel reaches, block (0,0,0), thread (0,0,0), PTX line 6: opcode wgmma.fence.sync.aligned is not implemented";
  CHECK(said.find(warning) != said.npos);
  CHECK(said.find(warning, said.find(warning) + 1) == said.npos);
}

}  // namespace foreign_ptx_test
