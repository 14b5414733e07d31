// Forms of atomics, each on a separate word for each thread, and of the operations among the 32 lanes of a warp. PTX
// ISA 9.7.9.6 and 9.7.13.
#include <fmt/format.h>

#include <utility>

#include "testbed/verify/ptx/form.h"

namespace meshbed::testbed::ptx_twin {

void add_atomic_forms(std::vector<Form>& forms) {
  constexpr Kind kWord = Kind::kInteger32, kWide = Kind::kInteger64;
  struct Atomic {
    const char* name;
    Kind kind;
    bool reduces;  // red has it
    int least_target = 80;
  };
  constexpr Atomic kAll[] = {{"add.u32", kWord, true},
                             {"add.s32", kWord, false},
                             {"add.u64", kWide, true},
                             {"add.f32", Kind::kFloat32, true},
                             {"add.f64", Kind::kFloat64, true},
                             {"add.noftz.f16", Kind::kFloat16, true},
                             {"add.noftz.f16x2", Kind::kFloat16Pair, true},
                             {"add.noftz.bf16", Kind::kBrain16, true, 90},
                             {"add.noftz.bf16x2", Kind::kBrain16Pair, true, 90},
                             {"min.u32", kWord, true},
                             {"min.s32", kWord, true},
                             {"min.u64", kWide, true},
                             {"min.s64", kWide, true},
                             {"max.u32", kWord, true},
                             {"max.s32", kWord, true},
                             {"max.u64", kWide, true},
                             {"max.s64", kWide, true},
                             {"inc.u32", kWord, true},
                             {"dec.u32", kWord, true},
                             {"and.b32", kWord, true},
                             {"or.b32", kWord, true},
                             {"xor.b32", kWord, true},
                             {"and.b64", kWide, true},
                             {"or.b64", kWide, true},
                             {"xor.b64", kWide, true},
                             {"exch.b32", kWord, false},
                             {"exch.b64", kWide, false},
                             {"cas.b16", Kind::kInteger16, false},
                             {"cas.b32", kWord, false},
                             {"cas.b64", kWide, false}};
  for (const Atomic& one : kAll) {
    const bool swaps = std::string_view(one.name).substr(0, 3) == "cas";
    const std::string bits = fmt::format("b{}", bytes_of(one.kind) * 8);
    for (const char* space : {"global", "shared"}) {
      for (const char* opcode : {"atom", "red"}) {
        const bool reduces = opcode[0] == 'r';
        if (reduces && !one.reduces) continue;
        Form form = plain_form("atomic", fmt::format("{}.{}.{}", opcode, space, one.name), one.kind,
                               std::vector<Kind>(swaps ? 3 : 2, one.kind), one.least_target);
        const bool shared = space[0] == 's';
        const std::string place = shared ? "%w4" : "%to";
        form.body = shared ? "mov.u32 %w3, WORDS;\nmad.lo.u32 %w4, %w2, 8, %w3;\n" : "";
        form.body += fmt::format("st.{}.{} [{}], %a;\n{} ", space, bits, place, form.name);
        // The old value is read back as well: where it is another one than was stored, the result is spoilt.
        form.body += fmt::format("{}[{}], %b{};\n", reduces ? "" : "%d, ", place, swaps ? ", %c" : "");
        const std::string wide = bits == "b16" ? "cvt.u32.u16 %w5, %d;\ncvt.u32.u16 %w6, %a;\n" : "";
        if (!reduces) {
          form.body += wide + (wide.empty() ? fmt::format("setp.ne.{} %p0, %d, %a;\n", bits)
                                            : std::string("setp.ne.u32 %p0, %w5, %w6;\n"));
        }
        form.body += fmt::format("ld.{}.{} %d, [{}];", space, bits, place);
        if (!reduces) form.body += fmt::format("\n@%p0 not.{0} %d, %d;", bits);
        forms.push_back(std::move(form));
      }
    }
  }
}

void add_vector_atomic_forms(std::vector<Form>& forms) {
  for (const char* opcode : {"atom", "red"}) {
    Form form = plain_form("atomic", fmt::format("{}.global.add.v2.f32", opcode), Kind::kInteger64,
                           {Kind::kFloat32, Kind::kFloat32, Kind::kFloat32, Kind::kFloat32}, 90);
    form.body = fmt::format("st.global.v2.b32 [%to], {{%a, %c}};\n{} {}[%to], {{%b, %e}};\nld.global.b64 %d, [%to];",
                            form.name, opcode[0] == 'a' ? "{%w0, %w1}, " : "");
    forms.push_back(std::move(form));
  }
}

void add_warp_forms(std::vector<Form>& forms) {
  constexpr Kind kWord = Kind::kInteger32;
  const auto add = [&](std::string name, Kind result, std::vector<Kind> sources, std::string body) {
    forms.push_back(plain_form("warp", std::move(name), result, std::move(sources)));
    forms.back().body = std::move(body);
  };
  for (const char* way : {"idx", "up", "down", "bfly"}) {
    // Amount and limits of each lane's own.
    add(fmt::format("shfl.sync.{}.b32", way), Kind::kInteger64, {kWord, kWord, kWord},
        fmt::format("and.b32 %w0, %b, 31;\nand.b32 %w1, %c, 0x1f1f;\n"
                    "shfl.sync.{}.b32 %w3|%p0, %a, %w0, %w1, 0xffffffff;\nselp.u32 %w4, 1, 0, %p0;\n"
                    "mov.b64 %d, {{%w3, %w4}};",
                    way));
    // As programs call it: the whole warp, one distance.
    add(fmt::format("shfl.sync.{}.b32 of a warp", way), Kind::kInteger64, {kWord},
        fmt::format("shr.u32 %w0, %i, 5;\nand.b32 %w0, %w0, 31;\n"
                    "shfl.sync.{}.b32 %w3|%p0, %a, %w0, {}, 0xffffffff;\nselp.u32 %w4, 1, 0, %p0;\n"
                    "mov.b64 %d, {{%w3, %w4}};",
                    way, std::string_view(way) == "up" ? "0" : "0x1f"));
  }
  for (const char* question : {"all", "any", "uni"}) {
    for (const char* negated : {"", "!"}) {
      add(fmt::format("vote.sync.{}.pred {}a", question, negated), kWord, {Kind::kWarpTruth},
          fmt::format("setp.ne.u32 %p0, %a, 0;\nvote.sync.{}.pred %p1, {}%p0, 0xffffffff;\nselp.u32 %d, 1, 0, %p1;",
                      question, negated));
    }
  }
  add("vote.sync.ballot.b32", kWord, {Kind::kWarpTruth},
      "setp.ne.u32 %p0, %a, 0;\nvote.sync.ballot.b32 %d, %p0, 0xffffffff;");
  for (const auto& [type, kind] : {std::pair{"b32", Kind::kFew}, {"b64", Kind::kFewWide}}) {
    add(fmt::format("match.any.sync.{}", type), kWord, {kind},
        fmt::format("match.any.sync.{} %d, %a, 0xffffffff;", type));
    add(fmt::format("match.all.sync.{}", type), Kind::kInteger64, {kind},
        fmt::format("match.all.sync.{} %w3|%p0, %a, 0xffffffff;\nselp.u32 %w4, 1, 0, %p0;\nmov.b64 %d, {{%w3, %w4}};",
                    type));
  }
  for (const char* operation :
       {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"}) {
    const std::string name = fmt::format("redux.sync.{}", operation);
    add(name, kWord, {kWord}, name + " %d, %a, 0xffffffff;");
  }
  // Of the lanes with a set truth alone: the mask is what they voted.
  add("redux.sync.max.s32 of some lanes", kWord, {kWord, Kind::kWarpTruth},
      "setp.ne.u32 %p0, %b, 0;\nvote.sync.ballot.b32 %w0, %p0, 0xffffffff;\nmov.u32 %d, 0;\n"
      "@%p0 redux.sync.max.s32 %d, %a, %w0;");
  add("elect.sync", kWord, {}, "elect.sync %w3|%p0, 0xffffffff;\nselp.u32 %w4, 32, 0, %p0;\nadd.u32 %d, %w3, %w4;");
  forms.back().least_target = 90;
}

}  // namespace meshbed::testbed::ptx_twin
