#include "testbed/scenario/megakernel/names.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>

#include "plugin/ring/kernel/verdict.h"

namespace meshbed::testbed {

const std::vector<std::string>& ring_mix_names() {
  static const std::vector<std::string> names{"nop",     "add",   "packed",  "printf", "load_miss",
                                              "compute", "yield", "requeue", "fault"};
  return names;
}

std::optional<RingWeight> ring_weight_of(const std::string& text) {
  constexpr int kMost = 1'000'000;
  const std::size_t colon = text.find(':');
  const auto& names = ring_mix_names();
  const auto found = std::find(names.begin(), names.end(), text.substr(0, colon));
  if (found == names.end()) return std::nullopt;
  RingWeight result{.kind = static_cast<RingMix>(found - names.begin())};
  if (colon == std::string::npos) return result;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data() + colon + 1, end, result.weight);
  if (problem != std::errc() || stop != end || result.weight < 1 || result.weight > kMost) return std::nullopt;
  return result;
}

std::uint32_t draw_weighted(Prng& prng, const std::vector<int>& weights, std::uint32_t otherwise) {
  std::uint64_t all = 0;
  for (const int weight : weights) all += static_cast<std::uint64_t>(weight);
  if (all == 0) return otherwise;
  std::uint64_t drawn = prng.below(all);
  for (std::uint32_t index = 0; index < weights.size(); ++index) {
    const auto weight = static_cast<std::uint64_t>(weights[index]);
    if (drawn < weight) return index;
    drawn -= weight;
  }
  return otherwise;
}

RingMix draw_mix(Prng& prng, const std::vector<std::string>& mix) {
  if (mix.empty()) return RingMix::kAdd;
  std::vector<int> weights;
  for (const std::string& text : mix) weights.push_back(ring_weight_of(text)->weight);
  return ring_weight_of(mix[draw_weighted(prng, weights, 0)])->kind;
}

std::vector<std::string> ring_cause_names() {
  std::vector<std::string> names;
  for (int cause = 0; cause <= static_cast<int>(ring::Cause::kMessageFailed); ++cause) {
    names.emplace_back(ring::name_of(static_cast<ring::Cause>(cause)));
  }
  return names;
}

const std::vector<std::string>& ring_program_names() {
  static const std::vector<std::string> names{"all_reduce", "all_gather", "fused_all_reduce", "pipeline",
                                              "moe",        "decode",     "task_graph",       "queue"};
  return names;
}

bool is_slot_graph_file(const std::string& program) {
  const std::string extension = std::filesystem::path(program).extension();
  return extension == ".toml" || extension == ".jsonl";
}

}  // namespace meshbed::testbed
