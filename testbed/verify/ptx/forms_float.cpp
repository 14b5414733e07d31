// Forms of float, double, float16 and bfloat16. PTX ISA 9.7.3 and 9.7.4.
#include <fmt/format.h>

#include <utility>

#include "testbed/verify/ptx/form.h"

namespace meshbed::testbed::ptx_twin {

void add_float_forms(std::vector<Form>& forms) {
  const auto add = [&](std::string name, Kind kind, std::size_t sources, int least_target = 80) {
    forms.push_back(plain_form("float", std::move(name), kind, std::vector<Kind>(sources, kind), least_target));
  };
  for (const std::string rounding : {".rn", ".rz", ".rm", ".rp"}) {
    for (const char* name : {"add", "sub", "mul", "fma"}) {
      const std::size_t sources = std::string_view(name) == "fma" ? 3 : 2;
      for (const char* flush : {"", ".ftz"}) {
        for (const char* saturate : {"", ".sat"}) {
          add(fmt::format("{}{}{}{}.f32", name, rounding, flush, saturate), Kind::kFloat32, sources);
        }
      }
      add(fmt::format("{}{}.f64", name, rounding), Kind::kFloat64, sources);
    }
    for (const char* name : {"div", "rcp", "sqrt"}) {
      const std::size_t sources = std::string_view(name) == "div" ? 2 : 1;
      for (const char* flush : {"", ".ftz"}) {
        add(fmt::format("{}{}{}.f32", name, rounding, flush), Kind::kFloat32, sources);
      }
      add(fmt::format("{}{}.f64", name, rounding), Kind::kFloat64, sources);
    }
    add("mad" + rounding + ".f32", Kind::kFloat32, 3);
    add("mad" + rounding + ".f64", Kind::kFloat64, 3);
  }
  for (const char* name : {"min", "max"}) {
    for (const char* flush : {"", ".ftz"}) {
      for (const char* nan : {"", ".NaN"}) {
        add(fmt::format("{}{}{}.f32", name, flush, nan), Kind::kFloat32, 2);
        add(fmt::format("{}{}{}.xorsign.abs.f32", name, flush, nan), Kind::kFloat32, 2, 86);
      }
    }
    add(fmt::format("{}.f64", name), Kind::kFloat64, 2);
  }
  for (const char* name : {"neg", "abs"}) {
    for (const char* flush : {"", ".ftz"}) add(fmt::format("{}{}.f32", name, flush), Kind::kFloat32, 1);
    add(fmt::format("{}.f64", name), Kind::kFloat64, 1);
  }
  add("copysign.f32", Kind::kFloat32, 2);
  add("copysign.f64", Kind::kFloat64, 2);
  for (const char* property : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    for (const auto& [type, kind] : {std::pair{"f32", Kind::kFloat32}, {"f64", Kind::kFloat64}}) {
      Form form = plain_form("float", fmt::format("testp.{}.{}", property, type), Kind::kInteger32, {kind});
      form.body = form.name + " %p0, %a;\nselp.u32 %d, 1, 0, %p0;";
      forms.push_back(std::move(form));
    }
  }
}

void add_half_forms(std::vector<Form>& forms) {
  const auto add = [&](std::string name, Kind kind, std::size_t sources, int least_target = 80) {
    forms.push_back(plain_form("half", std::move(name), kind, std::vector<Kind>(sources, kind), least_target));
  };
  constexpr int kNewer = 86, kNewest = 90;
  for (const auto& [type, kind] : {std::pair{"f16", Kind::kFloat16}, {"f16x2", Kind::kFloat16Pair}}) {
    for (const char* flush : {"", ".ftz"}) {
      for (const char* name : {"add", "sub", "mul", "add.rn", "sub.rn", "mul.rn"}) {
        for (const char* saturate : {"", ".sat"}) add(fmt::format("{}{}{}.{}", name, flush, saturate, type), kind, 2);
      }
      for (const char* end : {"", ".sat", ".relu"}) add(fmt::format("fma.rn{}{}.{}", flush, end, type), kind, 3);
      for (const char* name : {"min", "max"}) {
        for (const char* nan : {"", ".NaN"}) {
          add(fmt::format("{}{}{}.{}", name, flush, nan, type), kind, 2);
          add(fmt::format("{}{}{}.xorsign.abs.{}", name, flush, nan, type), kind, 2, kNewer);
        }
      }
      for (const char* name : {"neg", "abs"}) add(fmt::format("{}{}.{}", name, flush, type), kind, 1);
    }
  }
  for (const auto& [type, kind] : {std::pair{"bf16", Kind::kBrain16}, {"bf16x2", Kind::kBrain16Pair}}) {
    for (const char* name : {"add", "sub", "mul", "add.rn", "sub.rn", "mul.rn"}) {
      add(fmt::format("{}.{}", name, type), kind, 2, kNewest);
    }
    for (const char* end : {"", ".relu"}) add(fmt::format("fma.rn{}.{}", end, type), kind, 3);
    for (const char* name : {"min", "max"}) {
      for (const char* nan : {"", ".NaN"}) {
        add(fmt::format("{}{}.{}", name, nan, type), kind, 2);
        add(fmt::format("{}{}.xorsign.abs.{}", name, nan, type), kind, 2, kNewer);
      }
    }
    for (const char* name : {"neg", "abs"}) add(fmt::format("{}.{}", name, type), kind, 1);
  }
}

void add_approximate_forms(std::vector<Form>& forms) {
  const auto add = [&](std::string name, Kind kind, std::size_t sources, Approximates what, int least_target = 80) {
    forms.push_back(plain_form("approximate", std::move(name), kind, std::vector<Kind>(sources, kind), least_target));
    forms.back().approximates = what;
  };
  for (const char* flush : {"", ".ftz"}) {
    for (const auto& [name, what] : {std::pair{"rcp", Approximates::kReciprocal},
                                     {"sqrt", Approximates::kRoot},
                                     {"rsqrt", Approximates::kReciprocalRoot},
                                     {"sin", Approximates::kSine},
                                     {"cos", Approximates::kCosine},
                                     {"lg2", Approximates::kLogarithm},
                                     {"ex2", Approximates::kPower}}) {
      add(fmt::format("{}.approx{}.f32", name, flush), Kind::kFloat32, 1, what);
    }
    add(fmt::format("div.approx{}.f32", flush), Kind::kFloat32, 2, Approximates::kQuotient);
    add(fmt::format("div.full{}.f32", flush), Kind::kFloat32, 2, Approximates::kFullQuotient);
  }
  add("tanh.approx.f32", Kind::kFloat32, 1, Approximates::kTangent);
  add("rcp.approx.ftz.f64", Kind::kFloat64, 1, Approximates::kReciprocalCut);
  add("rsqrt.approx.f64", Kind::kFloat64, 1, Approximates::kReciprocalRoot);
  add("rsqrt.approx.ftz.f64", Kind::kFloat64, 1, Approximates::kReciprocalRootCut);
  for (const auto& [type, kind] : {std::pair{"f16", Kind::kFloat16}, {"f16x2", Kind::kFloat16Pair}}) {
    add(fmt::format("ex2.approx.{}", type), kind, 1, Approximates::kPower);
    add(fmt::format("tanh.approx.{}", type), kind, 1, Approximates::kTangent);
  }
  for (const auto& [type, kind] : {std::pair{"bf16", Kind::kBrain16}, {"bf16x2", Kind::kBrain16Pair}}) {
    add(fmt::format("ex2.approx.ftz.{}", type), kind, 1, Approximates::kPower, 90);
    add(fmt::format("tanh.approx.{}", type), kind, 1, Approximates::kTangent, 90);
  }
}

}  // namespace meshbed::testbed::ptx_twin
