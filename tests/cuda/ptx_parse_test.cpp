// Texts that are refused, with the line and the reason; and what a module says of itself.
#include <doctest/doctest.h>

#include "tests/cuda/ptx_bench.h"

namespace ptx_parse_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// Line 4 is the body's first.
std::string body(const std::string& text) {
  return ".version 9.0 .target sm_90 .address_size 64\n.visible .entry k(.param .u64 x)\n{ .reg .b32 %r<4>; .reg .b64 "
         "%l<4>; .reg .pred %p;\n" +
         text + "\nret; }\n";
}

std::string refusal(const std::string& text) {
  const auto parsed = sim::ptx::Module::parse(text, "a.ptx");
  return parsed ? "" : parsed.error().text;
}

}  // namespace

TEST_CASE("what is not PTX is refused with its line") {
  CHECK(refusal(body("")) == "");
  CHECK(refusal(body("\nfrobnicate.u32 %r1, %r2;")) == "a.ptx:5: frobnicate.u32: PTX ISA 9.0 has no such instruction");
  CHECK(refusal(body("mov.u32 %r1, %nothere;")) == "a.ptx:4: unknown register %nothere");
  CHECK(refusal(body("mov.u32 %r1, %envreg1; mov.u32 %r2, %ctaid.y;")) == "");
  CHECK(refusal(body("add.u32 %r1, %r2, %r9;")) == "a.ptx:4: unknown register %r9");
  CHECK(refusal(body("add.u64 %l1, %l2, %r1;")) == "a.ptx:4: add.u64: a register of 32 bits where 64 are expected");
  CHECK(refusal(body("bra nowhere;")) == "a.ptx:4: unknown name 'nowhere'");
  CHECK(refusal(body("add.u32 %r1, %r2, %r3")) == "a.ptx:5: ';' expected before 'ret'");
  CHECK(refusal(body("@%r1 bra a; a:")) == "a.ptx:4: %r1 is no predicate");
  CHECK(refusal(body("mov.u32 %r1, 12x;")) == "a.ptx:4: '12x' is not a number");
  CHECK(refusal(body("call f, (%r1);")) == "a.ptx:4: unknown name 'f'");
  CHECK(refusal(".version 9.0 .target sm_90\n.entry k() { ret;") == "a.ptx:2: k: '}' missing at the end of the text");
  CHECK(refusal(".global .b8 x[2] = {1, 2, 3};") == "a.ptx:1: x has more values than places");
  CHECK(refusal(body("mov.u32 %r1, " + std::string(5000, '(') + ";")) != "");
  CHECK(refusal(body("mov.u32 %r1, " + std::string(5000, '-') + "1;")) != "");
}

TEST_CASE("what would not fit where it is put is refused") {
  CHECK(refusal(".func f(.reg .pred %a) { ret; }") == "a.ptx:1: %a: a parameter in a register is one number");
  CHECK(refusal(".func f(.reg .b32 %a[100000]) { ret; }") == "a.ptx:1: %a: a parameter in a register is one number");
  std::string many = ".func f(.param .b8 a[65536]";
  for (int at = 0; at < 20; ++at) many += ", .param .b8 a" + std::to_string(at) + "[65536]";
  CHECK(refusal(many + ") { ret; }") == "a.ptx:1: f: too many bytes of parameters");
  CHECK(refusal(".global .b128 x = 1;") == "a.ptx:1: x: values of 128 bits are not implemented");
  CHECK(refusal(".global .b8 x; .global .u8 y[1] = {0x00(x)};") ==
        "a.ptx:1: 0xff and its multiples by 256 choose a byte of an address");
  CHECK(refusal(".global .b8 x[17179869184][1073741824];") == "a.ptx:1: x is too large");
  CHECK(refusal(body("") + ".visible .entry big() { .shared .b8 s[33554432]; .reg .b32 %r; mov.u32 %r, s; ret; }") ==
        "a.ptx:6: big: too much shared memory");
}

TEST_CASE("the estimate of registers leaves a block the threads that it says it has") {
  const auto registers = [](const std::string& directives) {
    return module_of(".version 9.0 .target sm_90 .address_size 64\n.visible .entry k() " + directives +
                     " { .reg .b64 %l<900>; ret; }\n")
        ->find_kernel("k")
        ->registers;
  };
  CHECK(registers("") == 255);
  CHECK(registers(".maxntid 1024, 1, 1") == 64);
  CHECK(registers(".reqntid 640") == 96);
  CHECK(registers(".maxntid 512 .maxnreg 40") == 40);
  CHECK(registers(".maxntid 32") == 255);
}

TEST_CASE("a module names its kernels, parameters and variables") {
  const auto module = module_of(
      ".version 9.0 .target sm_90 .address_size 64\n"
      ".const .f32 there[3] = {0f3F800000, 2.5, -1.0};\n.global .align 8 .u64 here[2] = {generic(there)+4, "
      "7};\n.extern .shared .align 16 .b8 dynamic[];\n"
      ".visible .entry k(.param .u32 a, .param .align 8 .b8 b[24], .param .u8 c) .maxntid 128 .reqntid 64,2 { .shared "
      ".f32 s[10]; .reg .f32 %f; "
      ".reg .b32 %r; ld.shared.f32 %f, [s]; mov.u32 %r, dynamic; ret; }\n");
  CHECK(module->kernels().size() == 1);
  const auto& kernel = *module->find_kernel("k");
  CHECK(kernel.parameters.size() == 3);
  CHECK(kernel.parameters[1].offset == 8);
  CHECK(kernel.parameters[2].offset == 32);
  CHECK(kernel.parameter_bytes == 33);
  CHECK(kernel.static_shared_bytes == 48);
  CHECK(kernel.max_threads == 128);
  CHECK(kernel.required_block == std::array<std::uint32_t, 3>{64, 2, 1});
  CHECK(module->find_kernel("q") == nullptr);
  REQUIRE(module->variables().size() == 2);
  CHECK(module->variables()[0].constant);
  std::uint64_t here[2];
  module->write_initial(1, {1000, 2000}, here);
  CHECK(here[0] == 1004);
  CHECK(here[1] == 7);
  float there[3];
  module->write_initial(0, {1000, 2000}, there);
  CHECK(there[1] == 2.5F);
  CHECK(there[2] == -1.0F);
}

}  // namespace ptx_parse_test
