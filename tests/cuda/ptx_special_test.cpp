// Corners of single instructions that the ISA spells out: one operand, one result.
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda/ptx_bench.h"

namespace ptx_special_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

using U64 = std::uint64_t;

struct Corner {
  std::string body;  // makes %d of %a and %b: 64 bits each, with %a0, %b0 and %d0 of 32 bits, %a1, %b1 and %d1 of 16
  U64 a, b, expected;
};

U64 result_of(const Corner& corner) {
  const std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to, .param .u64 a, .param .u64 b)\n"
      "{\n.reg .pred %p;\n.reg .b16 %a1, %b1, %d1;\n.reg .b32 %a0, %b0, %d0;\n.reg .b64 %to, %a, %b, %d, %t;\n"
      ".shared .align 8 .b8 word[8];\n"
      "ld.param.u64 %to, [to];\nld.param.u64 %a, [a];\nld.param.u64 %b, [b];\nmov.b64 %d, 0;\n"
      "cvt.u32.u64 %a0, %a;\ncvt.u32.u64 %b0, %b;\ncvt.u16.u64 %a1, %a;\ncvt.u16.u64 %b1, %b;\n" +
      corner.body + "\nst.global.b64 [%to], %d;\nret;\n}\n";
  Device device(module_of(text));
  const std::uint64_t to = device.memory.allocate(8);
  CHECK(device.run("k", {.block = 1}, to, corner.a, corner.b) == "");
  return device.memory.get<U64>(to, 1)[0];
}

void check(const std::vector<Corner>& corners) {
  for (const Corner& corner : corners) {
    const U64 got = result_of(corner);
    CHECK_MESSAGE(got == corner.expected, corner.body, " of ", corner.a, ", ", corner.b, ": ", got, ", not ",
                  corner.expected);
  }
}

std::string wide(const std::string& body) { return body + "\ncvt.u64.u32 %d, %d0;"; }
std::string truth(const std::string& body) { return body + "\nselp.b64 %d, 1, 0, %p;"; }

constexpr U64 kMinusSubnormal = 0x80000001, kNan = 0x7fffffff, kInfinity = 0x7f800000, kOne = 0x3f800000;

}  // namespace

TEST_CASE("min and max .xorsign.abs: of the magnitudes, with the product's sign; a NaN as it is") {
  const std::string least = wide("min.xorsign.abs.f32 %d0, %a0, %b0;");
  const std::string most_nan = wide("max.NaN.xorsign.abs.f32 %d0, %a0, %b0;");
  constexpr U64 kTwo = 0x40000000, kSign = 0x80000000;
  check({{least, kTwo | kSign, kOne, kOne | kSign},
         {least, kTwo | kSign, kOne | kSign, kOne},
         {least, 0xffffffff, kTwo, kTwo | kSign},  // the NaN's sign counts, too
         {most_nan, 0xffffffff, kTwo, kNan},
         {most_nan, kOne, kTwo | kSign, kTwo | kSign}});
  // Both halves, each with its own sign.
  check({{wide("max.xorsign.abs.f16x2 %d0, %a0, %b0;"), 0x3c00c000, 0xbc003c00, 0xbc00c000},
         {wide("min.NaN.xorsign.abs.bf16x2 %d0, %a0, %b0;"), 0xff80bf80, 0x7fff3f80, 0x7fffbf80}});
}

// What is said of NaNs is an H200's: ptx/h200.txt.
TEST_CASE("cvt.rna.tf32: ties go away from zero, and a NaN is cut; .rn: to even, and a NaN is the canonical one, cut") {
  const std::string away = wide("cvt.rna.tf32.f32 %d0, %a0;"), even = wide("cvt.rn.tf32.f32 %d0, %a0;");
  check({{away, 0x3f801000, 0, 0x3f802000},
         {even, 0x3f801000, 0, 0x3f800000},
         {away, 0xbf801000, 0, 0xbf802000},
         {away, 0x3f800fff, 0, 0x3f800000},
         {away, 0x7f7fffff, 0, kInfinity},
         {away, 0xff800001, 0, 0xff800000},
         {away, 0xff802001, 0, 0xff802000},
         {even, 0x7f800001, 0, 0x7fffe000}});
}

TEST_CASE("numbers of 8 bits: the nearest, the largest instead of infinity, and back") {
  const auto narrow = [](const char* type) {
    return std::string("cvt.rn.satfinite.") + type + ".f32 %d1, %a0, %b0;\ncvt.u64.u16 %d, %d1;";
  };
  const std::string back = wide("cvt.rn.f16x2.e4m3x2 %d0, %a1;");
  check({{narrow("e4m3x2"), kOne, kInfinity, 0x387e},
         {narrow("e4m3x2"), 0x43e80000, 0xffc00000, 0x7e7f},  // 464, between 448 and what would be the next one
         {narrow("e5m2x2"), kOne, 0xff800000, 0x3cfb},
         {narrow("e5m2x2"), 0x33800000, 0x37800000, 0x0001},  // 2^-24: nothing; 2^-16: the smallest there is
         {back, 0x387f, 0, 0x3c007fff},
         {back, 0x0181, 0, 0x18009800}});
}

TEST_CASE("slct.ftz and setp.ftz take subnormals for zeros") {
  check({{"slct.ftz.b64.f32 %d, %a, 7, %b0;", 5, kMinusSubnormal, 5},
         {"slct.b64.f32 %d, %a, 7, %b0;", 5, kMinusSubnormal, 7},
         {"slct.b64.f32 %d, %a, 7, %b0;", 5, kNan, 7},
         {truth("setp.eq.ftz.f16 %p, %a1, %b1;"), 0x0001, 0x83ff, 1},
         {truth("setp.eq.f16 %p, %a1, %b1;"), 0x0001, 0x83ff, 0}});
}

TEST_CASE("div.approx beyond 2^126 is a product with a flushed reciprocal") {
  const std::string quotient = wide("div.approx.f32 %d0, %a0, %b0;");
  constexpr U64 kBeyond = 0x7f000000;  // 2^127
  check({{quotient, kBeyond, kBeyond, 0},
         {quotient, kBeyond | 0x80000000, kBeyond, 0x80000000},
         {quotient, kInfinity, kBeyond, kNan},
         {quotient, kOne, kInfinity, 0},
         {wide("div.full.f32 %d0, %a0, %b0;"), kBeyond, kBeyond, kOne}});
}

TEST_CASE("rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 know the upper half of a double alone") {
  check({{"rcp.approx.ftz.f64 %d, %a;", 0x4008000000000001, 0, 0x3fd5555500000000},
         {"rcp.approx.ftz.f64 %d, %a;", 1, 0, 0x7ff0000000000000},
         {"rcp.approx.ftz.f64 %d, %a;", 0x7ff8000000000001, 0, 0x7fffffff00000000},
         {"rcp.approx.ftz.f64 %d, %a;", 0x7ff0000000000001, 0, 0},  // its upper half is an infinity's
         {"rsqrt.approx.ftz.f64 %d, %a;", 0x8000000000000001, 0, 0xfff0000000000000},
         {"rsqrt.approx.ftz.f64 %d, %a;", 0x4010000000000000, 0, 0x3fe0000000000000}});
}

TEST_CASE("atomic sums of float flush subnormals in global memory, and not in shared memory") {
  const auto sum = [](const std::string& opcode, const std::string& place) {
    const bool shared = opcode.find("shared") != std::string::npos || place == "%t";
    return std::string(shared ? "mov.u64 %t, word;\n" : "") + (place == "%t" ? "cvta.shared.u64 %t, %t;\n" : "") +
           (shared ? "st.shared.b32 [word], %a0;\n" : "st.global.b32 [%to], %a0;\n") + opcode + " [" + place +
           "], %b0;\n" + wide(shared ? "ld.shared.b32 %d0, [word];" : "ld.global.b32 %d0, [%to];");
  };
  constexpr U64 kSubnormal = 0x00000003, kSmallest = 0x00800000;
  check({{sum("red.global.add.f32", "%to"), kSubnormal, kSubnormal, 0},
         {sum("red.add.f32", "%to"), kMinusSubnormal, kMinusSubnormal, 0x80000000},
         {sum("red.global.add.f32", "%to"), kSmallest | 1, kSmallest | 0x80000000, 0},
         {sum("red.shared.add.f32", "word"), kSubnormal, kSubnormal, 6},
         {sum("red.add.f32", "%t"), kSubnormal, kSubnormal, 6}});
}

}  // namespace ptx_special_test
