#include "testbed/verify/ptx/form.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace meshbed::testbed::ptx_twin {

std::size_t bytes_of(Kind kind) {
  switch (kind) {
    case Kind::kInteger16:
    case Kind::kFloat16:
    case Kind::kBrain16:
    case Kind::kEightBitPair:
      return 2;
    case Kind::kInteger64:
    case Kind::kFewWide:
    case Kind::kFloat64:
      return 8;
    default:
      return 4;
  }
}

Form plain_form(std::string family, std::string name, Kind result, std::vector<Kind> sources, int least_target) {
  Form form;
  form.family = std::move(family);
  form.body = name + " %d";
  constexpr std::array<const char*, 4> kSources{", %a", ", %b", ", %c", ", %e"};
  for (std::size_t index = 0; index < sources.size(); ++index) form.body += kSources[index];
  form.body += ";";
  form.name = std::move(name);
  form.result = result;
  form.sources = std::move(sources);
  form.least_target = least_target;
  return form;
}

std::vector<Form> all_forms() {
  std::vector<Form> forms;
  add_integer_forms(forms);
  add_bit_forms(forms);
  add_float_forms(forms);
  add_half_forms(forms);
  add_approximate_forms(forms);
  add_comparison_forms(forms);
  add_conversion_forms(forms);
  add_atomic_forms(forms);
  add_vector_atomic_forms(forms);
  add_warp_forms(forms);
  return forms;
}

std::string module_text(const std::vector<const Form*>& forms, int target) {
  constexpr std::array<const char*, 4> kNames{"a", "b", "c", "e"};
  std::string text = fmt::format(".version 8.1\n.target sm_{}\n.address_size 64\n", target);
  for (std::size_t index = 0; index < forms.size(); ++index) {
    const Form& form = *forms[index];
    text += fmt::format(
        "// {}\n.visible .entry f{}(.param .u64 to, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 e)\n{{\n"
        ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %i, %w<8>;\n.reg .b64 %to, %from, %x<4>;\n.reg .b{} %d;\n",
        form.name, index, bytes_of(form.result) * 8);
    if (form.body.find("shared") != std::string::npos) {
      text += fmt::format(".shared .align 8 .b8 words{}[{}];\n", index, kBlockThreads * 8);
    }
    text +=
        "mov.u32 %w0, %ctaid.x;\nmov.u32 %w1, %ntid.x;\nmov.u32 %w2, %tid.x;\nmad.lo.u32 %i, %w0, %w1, %w2;\n"
        "ld.param.u64 %to, [to];\n";
    text += fmt::format("mad.wide.u32 %to, %i, {}, %to;\n", bytes_of(form.result));
    for (std::size_t source = 0; source < form.sources.size(); ++source) {
      const std::size_t bytes = bytes_of(form.sources[source]);
      text += fmt::format(
          ".reg .b{0} %{1};\nld.param.u64 %from, [{1}];\nmad.wide.u32 %from, %i, {2}, %from;\n"
          "ld.global.b{0} %{1}, [%from];\n",
          bytes * 8, kNames[source], bytes);
    }
    std::string body = form.body;
    for (std::size_t at; (at = body.find("WORDS")) != std::string::npos;) {
      body.replace(at, 5, fmt::format("words{}", index));
    }
    text += fmt::format("{}\nst.global.b{} [%to], %d;\nret;\n}}\n", body, bytes_of(form.result) * 8);
  }
  return text;
}

}  // namespace meshbed::testbed::ptx_twin
