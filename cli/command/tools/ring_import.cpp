#include "cli/command/tools/ring_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/import/rings/ring_import.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kRepeatedMost = 64;
constexpr const char* kUsualRate = "400Gb/s";
constexpr std::size_t kUsualLanes = 8;

struct ImportOptions {
  std::vector<std::string> files, times, bytes;
  std::string output, ranks, step, rate;

  /// Options that a kind of file does not read are no options of it.
  void refuse_given(const std::string& path, const std::string& kind, const std::set<std::string>& unread) const {
    const std::pair<const char*, bool> given[] = {{"--time", !times.empty()},
                                                  {"--bytes", !bytes.empty()},
                                                  {"--ranks", !ranks.empty()},
                                                  {"--step", !step.empty()},
                                                  {"--rate", !rate.empty()}};
    for (const auto& [name, is_given] : given) {
      if (is_given && unread.count(name) > 0) {
        throw std::runtime_error(fmt::format("{}: {} is not of {}: leave it out", path, name, kind));
      }
    }
  }
};

/// NAME=VALUE
std::pair<std::string, std::string> split(const std::string& option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw std::runtime_error(fmt::format("{}: expects NAME=VALUE, not '{}'", option, text.substr(0, 64)));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// Without the mark that some editors put before UTF-8.
std::string plain_text(const std::string& path) {
  std::string text = read_text_file(path);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw std::runtime_error(path + ": is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)");
  }
  return text;
}

rings::TaskTimes times_of(const std::vector<std::string>& all) {
  rings::TaskTimes times;
  for (const std::string& each : all) {
    const auto [name, text] = split("--time", each);
    const Result<Picoseconds> time = parse_time_ps(text);
    if (!time) throw std::runtime_error("--time " + each + ": " + time.error().text);
    constexpr Picoseconds kMost = 4'000'000'000'000;
    if (*time > kMost) throw std::runtime_error("--time " + each + ": a slot takes at most 4 s");
    times[name] = *time;
  }
  return times;
}

std::map<std::string, std::uint64_t> bytes_of(const std::vector<std::string>& all) {
  static const std::vector<std::string> kCollectives{"all_reduce", "all_gather", "reduce_scatter",
                                                     "all_to_all", "broadcast",  "reduce"};
  std::map<std::string, std::uint64_t> bytes;
  for (const std::string& each : all) {
    const auto [name, text] = split("--bytes", each);
    if (std::find(kCollectives.begin(), kCollectives.end(), name) == kCollectives.end()) {
      throw std::runtime_error(fmt::format("--bytes {}: there is no collective '{}'; there are {}", each,
                                           name.substr(0, 64), fmt::join(kCollectives, ", ")));
    }
    const Result<std::uint64_t> size = parse_size_bytes(text);
    if (!size) throw std::runtime_error("--bytes " + each + ": " + size.error().text);
    bytes[name] = *size;
  }
  return bytes;
}

rings::ImportedGraph kernels_of(const std::vector<rings::ImportText>& files, const ImportOptions& options,
                                std::uint64_t wanted) {
  const rings::TraceChoice choice{.step = options.step, .bytes_of = bytes_of(options.bytes)};
  std::vector<std::vector<rings::TracedKernel>> ranks;
  for (const rings::ImportText& file : files) {
    for (auto& kernels : rings::read_kernels(file, choice)) ranks.push_back(std::move(kernels));
  }
  bool repeated = false;
  if (wanted > ranks.size() && ranks.size() == 1) {
    repeated = true;
    ranks.resize(wanted, ranks.front());
  } else if (wanted > 0 && wanted != ranks.size()) {
    throw std::runtime_error(fmt::format("--ranks {}: the files have the kernels of {} GPUs; one alone can be repeated",
                                         wanted, ranks.size()));
  }
  rings::ImportedGraph imported = rings::import_kernels(ranks, files.front().path);
  if (repeated) imported.notes.push_back(fmt::format("each of {} ranks has the kernels of the one GPU", ranks.size()));
  return imported;
}

const char* dtype_of(std::uint64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return "uint8";
    case 4:
      return "float";
    case 8:
      return "double";
    default:
      return "bfloat16";
  }
}

std::string summary_of(const rings::ImportedGraph& imported) {
  std::size_t slots = 0, messages = 0;
  std::uint64_t bytes = 0, computing_ns = 0;
  for (const std::vector<GraphSlot>& rank : imported.graph.ranks) {
    slots += rank.size();
    for (const GraphSlot& slot : rank) {
      messages += slot.op == GraphOp::kPut ? 1 : 0;
      bytes += slot.op == GraphOp::kPut ? slot.bytes : 0;
      if (&rank == imported.graph.ranks.data()) computing_ns += slot.time_ns;
    }
  }
  return fmt::format("{} rank{}, {} slots, {} messages of {} in all, {:.1f} us of computing and gaps on rank 0",
                     imported.graph.ranks.size(), imported.graph.ranks.size() == 1 ? "" : "s", slots, messages,
                     size_text(bytes), static_cast<double>(computing_ns) / 1000);
}

std::string settings_of(const rings::ImportedGraph& imported) {
  std::string text = fmt::format("dtype = \"{}\"", dtype_of(imported.element_bytes));
  if (imported.lanes > kUsualLanes) text += fmt::format(", lanes = {} (so much ran at once)", imported.lanes);
  return text;
}

void write_graph(const rings::ImportedGraph& imported, const ImportOptions& options, std::ostream& out) {
  std::string comment = fmt::format("meshbed ring import {}", fmt::join(options.files, " "));
  for (const std::string& note : imported.notes) comment += "\n# " + note;
  comment += fmt::format("\n# of a workload with {}", settings_of(imported));
  const std::string text = slot_graph_text(imported.graph, comment);
  if (options.output.empty()) {
    out << text;
    return;
  }
  write_text_file(options.output, text);
  out << options.output << ": " << summary_of(imported) << "\n";
  for (const std::string& note : imported.notes) out << "  " << note << "\n";
  out << fmt::format("a scenario beside it runs it with kind = \"megakernel\", {} and program = \"{}\"\n",
                     settings_of(imported), options.output.substr(options.output.find_last_of('/') + 1));
}

void write_experts(const rings::ImportText& file, const ImportOptions& options, std::uint64_t wanted,
                   std::ostream& out) {
  const rings::ExpertSettings settings = rings::read_expert_settings(file);
  const std::uint64_t ranks = wanted > 0 ? wanted : settings.ranks;
  if (ranks == 0) {
    throw std::runtime_error(file.path + ": the command line does not say how many ranks there are; give --ranks N");
  }
  if (ranks < 2 || ranks > 1024)
    throw std::runtime_error(fmt::format("{}: {} ranks; 2 to 1024 can run", file.path, ranks));
  const std::string rate_text = options.rate.empty() ? kUsualRate : options.rate;
  if (const Result<std::uint64_t> rate = parse_rate_bps(rate_text); !rate) {
    throw std::runtime_error("--rate " + rate_text + ": " + rate.error().text);
  }
  const std::string text =
      rings::expert_scenario(settings, ranks, rate_text, fmt::format("meshbed ring import {}", file.path));
  if (options.output.empty()) {
    out << text;
  } else {
    write_text_file(options.output, text);
    out << fmt::format("{}: {} ranks, {} tokens each, {} of {} experts a token, hidden {}\n", options.output, ranks,
                       settings.tokens, settings.top_k, settings.experts, settings.hidden);
  }
  // As comments, so that the standard output stays a scenario.
  for (const std::string& option : settings.not_known) out << fmt::format("# {}: changes nothing here\n", option);
}

}  // namespace

int ring_import_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  ImportOptions options;
  Syntax syntax("ring import FILE... [options]");
  syntax.operands.add_options()(
      "file", po::value(&options.files)->required()->value_name("FILE"),
      "MPK's task graphs (JSON, one a GPU, in their order); traces of kernels (Chrome's JSON, "
      "as PyTorch's profiler writes it, or nsys stats --report cuda_gpu_trace --format csv); "
      "or a command line of DeepEP's test_low_latency.py or NCCL EP's ep_bench");
  syntax.positions.add("file", -1);
  syntax.options.add_options()("output,o", po::value(&options.output)->value_name("FILE.toml"),
                               "write the program there (else to standard output)")(
      "time", po::value(&options.times)->value_name("TYPE=TIME"),
      "task graphs: how long a task of this type takes, as LINEAR_SM100=8us; all=5us for the others")(
      "ranks", po::value(&options.ranks)->value_name("N"),
      "traces: repeat the one GPU of the file so often; benchmarks: how many there are")(
      "step", po::value(&options.step)->value_name("NAME"),
      "traces: only what begins within this annotation, as ProfilerStep#12")(
      "bytes", po::value(&options.bytes)->value_name("COLLECTIVE=SIZE"),
      "traces: of collectives whose bytes the trace does not have, as all_reduce=64K")(
      "rate", po::value(&options.rate)->value_name("RATE"), "benchmarks: of each rank's NIC (default: 400Gb/s)");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (!options.output.empty() && !options.output.ends_with(".toml")) {
    throw std::runtime_error(
        fmt::format("-o {}: the program is written as TOML; give a name that ends in .toml", options.output));
  }
  const std::uint64_t wanted = options.ranks.empty() ? 0 : parse_count("--ranks", options.ranks, 1, 1024);
  std::vector<rings::ImportText> files;
  for (const std::string& path : options.files) files.push_back({path, plain_text(path)});
  const std::string& text = files.front().text;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && (text[first] == '{' || text[first] == '[');
  const auto has = [&](const char* key) { return text.find(fmt::format("\"{}\"", key)) != std::string::npos; };
  if (is_json && has("all_tasks") && has("all_events") && !has("traceEvents")) {
    options.refuse_given(files.front().path, "task graphs", {"--bytes", "--ranks", "--step", "--rate"});
    write_graph(rings::import_task_graph(files, times_of(options.times)), options, out);
  } else if (is_json || rings::is_nsys_table(text) || text.starts_with("\x1f\x8b")) {
    options.refuse_given(files.front().path, "traces", {"--time", "--rate"});
    if (wanted > kRepeatedMost) throw std::runtime_error(fmt::format("--ranks {}: at most {}", wanted, kRepeatedMost));
    write_graph(kernels_of(files, options, wanted), options, out);
  } else if (files.size() == 1) {
    options.refuse_given(files.front().path, "benchmarks", {"--time", "--bytes", "--step"});
    write_experts(files.front(), options, wanted, out);
  } else {
    throw std::runtime_error(files.front().path + ": neither a task graph nor a trace; of command lines one is read");
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
