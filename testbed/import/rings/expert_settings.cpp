// Settings of benchmarks of expert parallelism, from their command lines: DeepEP's tests/test_low_latency.py
// (deepseek-ai/DeepEP at 058d696b) and NCCL EP's ep_bench (NVIDIA/nccl v2.30.7-1, contrib/nccl_ep/ep_bench.cu).
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "testbed/import/rings/ring_import.h"

namespace meshbed::testbed::rings {
namespace {

// DeepEP, csrc/kernels/internode_ll.cu: kNumPerChannels, and int4 in front of a token.
constexpr std::uint64_t kScaled = 128, kHeaderBytes = 16;

struct Benchmark {
  const char* name;
  const char* word;  // of its command line
  std::uint64_t experts;
  const char* dispatch_dtype;
  bool has_scales;  // one float for each kScaled elements, and a header of kHeaderBytes with the token's number
  std::map<std::string, std::uint64_t ExpertSettings::*> fields;
  std::set<std::string> without_value, with_value;  // options that change nothing here
};

const std::vector<Benchmark>& benchmarks() {
  using Settings = ExpertSettings;
  static const std::vector<Benchmark> all{
      {.name = "DeepEP",
       .word = "test_low_latency",
       .experts = 288,
       .dispatch_dtype = "f8e4m3",
       .has_scales = true,
       .fields = {{"--num-tokens", &Settings::tokens},
                  {"--hidden", &Settings::hidden},
                  {"--num-topk", &Settings::top_k},
                  {"--num-experts", &Settings::experts},
                  {"--num-processes", &Settings::ranks}},
       .without_value = {"--disable-nvlink"},
       .with_value = {}},
      {.name = "NCCL EP",
       .word = "ep_bench",
       .experts = 256,
       .dispatch_dtype = "bfloat16",
       .has_scales = false,
       .fields = {{"--tokens", &Settings::tokens},
                  {"-t", &Settings::tokens},
                  {"--hidden", &Settings::hidden},
                  {"-d", &Settings::hidden},
                  {"--top-k", &Settings::top_k},
                  {"-k", &Settings::top_k},
                  {"--experts", &Settings::experts},
                  {"-e", &Settings::experts},
                  {"-np", &Settings::ranks},  // of mpirun
                  {"-n", &Settings::ranks}},
       .without_value = {"--disable-nvlink", "--validate", "-V", "--profile", "-p", "--user-handle-mem", "-U"},
       .with_value = {"--warmup", "-w", "--iters", "-i"}}};
  return all;
}

std::uint64_t number_of(const std::string& path, const std::string& option, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::uint64_t kMost = 1 << 20;
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > kMost) {
    throw std::runtime_error(
        fmt::format("{}: {} expects a number from 1 to {}, not '{}'", path, option, kMost, text.substr(0, 64)));
  }
  return value;
}

}  // namespace

ExpertSettings read_expert_settings(const ImportText& file) {
  const Benchmark* benchmark = nullptr;
  for (const Benchmark& each : benchmarks()) {
    if (file.text.find(each.word) != std::string::npos) benchmark = &each;
  }
  if (benchmark == nullptr) {
    throw std::runtime_error(fmt::format(
        "{}: expected are MPK's task graph, a trace of kernels, or the command line of DeepEP's test_low_latency.py or "
        "of NCCL EP's ep_bench",
        file.path));
  }
  ExpertSettings settings{.experts = benchmark->experts, .benchmark = benchmark->name};
  std::uint64_t nodes = 1;
  std::istringstream in(file.text);
  bool begun = false, is_high_throughput = false, has_tokens = false;
  std::string word;
  const auto value_of = [&](const std::string& option) {
    std::string value;
    if (!(in >> value)) throw std::runtime_error(fmt::format("{}: {} has no value", file.path, option));
    return value;
  };
  while (in >> word) {
    if (word.find(benchmark->word) != std::string::npos) {
      begun = true;
      continue;
    }
    // The number of nodes in DeepEP's tests/utils.py, init_dist.
    if (word.starts_with("WORLD_SIZE=")) nodes = number_of(file.path, "WORLD_SIZE", word.substr(11));
    if (!word.starts_with("-")) continue;
    std::string value;
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    }
    const auto field = benchmark->fields.find(word);
    if (field != benchmark->fields.end() && (begun || field->second == &ExpertSettings::ranks)) {
      if (value.empty()) value = value_of(word);
      settings.*field->second = number_of(file.path, word, value);
      has_tokens |= field->second == &ExpertSettings::tokens;
    } else if (begun && (word == "--algorithm" || word == "-a")) {
      if (value.empty()) value = value_of(word);
      is_high_throughput = value == "ht" || value == "high-throughput";
    } else if (begun && benchmark->with_value.contains(word)) {
      if (value.empty()) value = value_of(word);
    } else if (begun && !benchmark->without_value.contains(word)) {
      settings.not_known.push_back(word);
    }
  }
  settings.dispatch_dtype = benchmark->dispatch_dtype;
  if (benchmark->has_scales) settings.dispatch_extra = settings.hidden / kScaled * sizeof(float) + kHeaderBytes;
  if (is_high_throughput && !has_tokens) settings.tokens = 4096;
  settings.token_by_token = !is_high_throughput;
  if (settings.ranks > 0) settings.ranks *= nodes;
  if (settings.top_k > settings.experts) {
    throw std::runtime_error(
        fmt::format("{}: {} experts for each token, and there are {}", file.path, settings.top_k, settings.experts));
  }
  return settings;
}

std::string expert_scenario(const ExpertSettings& settings, std::uint64_t nodes, const std::string& rate,
                            const std::string& comment) {
  if (settings.experts % nodes != 0) {
    throw std::runtime_error(fmt::format("{} experts do not divide evenly over {} ranks, which {} asks for",
                                         settings.experts, nodes, settings.benchmark));
  }
  // Low-latency kernels send each token by itself, and the GPU rings the NIC's doorbell: DeepEP for each fourth WQE.
  std::string kernels;
  if (settings.token_by_token) {
    kernels = "message_tokens = 1\nqueue = \"ibgda\"\nlanes = 64\n";
    if (settings.benchmark == "DeepEP") kernels += "queue_depth = 1024\ndoorbell_every = 4\n";
  }
  return fmt::format(
      "# {}\ndescription = \"dispatch and combine of {} with the settings of a benchmark\"\n\n[topology]\nkind = "
      "\"switch\"\nnodes = {}\nrate = \"{}\"\n\n[workload]\nkind = \"megakernel\"\ndtype = \"bfloat16\"\n\n"
      "[workload.megakernel]\nprogram = \"moe\"\nrouting = \"random\"\ntokens = {}\nexperts = {}\ntop_k = {}\nhidden = "
      "{}\ndispatch_dtype = \"{}\"\ndispatch_extra = {}\npublish = \"0s\"\n{}",
      comment, settings.benchmark, nodes, rate, settings.tokens, settings.experts, settings.top_k, settings.hidden,
      settings.dispatch_dtype, settings.dispatch_extra, kernels);
}

}  // namespace meshbed::testbed::rings
