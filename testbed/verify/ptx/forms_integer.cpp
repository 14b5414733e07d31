// Forms of integers and bits. PTX ISA 9.7.1, 9.7.2, 9.7.8 and 9.7.17.
#include <fmt/format.h>

#include <utility>

#include "testbed/verify/ptx/form.h"

namespace meshbed::testbed::ptx_twin {
namespace {

Kind integer_of(const std::string& type) {
  const std::string bits = type.substr(1);
  return bits == "16" ? Kind::kInteger16 : bits == "64" ? Kind::kInteger64 : Kind::kInteger32;
}

Kind doubled(Kind kind) { return kind == Kind::kInteger16 ? Kind::kInteger32 : Kind::kInteger64; }

/// Two words with a carry between them, as one result of 64 bits; or of 64-bit words the upper one.
void add_carry_forms(std::vector<Form>& forms) {
  const auto add = [&](const std::string& name, const std::string& type, const std::string& low,
                       const std::string& high, std::size_t sources) {
    const bool wide = type == "u64";
    Form form;
    form.family = "integer";
    form.name = name;
    form.result = Kind::kInteger64;
    form.sources.assign(sources, wide ? Kind::kInteger64 : Kind::kInteger32);
    form.body = wide ? low + " %x0, %a, %b" + (sources == 3 ? ", %c" : "") + ";\n" + high + " %x1" +
                           (sources == 3   ? ", %a, %b, 0"
                            : sources == 4 ? ", %c, %e"
                                           : ", 0, 0") +
                           ";\nxor.b64 %d, %x0, %x1;"
                     : low + " %w0, %a, %b" + (sources == 3 ? ", %c" : "") + ";\n" + high + " %w1" +
                           (sources == 3   ? ", %a, %b, 0"
                            : sources == 4 ? ", %c, %e"
                                           : ", 0, 0") +
                           ";\nmov.b64 %d, {%w0, %w1};";
    forms.push_back(std::move(form));
  };
  for (const std::string type : {"u32", "u64"}) {
    add("add.cc." + type + " addc." + type, type, "add.cc." + type, "addc." + type, 4);
    add("sub.cc." + type + " subc." + type, type, "sub.cc." + type, "subc." + type, 4);
    add("add.cc." + type + " addc.cc." + type, type, "add.cc." + type, "addc.cc." + type, 2);
    add("mad.lo.cc." + type + " madc.hi." + type, type, "mad.lo.cc." + type, "madc.hi." + type, 3);
    add("mad.hi.cc." + type + " madc.lo." + type, type, "mad.hi.cc." + type, "madc.lo." + type, 3);
  }
}

}  // namespace

void add_integer_forms(std::vector<Form>& forms) {
  const auto add = [&](std::string name, Kind result, std::vector<Kind> sources) {
    forms.push_back(plain_form("integer", std::move(name), result, std::move(sources)));
  };
  for (const std::string type : {"u16", "s16", "u32", "s32", "u64", "s64"}) {
    const Kind kind = integer_of(type);
    for (const char* name : {"add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"}) {
      add(fmt::format("{}.{}", name, type), kind, {kind, kind});
    }
    for (const char* name : {"mad.lo", "mad.hi", "sad"})
      add(fmt::format("{}.{}", name, type), kind, {kind, kind, kind});
    if (kind != Kind::kInteger64) {
      add("mul.wide." + type, doubled(kind), {kind, kind});
      add("mad.wide." + type, doubled(kind), {kind, kind, doubled(kind)});
    }
    if (type[0] == 's') {
      add("neg." + type, kind, {kind});
      add("abs." + type, kind, {kind});
    }
    if (kind == Kind::kInteger32) {
      for (const char* part : {"lo", "hi"}) {
        add(fmt::format("mul24.{}.{}", part, type), kind, {kind, kind});
        add(fmt::format("mad24.{}.{}", part, type), kind, {kind, kind, kind});
      }
    }
  }
  constexpr Kind kWord = Kind::kInteger32;
  add("add.sat.s32", kWord, {kWord, kWord});
  add("sub.sat.s32", kWord, {kWord, kWord});
  add("mad.hi.sat.s32", kWord, {kWord, kWord, kWord});
  add_carry_forms(forms);
}

void add_bit_forms(std::vector<Form>& forms) {
  const auto add = [&](std::string name, Kind result, std::vector<Kind> sources) {
    forms.push_back(plain_form("bits", std::move(name), result, std::move(sources)));
  };
  constexpr Kind kWord = Kind::kInteger32, kAmount = Kind::kAmount;
  for (const std::string bits : {"16", "32", "64"}) {
    const Kind kind = integer_of("b" + bits);
    for (const char* name : {"and", "or", "xor"}) add(fmt::format("{}.b{}", name, bits), kind, {kind, kind});
    for (const char* name : {"not", "cnot"}) add(fmt::format("{}.b{}", name, bits), kind, {kind});
    add("shl.b" + bits, kind, {kind, kAmount});
    for (const char* type : {"b", "u", "s"}) add(fmt::format("shr.{}{}", type, bits), kind, {kind, kAmount});
    if (kind == Kind::kInteger16) continue;
    add("popc.b" + bits, kWord, {kind});
    add("clz.b" + bits, kWord, {kind});
    add("brev.b" + bits, kind, {kind});
    add("bfi.b" + bits, kind, {kind, kind, kAmount, kAmount});
    for (const char* type : {"u", "s"}) {
      add(fmt::format("bfe.{}{}", type, bits), kind, {kind, kAmount, kAmount});
      add(fmt::format("bfind.{}{}", type, bits), kWord, {kind});
      add(fmt::format("bfind.shiftamt.{}{}", type, bits), kWord, {kind});
    }
  }
  for (const char* mode : {"clamp", "wrap"}) {
    for (const char* way : {"l", "r"}) add(fmt::format("shf.{}.{}.b32", way, mode), kWord, {kWord, kWord, kAmount});
    add(fmt::format("bmsk.{}.b32", mode), kWord, {kAmount, kAmount});
    for (const char* type : {"u32", "s32"}) add(fmt::format("szext.{}.{}", mode, type), kWord, {kWord, kAmount});
  }
  for (const unsigned table : {0x00U, 0x01U, 0x1bU, 0x80U, 0x96U, 0xcaU, 0xe8U, 0xfeU}) {
    Form form = plain_form("bits", "lop3.b32", kWord, {kWord, kWord, kWord});
    form.name = fmt::format("lop3.b32 {:#04x}", table);
    form.body = fmt::format("lop3.b32 %d, %a, %b, %c, {};", table);
    forms.push_back(std::move(form));
  }
  add("prmt.b32", kWord, {kWord, kWord, kWord});
  for (const char* mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    add(fmt::format("prmt.b32.{}", mode), kWord, {kWord, kWord, kWord});
  }
  for (const char* left : {"u32", "s32"}) {
    for (const char* right : {"u32", "s32"}) {
      add(fmt::format("dp4a.{}.{}", left, right), kWord, {kWord, kWord, kWord});
      for (const char* half : {"lo", "hi"}) {
        add(fmt::format("dp2a.{}.{}.{}", half, left, right), kWord, {kWord, kWord, kWord});
      }
    }
  }
  for (const char* types : {"u32.u32.u32", "s32.s32.s32"}) {
    add(fmt::format("vabsdiff4.{}", types), kWord, {kWord, kWord, kWord});
    add(fmt::format("vabsdiff4.{}.add", types), kWord, {kWord, kWord, kWord});
  }
  // The base is a bit's number; the offset counts set bits up or down.
  Form nth = plain_form("bits", "fns.b32", kWord, {kWord, kAmount, kAmount});
  nth.body = "and.b32 %w0, %b, 31;\nsub.s32 %w1, %c, 16;\nfns.b32 %d, %a, %w0, %w1;";
  forms.push_back(std::move(nth));
}

}  // namespace meshbed::testbed::ptx_twin
