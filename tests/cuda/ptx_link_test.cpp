// Texts that are linked: whose names are whose, what is defined twice or nowhere, and where a mistake stands.
#include <doctest/doctest.h>

#include "tests/cuda/ptx_bench.h"

namespace ptx_link_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

const std::string kHead = ".version 9.0 .target sm_90 .address_size 64\n";

std::shared_ptr<const sim::ptx::Module> linked(const std::vector<std::string>& texts) {
  auto made = sim::ptx::Module::link(texts, "program");
  if (!made) FAIL(made.error().text);
  return *made;
}

std::string refusal(const std::vector<std::string>& texts) {
  const auto made = sim::ptx::Module::link(texts, "program");
  return made ? "" : made.error().text;
}

/// A kernel that stores the variable in its argument.
std::string stores(const std::string& kernel, const std::string& variable) {
  return ".visible .entry " + kernel + "(.param .u64 to) { .reg .b32 %r; .reg .b64 %d; ld.param.u64 %d, [to]; " +
         "ld.global.u32 %r, [" + variable + "]; st.global.u32 [%d], %r; ret; }\n";
}

/// What that kernel stores.
std::uint32_t stored_by(Device& device, const std::string& kernel) {
  const std::uint64_t to = device.memory.allocate(4);
  CHECK(device.run(kernel, {.block = 1}, to) == "");
  std::uint32_t number = 0;
  std::memcpy(&number, device.memory.at(to, 4, false), sizeof number);
  return number;
}

}  // namespace

TEST_CASE("what one text shows the others use, declared before or after it is defined") {
  const std::string use = kHead +
                          ".extern .global .align 4 .u32 there;\n.extern .func (.param .b32 out) twice (.param " +
                          ".b32 in);\n.visible .entry user(.param .u64 to) { .reg .b32 %r<3>; .reg .b64 %d;\n" +
                          "ld.param.u64 %d, [to]; ld.global.u32 %r1, [there];\n{ .param .b32 a; .param .b32 b;\n" +
                          "st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }\n" +
                          "st.global.u32 [%d], %r2; ret; }\n";
  const std::string definition = kHead + ".visible .global .align 4 .u32 there = 21;\n" +
                                 ".visible .func (.param .b32 out) twice (.param .b32 in) { .reg .b32 %r<2>;\n" +
                                 "ld.param.b32 %r1, [in]; add.u32 %r1, %r1, %r1; st.param.b32 [out], %r1; ret; }\n";
  for (const std::vector<std::string>& texts : {std::vector{use, definition}, std::vector{definition, use}}) {
    const auto module = linked(texts);
    CHECK(module->undefined().empty());
    CHECK(module->variables().size() == 1);
    Device device(module);
    CHECK(stored_by(device, "user") == 42);
  }
  CHECK(linked({use})->undefined() == std::vector<std::string>{"twice", "there"});
}

TEST_CASE("a name that a text keeps to itself is another one in each, and hides one that is shown") {
  const auto module = linked({kHead + ".visible .global .u32 x = 1;\n" + stores("first", "x"),
                              kHead + ".global .u32 x = 2;\n" + stores("second", "x"),
                              kHead + ".global .u32 x = 3;\n" + stores("third", "x"),
                              kHead + ".extern .global .u32 x;\n" + stores("fourth", "x")});
  Device device(module);
  CHECK(stored_by(device, "first") == 1);
  CHECK(stored_by(device, "second") == 2);
  CHECK(stored_by(device, "third") == 3);
  CHECK(stored_by(device, "fourth") == 1);
  CHECK(refusal({kHead + ".global .u32 x = 1;\n", kHead + stores("k", "x")}) ==
        "program, part 2 of 2:2: unknown name 'x'");
}

TEST_CASE("of a function or variable that each text has one of, one stays; two that are not weak are refused") {
  const std::string one = ".weak .func (.param .b32 out) f () { st.param.b32 [out], 1; ret; }\n";
  const std::string two = ".weak .func (.param .b32 out) f () { st.param.b32 [out], 2; ret; }\n";
  const std::string use =
      ".visible .entry k(.param .u64 to) { .reg .b32 %r; .reg .b64 %d; ld.param.u64 %d, [to]; { .param .b32 a;\n"
      "call.uni (a), f, (); ld.param.b32 %r, [a]; } st.global.u32 [%d], %r; ret; }\n";
  Device device(linked({kHead + one, kHead + two + use}));
  CHECK(stored_by(device, "k") == 1);
  Device weak(
      linked({kHead + ".weak .global .u32 x = 1;\n", kHead + ".weak .global .u32 x = 2;\n" + stores("k", "x")}));
  CHECK(stored_by(weak, "k") == 1);
  Device strong(
      linked({kHead + ".weak .global .u32 x = 1;\n", kHead + ".visible .global .u32 x;\n" + stores("k", "x")}));
  CHECK(stored_by(strong, "k") == 0);

  CHECK(refusal({kHead + ".visible .global .u32 x;\n", kHead + "\n.visible .global .u32 x;\n"}) ==
        "program, part 2 of 2:3: x is defined twice");
  CHECK(refusal({kHead + ".visible .func f() { ret; }\n", kHead + ".visible .func f() { ret; }\n"}) ==
        "program, part 2 of 2:2: f is defined twice");
}

TEST_CASE(
    "dynamic shared memory has one place, aligned as the strictest text asks; an array's type is its definition's") {
  const auto module = linked(
      {kHead + ".extern .shared .align 4 .b8 dynamic[];\n.extern .global .align 8 .b8 table[16];\n" +
           ".visible .entry k() { .shared .u32 own; .reg .b32 %r; mov.u32 %r, own; mov.u32 %r, dynamic; ret; }\n",
       kHead + ".extern .shared .align 16 .b8 dynamic[];\n.visible .global .u32 there;\n" +
           ".visible .global .align 8 .u64 table[2] = {there, 7};\n"});
  CHECK(module->find_kernel("k")->static_shared_bytes == 16);
  REQUIRE(module->variables().size() == 2);
  CHECK(module->variables()[0].name == "table");
  std::uint64_t table[2];
  module->write_initial(0, {1000, 2000}, table);
  CHECK(table[0] == 2000);
  CHECK(table[1] == 7);
}

TEST_CASE("a mistake in what was read without one is reported with its part") {
  const std::string bad = ".visible .entry k() {\n.reg .b32 %r<3>;\nwrong.u32 %r1, %r1, %r2; ret; }\n";
  CHECK(refusal({kHead, kHead + bad, kHead}) ==
        "program, part 2 of 3:4: wrong.u32: PTX ISA 9.0 has no such instruction");
  CHECK(refusal({kHead + bad}) == "program:4: wrong.u32: PTX ISA 9.0 has no such instruction");
}

}  // namespace ptx_link_test
