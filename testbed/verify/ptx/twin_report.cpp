#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "testbed/verify/ptx/twin.h"

namespace meshbed::testbed::ptx_twin {
namespace {

std::string hexadecimal(const std::vector<std::uint64_t>& operands) {
  std::string text;
  for (const std::uint64_t operand : operands) text += fmt::format("{}{:#x}", text.empty() ? "" : " ", operand);
  return text;
}

std::string on_what(const Difference& one) {
  return fmt::format("#{} of {}: GPU {:#x}, interpreter {:#x}", one.index, hexadecimal(one.operands), one.gpu,
                     one.interpreter);
}

std::string share_text(double share) { return std::isinf(share) ? "inf" : fmt::format("{:.4g}", share); }

/// Inside quotation marks.
std::string quoted(std::string text) {
  for (char& each : text) {
    if (each == '"') each = '\'';
    if (each == '\n') each = ' ';
  }
  return '"' + text + '"';
}

std::string nearness_text(const Judgement& judgement) {
  std::string text = fmt::format("of the bound at most {} by the GPU and {} by the interpreter, {} steps apart",
                                 share_text(judgement.gpu_nearness.worst),
                                 share_text(judgement.interpreter_nearness.worst), judgement.most_apart);
  for (const auto& [who, nearness] :
       {std::pair{"GPU", &judgement.gpu_nearness}, std::pair{"interpreter", &judgement.interpreter_nearness}}) {
    if (nearness->beyond == 0) continue;
    text += fmt::format("; the {} is beyond it on {}, first {}", who, nearness->beyond, on_what(*nearness->first));
  }
  return text;
}

}  // namespace

std::string difference_line(const Judgement& judgement) {
  std::string line;
  if (!judgement.gpu_refusal.empty()) line += "refused by the driver: " + judgement.gpu_refusal;
  if (!judgement.interpreter_refusal.empty()) {
    line += std::string(line.empty() ? "" : "; ") + "refused by the interpreter: " + judgement.interpreter_refusal;
  }
  if (judgement.is_approximate && judgement.same != judgement.count) line = nearness_text(judgement);
  if (!judgement.is_approximate && judgement.others > 0) {
    line = fmt::format("{} of {} differ, first {}", judgement.others, judgement.count, on_what(*judgement.first));
  }
  if (judgement.payloads > 0) {
    line += fmt::format("{}{} NaNs with other bits, first {}", line.empty() ? "" : "; ", judgement.payloads,
                        on_what(*judgement.first_payload));
  }
  return line.empty() ? "" : fmt::format("{:<26} {}", judgement.name, line);
}

std::string example_lines(const Judgement& judgement) {
  std::string lines;
  for (const Difference& one : judgement.examples) lines += fmt::format("    {}\n", on_what(one));
  return lines;
}

std::string summary_line(const std::vector<Judgement>& judgements) {
  std::size_t same = 0, near = 0, payload = 0, differ = 0, refused = 0, count = 0;
  for (const Judgement& one : judgements) {
    count = std::max(count, one.count);
    if (one.is_refused()) {
      ++refused;
    } else if (one.others > 0) {
      ++differ;
    } else if (one.same == one.count) {
      ++same;
    } else if (one.payloads + one.same == one.count) {
      ++payload;
    } else {
      ++near;
    }
  }
  return fmt::format(
      "{} forms, {} operands each: {} the same bit for bit, {} approximate within the ISA's bounds, {} the same but "
      "for "
      "the payloads of NaNs, {} that differ, {} refused",
      judgements.size(), count, same, near, payload, differ, refused);
}

std::string csv_text(const std::vector<Judgement>& judgements, const Gpu& gpu, const Operands& operands,
                     const std::string& date) {
  std::string text = fmt::format(
      "# meshbed conformance ptx: the PTX interpreter beside {}{}, {}, {}\n# seed {}, {} operands a form, target "
      "sm_{}\n# {}\n",
      gpu.is_simulated ? "Meshbed's simulation, no GPU: " : "", gpu.name, gpu.driver_version, date, operands.seed(),
      operands.count(), gpu.target, summary_line(judgements));
  text +=
      "form,family,operands,same,nan_payloads,differ,first_index,first_operands,gpu,interpreter,steps_apart,"
      "gpu_of_bound,interpreter_of_bound,gpu_beyond,interpreter_beyond,driver_refuses,interpreter_refuses\n";
  for (const Judgement& one : judgements) {
    const auto& first = one.first ? one.first : one.first_payload;
    text +=
        fmt::format("{},{},{},{},{},{},", quoted(one.name), one.family, one.count, one.same, one.payloads, one.others);
    text += first ? fmt::format("{},{},{:#x},{:#x},", first->index, hexadecimal(first->operands), first->gpu,
                                first->interpreter)
                  : ",,,,";
    text += one.is_approximate ? fmt::format("{},{},{},{},{},", one.most_apart, share_text(one.gpu_nearness.worst),
                                             share_text(one.interpreter_nearness.worst), one.gpu_nearness.beyond,
                                             one.interpreter_nearness.beyond)
                               : ",,,,,";
    text += fmt::format("{},{}\n", one.gpu_refusal.empty() ? "" : quoted(one.gpu_refusal),
                        one.interpreter_refusal.empty() ? "" : quoted(one.interpreter_refusal));
  }
  return text;
}

}  // namespace meshbed::testbed::ptx_twin
