// Forms of cvt. PTX ISA 9.7.9.21 and 9.7.9.22.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "testbed/verify/ptx/form.h"

namespace meshbed::testbed::ptx_twin {
namespace {

struct Converted {
  const char* type;
  Kind kind;
};
// Numbers of 8 bits stand in registers of 32: so the extension is seen, too.
constexpr Converted kIntegers[] = {{"u8", Kind::kInteger32},  {"s8", Kind::kInteger32},  {"u16", Kind::kInteger16},
                                   {"s16", Kind::kInteger16}, {"u32", Kind::kInteger32}, {"s32", Kind::kInteger32},
                                   {"u64", Kind::kInteger64}, {"s64", Kind::kInteger64}};
constexpr Converted kFloats[] = {
    {"f16", Kind::kFloat16}, {"bf16", Kind::kBrain16}, {"f32", Kind::kFloat32}, {"f64", Kind::kFloat64}};
int bits_of(const Converted& integer) { return std::stoi(integer.type + 1); }
/// Then there is nothing to saturate, and no .sat.
bool holds_all(const Converted& to, const Converted& from) {
  if (to.type[0] == from.type[0]) return bits_of(to) >= bits_of(from);
  return to.type[0] == 's' && bits_of(to) > bits_of(from);
}

constexpr const char* kRoundings[] = {".rn", ".rz", ".rm", ".rp"};

}  // namespace

void add_conversion_forms(std::vector<Form>& forms) {
  const auto add = [&](std::string name, Kind result, std::vector<Kind> sources, int least_target = 80) {
    forms.push_back(plain_form("convert", std::move(name), result, std::move(sources), least_target));
  };
  const auto least = [](const Converted& a, const Converted& b) {
    return a.kind == Kind::kBrain16 || b.kind == Kind::kBrain16 ? 90 : 80;
  };
  for (const Converted& from : kIntegers) {
    for (const Converted& to : kIntegers) {
      add(fmt::format("cvt.{}.{}", to.type, from.type), to.kind, {from.kind});
      if (!holds_all(to, from)) add(fmt::format("cvt.sat.{}.{}", to.type, from.type), to.kind, {from.kind});
    }
    for (const Converted& to : kFloats) {
      if (to.kind == Kind::kBrain16 && bits_of(from) == 8) continue;  // the ISA has none
      for (const char* rounding : kRoundings) {
        add(fmt::format("cvt{}.{}.{}", rounding, to.type, from.type), to.kind, {from.kind}, least(from, to));
      }
    }
  }
  for (const Converted& from : kFloats) {
    for (const Converted& to : kIntegers) {
      if (from.kind == Kind::kBrain16 && bits_of(to) == 8) continue;
      for (const char* rounding : kRoundings) {
        add(fmt::format("cvt{}i.{}.{}", rounding, to.type, from.type), to.kind, {from.kind}, least(from, to));
        if (from.kind != Kind::kFloat32) continue;
        add(fmt::format("cvt{}i.ftz.{}.f32", rounding, to.type), to.kind, {from.kind});
      }
      if (to.kind == Kind::kInteger32 && from.kind != Kind::kBrain16) {
        add(fmt::format("cvt.rzi.sat.{}.{}", to.type, from.type), to.kind, {from.kind}, least(from, to));
      }
    }
    if (from.kind == Kind::kBrain16) continue;
    for (const char* rounding : kRoundings) {  // to a whole number of the same type
      add(fmt::format("cvt{0}i.{1}.{1}", rounding, from.type), from.kind, {from.kind});
      add(fmt::format("cvt{0}i.sat.{1}.{1}", rounding, from.type), from.kind, {from.kind});
      if (from.kind == Kind::kFloat32) add(fmt::format("cvt{}i.ftz.f32.f32", rounding), from.kind, {from.kind});
    }
    add(fmt::format("cvt.sat.{0}.{0}", from.type), from.kind, {from.kind});
  }
  add("cvt.ftz.f32.f32", Kind::kFloat32, {Kind::kFloat32});
  for (const char* flush : {"", ".ftz"}) {
    add(fmt::format("cvt{}.f32.f16", flush), Kind::kFloat32, {Kind::kFloat16});
    add(fmt::format("cvt{}.sat.f32.f16", flush), Kind::kFloat32, {Kind::kFloat16});
    add(fmt::format("cvt{}.f64.f32", flush), Kind::kFloat64, {Kind::kFloat32});
    for (const char* rounding : kRoundings) {
      for (const char* saturate : {"", ".sat"}) {
        add(fmt::format("cvt{}{}{}.f32.f64", rounding, flush, saturate), Kind::kFloat32, {Kind::kFloat64});
        add(fmt::format("cvt{}{}{}.f16.f32", rounding, flush, saturate), Kind::kFloat16, {Kind::kFloat32});
      }
    }
  }
  add("cvt.f64.f16", Kind::kFloat64, {Kind::kFloat16});
  add("cvt.f32.bf16", Kind::kFloat32, {Kind::kBrain16}, 90);
  add("cvt.f64.bf16", Kind::kFloat64, {Kind::kBrain16}, 90);
  for (const char* rounding : kRoundings) {
    add(fmt::format("cvt{}.f16.f64", rounding), Kind::kFloat16, {Kind::kFloat64});
    add(fmt::format("cvt{}.f16.bf16", rounding), Kind::kFloat16, {Kind::kBrain16}, 90);
    add(fmt::format("cvt{}.bf16.f16", rounding), Kind::kBrain16, {Kind::kFloat16}, 90);
    add(fmt::format("cvt{}.bf16.f64", rounding), Kind::kBrain16, {Kind::kFloat64}, 90);
    add(fmt::format("cvt{}.bf16.f32", rounding), Kind::kBrain16, {Kind::kFloat32},
        rounding[2] == 'n' || rounding[2] == 'z' ? 80 : 90);
  }
  for (const char* rounding : {".rn", ".rz"}) {
    for (const char* relu : {"", ".relu"}) {
      add(fmt::format("cvt{}{}.f16x2.f32", rounding, relu), Kind::kFloat16Pair, {Kind::kFloat32, Kind::kFloat32});
      add(fmt::format("cvt{}{}.bf16x2.f32", rounding, relu), Kind::kBrain16Pair, {Kind::kFloat32, Kind::kFloat32});
      add(fmt::format("cvt{}{}.tf32.f32", rounding, relu), Kind::kFloat32, {Kind::kFloat32}, 90);
    }
    add(fmt::format("cvt{}.relu.f16.f32", rounding), Kind::kFloat16, {Kind::kFloat32});
    add(fmt::format("cvt{}.relu.bf16.f32", rounding), Kind::kBrain16, {Kind::kFloat32});
  }
  add("cvt.rna.tf32.f32", Kind::kFloat32, {Kind::kFloat32});
  for (const char* type : {"e4m3x2", "e5m2x2"}) {
    for (const char* relu : {"", ".relu"}) {
      add(fmt::format("cvt.rn.satfinite{}.{}.f32", relu, type), Kind::kEightBitPair, {Kind::kFloat32, Kind::kFloat32},
          90);
      add(fmt::format("cvt.rn.satfinite{}.{}.f16x2", relu, type), Kind::kEightBitPair, {Kind::kFloat16Pair}, 90);
      add(fmt::format("cvt.rn{}.f16x2.{}", relu, type), Kind::kFloat16Pair, {Kind::kEightBitPair}, 90);
    }
  }
}

}  // namespace meshbed::testbed::ptx_twin
