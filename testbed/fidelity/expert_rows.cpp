#include "testbed/fidelity/expert_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>
#include <stdexcept>
#include <vector>

#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {
namespace {

using models::ExpertCall;
using models::ExpertMode;

bool holds(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

/// The number that the expression's first group has.
std::optional<int> number_by(const std::string& text, const std::regex& expression) {
  std::smatch match;
  if (!std::regex_search(text, match, expression)) return std::nullopt;
  constexpr std::size_t kDigits = 6;
  const std::string digits = match[1];
  if (digits.size() > kDigits) return std::nullopt;
  const int number = std::stoi(digits);
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<int> number_after(const std::string& text, const char* expression) {
  return number_by(text, std::regex(expression));
}

std::vector<std::string> words_between_underscores(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char letter : text) {
    if (letter == '_' || letter == '-' || letter == ' ') {
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words;
}

/// What the row's variant says of the mode, where it does.
std::optional<ExpertMode> mode_of_variant(const std::string& variant) {
  for (const std::string& word : words_between_underscores(variant)) {
    if (word == "ll" || word == "lowlatency" || word == "pplx") return ExpertMode::kLowLatency;
    if (word == "normal" || word == "ht" || word == "hybridep" || word == "intranode" || word == "intranodell" ||
        word == "internode") {
      return ExpertMode::kNormal;
    }
  }
  return std::nullopt;
}

std::optional<ExpertMode> mode_of_set_up(const std::string& set_up) {
  const bool low = holds(set_up, "low-latency") || holds(set_up, "low latency");
  const bool normal = holds(set_up, "normal") || holds(set_up, "high-throughput") || holds(set_up, "high throughput");
  if (low == normal) return std::nullopt;
  return low ? ExpertMode::kLowLatency : ExpertMode::kNormal;
}

/// Bytes of a token by format, in the order in which they are tried.
std::vector<double> sizes_of_token(double hidden, const std::string& variant) {
  constexpr double kScaled = 128, kScaleBytes = 4, kHeaderBytes = 16;
  const double scaled = hidden + hidden / kScaled * kScaleBytes;
  const std::vector<double> fp8{scaled + kHeaderBytes, scaled, hidden}, bf16{2 * hidden};
  const bool is_fp8 = holds(variant, "fp8"), is_bf16 = holds(variant, "bf16");
  if (is_bf16 && !is_fp8) return bf16;
  std::vector<double> sizes = fp8;
  if (is_fp8) return sizes;
  sizes.insert(sizes.begin() + 1, bf16.begin(), bf16.end());
  return sizes;
}

bool is_multiple(double bytes, double of) { return bytes >= of && std::abs(std::remainder(bytes, of)) < 0.5; }

}  // namespace

std::optional<bool> expert_operation(const std::string& name) {
  std::string plain = lower_case(name);
  for (const char* const start : {"ep_", "moe_", "expert_"}) {
    if (plain.rfind(start, 0) == 0) plain.erase(0, std::string(start).size());
  }
  if (plain == "dispatch") return false;
  if (plain == "combine") return true;
  return std::nullopt;
}

models::ExpertCall expert_call(const ExpertRow& row) {
  const std::string set_up = lower_case(row.set_up), variant = lower_case(row.variant);
  ExpertCall call{.combine = row.combine, .ranks = row.ranks, .nodes = row.nodes};
  const double hidden = number_after(set_up, "hidden[ _=-]*(?:size )?([0-9]+)").value_or(7168);
  call.top_k = number_after(set_up, "top[ _-]?k?[ _=-]*([0-9]+)").value_or(8);
  call.experts = number_after(set_up, "([0-9]+) (?:and [0-9]+ )?experts").value_or(256);
  if (const auto local = number_after(set_up, "([0-9]+) local experts")) call.experts = *local * row.ranks;
  if (const auto of_variant = number_after(variant, "(?:^|_)e([0-9]+)(?:_|$)")) call.experts = *of_variant;
  call.experts = std::max(call.experts, call.top_k);
  auto tokens = number_after(variant, "(?:^|_)tok(?:ens)?([0-9]+)");
  if (!tokens) tokens = number_after(variant, "(?:^|_)([0-9]+)tok");
  const std::vector<double> sizes = sizes_of_token(hidden, variant);
  std::optional<ExpertMode> mode = mode_of_variant(variant);
  if (!mode) mode = mode_of_set_up(set_up);
  bool counts_each = false;
  double size = 0;
  for (const double each : sizes) {
    const double of_token = tokens ? row.bytes / *tokens : 0;
    const bool all = tokens ? std::abs(of_token / (each * call.top_k) - 1) < 1e-3
                            : mode != ExpertMode::kNormal && is_multiple(row.bytes, each * call.top_k);
    const bool once = tokens ? std::abs(of_token / each - 1) < 1e-3 : is_multiple(row.bytes, each);
    if (!all && !once) continue;
    counts_each = all;
    size = each;
    break;
  }
  if (size == 0) {
    throw std::runtime_error(
        fmt::format("{:.0f} bytes are not a whole number of tokens of {:.0f} elements in FP8 or BF16{}; \"hidden N\" "
                    "and \"top-K\" in "
                    "the set-up give others",
                    row.bytes, hidden, tokens ? fmt::format(" ({} tokens)", *tokens) : ""));
  }
  call.token_bytes = size;
  call.tokens = tokens ? *tokens : row.bytes / size / (counts_each ? call.top_k : 1);
  call.mode = mode.value_or(counts_each ? ExpertMode::kLowLatency : ExpertMode::kNormal);
  const bool is_of_bandwidth =
      holds(set_up, "printed bandwidth") || holds(set_up, "bytes/algbw") || holds(set_up, "use the bandwidths");
  const bool is_printed_time = variant.size() > 2 && variant.compare(variant.size() - 2, 2, "_t") == 0;
  call.counts_once = call.mode == ExpertMode::kNormal && !counts_each && is_of_bandwidth && !is_printed_time;
  const bool is_of_deepep = holds(set_up, "deepep") || holds(set_up, "uccl") || holds(variant, "deepep");
  constexpr int kNodesOfDeepEp = 4;
  if (call.mode == ExpertMode::kNormal && is_of_deepep && !holds(set_up, "uniform router")) {
    call.most_nodes = kNodesOfDeepEp;
  }
  auto multiprocessors = number_after(variant, "(?:^|_)sm([0-9]+)");
  if (!multiprocessors) multiprocessors = number_after(set_up, "([0-9]+) sms");
  call.multiprocessors = multiprocessors.value_or(0);
  call.through_call = holds(variant, "_torch_");
  return call;
}

}  // namespace meshbed::testbed
