// Forms of comparison and selection. PTX ISA 9.7.6.
#include <fmt/format.h>

#include <utility>

#include "testbed/verify/ptx/form.h"

namespace meshbed::testbed::ptx_twin {
namespace {

struct Compared {
  const char* type;
  const char* flush;
  Kind kind;
};

}  // namespace

void add_comparison_forms(std::vector<Form>& forms) {
  constexpr Kind kWord = Kind::kInteger32;
  const auto add = [&](std::string name, Kind result, std::vector<Kind> sources, std::string body = "",
                       int least_target = 80) {
    forms.push_back(plain_form("compare", std::move(name), result, std::move(sources), least_target));
    if (!body.empty()) forms.back().body = std::move(body);
  };
  for (const Compared& one :
       {Compared{"u16", "", Kind::kInteger16}, Compared{"s16", "", Kind::kInteger16}, Compared{"u32", "", kWord},
        Compared{"s32", "", kWord}, Compared{"u64", "", Kind::kInteger64}, Compared{"s64", "", Kind::kInteger64}}) {
    for (const char* relation : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      add(fmt::format("set.{}.u32.{}", relation, one.type), kWord, {one.kind, one.kind});
    }
    if (one.type[0] != 'u') continue;
    for (const char* relation : {"lo", "ls", "hi", "hs"}) {
      const std::string name = fmt::format("setp.{}.{}", relation, one.type);
      add(name, kWord, {one.kind, one.kind}, name + " %p0, %a, %b;\nselp.u32 %d, 1, 0, %p0;");
    }
  }
  for (const Compared& one : {Compared{"f32", "", Kind::kFloat32}, Compared{"f32", ".ftz", Kind::kFloat32},
                              Compared{"f64", "", Kind::kFloat64}, Compared{"f16", "", Kind::kFloat16},
                              Compared{"f16", ".ftz", Kind::kFloat16}, Compared{"bf16", "", Kind::kBrain16}}) {
    const bool half = bytes_of(one.kind) == 2;
    for (const char* relation :
         {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
      const std::string name =
          fmt::format("{}.{}{}.{}{}", half ? "setp" : "set", relation, one.flush, half ? "" : "u32.", one.type);
      add(name, kWord, {one.kind, one.kind}, half ? name + " %p0, %a, %b;\nselp.u32 %d, 1, 0, %p0;" : "",
          one.kind == Kind::kBrain16 ? 90 : 80);
    }
  }
  for (const char* relation : {"lt", "geu"}) {
    add(fmt::format("set.{}.f32.f32", relation), Kind::kFloat32, {Kind::kFloat32, Kind::kFloat32});
    add(fmt::format("set.{}.s32.f64", relation), kWord, {Kind::kFloat64, Kind::kFloat64});
  }
  add("set.le.f32.s32", Kind::kFloat32, {kWord, kWord});
  for (const char* combine : {"and", "or", "xor"}) {
    for (const char* negated : {"", "!"}) {
      const std::string name = fmt::format("setp.ltu.{}.f32 p|q, a, b, {}c", combine, negated);
      add(name, kWord, {Kind::kFloat32, Kind::kFloat32, Kind::kWarpTruth},
          fmt::format("setp.ne.u32 %p2, %c, 0;\nsetp.ltu.{}.f32 %p0|%p1, %a, %b, {}%p2;\nselp.u32 %w0, 1, 0, %p0;\n"
                      "selp.u32 %w1, 2, 0, %p1;\nor.b32 %d, %w0, %w1;",
                      combine, negated));
    }
    add(fmt::format("set.gt.{}.u32.s32", combine), kWord, {kWord, kWord, Kind::kWarpTruth},
        fmt::format("setp.ne.u32 %p2, %c, 0;\nset.gt.{}.u32.s32 %d, %a, %b, %p2;", combine));
    add(fmt::format("{}.pred", combine), kWord, {Kind::kWarpTruth, Kind::kWarpTruth},
        fmt::format("setp.ne.u32 %p1, %a, 0;\nsetp.ne.u32 %p2, %b, 0;\n{}.pred %p0, %p1, %p2;\nselp.u32 %d, 1, 0, %p0;",
                    combine));
  }
  add("not.pred", kWord, {Kind::kWarpTruth}, "setp.ne.u32 %p1, %a, 0;\nnot.pred %p0, %p1;\nselp.u32 %d, 1, 0, %p0;");
  for (const auto& [type, kind] : {std::pair{"b16", Kind::kInteger16},
                                   {"b32", kWord},
                                   {"b64", Kind::kInteger64},
                                   {"f32", Kind::kFloat32},
                                   {"f64", Kind::kFloat64}}) {
    const std::string name = fmt::format("selp.{}", type);
    add(name, kind, {kind, kind, Kind::kWarpTruth}, "setp.ne.u32 %p0, %c, 0;\n" + name + " %d, %a, %b, %p0;");
    add(fmt::format("slct.{}.s32", type), kind, {kind, kind, kWord});
    add(fmt::format("slct.{}.f32", type), kind, {kind, kind, Kind::kFloat32});
    add(fmt::format("slct.ftz.{}.f32", type), kind, {kind, kind, Kind::kFloat32});
  }
}

}  // namespace meshbed::testbed::ptx_twin
