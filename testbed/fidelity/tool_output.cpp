#include "testbed/fidelity/tool_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "testbed/fidelity/tool_output_forms.h"

namespace meshbed::testbed {
namespace {

using nlohmann::json;

constexpr const char* kColumnNames = "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

bool holds_word(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

bool is_count(const std::string& word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

/// "all_reduce" of "./build/all_reduce_perf" and of "all_reduce_perf_mpi"; empty for any other word.
std::string program_collective(std::string word) {
  const auto folder = word.find_last_of('/');
  if (folder != std::string::npos) word.erase(0, folder + 1);
  for (const std::string end : {"_mpi", "_perf"}) {
    const bool has = word.size() > end.size() && word.compare(word.size() - end.size(), end.size(), end) == 0;
    if (has) word.resize(word.size() - end.size());
    if (!has && end == "_perf") return "";
  }
  for (const char* program : {"all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "gather", "hypercube",
                              "reduce", "reduce_scatter", "scatter", "sendrecv"}) {
    if (word == program) return word;
  }
  return "";
}

/// The library's settings by NCCL's names: NCCL_ALGO, NCCL_PROTO. "": the output gives several values, or a list.
class Settings {
 public:
  /// From "-x NCCL_ALGO=Ring" and from "NCCL_PROTO set by environment to LL".
  void take(const std::vector<std::string>& words) {
    for (std::size_t at = 0; at < words.size(); ++at) {
      for (const std::string name : {"NCCL_ALGO", "NCCL_PROTO"}) {
        if (words[at].rfind(name + "=", 0) == 0) note(name, words[at].substr(name.size() + 1));
        const bool is_said = words[at] == name && at + 5 < words.size() && words[at + 1] == "set" &&
                             words[at + 3] == "environment" && words[at + 4] == "to";
        if (is_said) note(name, words[at + 5]);
      }
    }
  }
  std::string text() const {
    std::string all;
    for (const auto& [name, value] : values_) {
      if (!value.empty()) all += ", " + name + "=" + value;
    }
    return all;
  }
  std::string value_of(const char* name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second;
  }

 private:
  void note(const std::string& name, std::string value) {
    value.erase(value.find_last_not_of(".;") + 1);
    if (value.find_first_of(",;^") != std::string::npos) value.clear();  // a list leaves the choice to the library
    const auto [at, is_new] = values_.emplace(name, value);
    if (!is_new && at->second != value) at->second.clear();
  }
  std::map<std::string, std::string> values_;
};

/// Rows of a measured file, each with the line of the output that it comes from.
class Rows {
 public:
  void add(int line, const std::string& row) {
    text_ += row + "\n";
    lines_.push_back(line);
  }
  ToolOutput behind(const std::string& head) const {
    ToolOutput output{.text = head + text_, .rows = lines_.size(), .lines = {}};
    output.lines.assign(static_cast<std::size_t>(std::count(head.begin(), head.end(), '\n')), 1);
    output.lines.insert(output.lines.end(), lines_.begin(), lines_.end());
    return output;
  }

 private:
  std::string text_;
  std::vector<int> lines_;
};

/// One test's heading: its ranks and hosts, and the columns of a row that hold times.
struct Heading {
  std::string collective, protocol;
  int ranks = 0;
  int unlisted = 0;
  std::set<std::string> hosts;
  std::string gpu;
  std::vector<std::size_t> times{5, 9};  // words of a row: size count type redop root | time algbw busbw #wrong, twice
  bool cpu_times = false;
  bool counts_wrong = true;  // older ones print the largest error there
  bool only_in_place = false;
  std::size_t names = 13;

  std::string place() const {
    if (ranks == 0) return ",";
    const std::int64_t all = std::int64_t{ranks} + unlisted, hosts_listed = static_cast<std::int64_t>(hosts.size());
    return fmt::format("{},{}", all, (all * hosts_listed + ranks - 1) / ranks);
  }

  void take_columns(const std::vector<std::string>& header) {
    times.clear();
    for (std::size_t at = 0; at < header.size(); ++at) {
      const bool is_cpu = header[at] == "cputime";
      if (is_cpu || header[at] == "time") times.push_back(at);
      cpu_times = cpu_times || is_cpu;
    }
    counts_wrong = std::find(header.begin(), header.end(), "#wrong") != header.end();
    names = header.size();
  }

  void take_rank(const std::vector<std::string>& words) {
    // #  Rank  0 Group  0 Pid  1 on  host-1 device  0 [...] NVIDIA ...
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on == words.end() || on + 1 == words.end()) return;
    ++ranks;
    hosts.insert(*(on + 1));
    const auto bus = std::find_if(on, words.end(), [](const std::string& word) { return word.front() == '['; });
    if (bus != words.end()) gpu = fmt::format("{}", fmt::join(bus + 1, words.end(), " "));
  }
};

void take_row(Rows& rows, int line, const Heading& heading, const std::vector<std::string>& words) {
  constexpr std::size_t kOfOnePlacement = 3;
  if (words.front() == "0" || heading.times.empty()) return;
  // If the first placement was not run, its columns are missing and those of the second come first.
  const bool only_second =
      heading.times.size() == 2 && words.size() + (heading.times[1] - heading.times[0]) <= heading.names;
  for (std::size_t index = 0; index < heading.times.size(); ++index) {
    const std::size_t at = heading.times[index];
    if (at + kOfOnePlacement > words.size()) break;
    const char* const placement = index > 0 || only_second || heading.only_in_place ? "in" : "out";
    const std::string wrong = at + 3 < words.size() && heading.counts_wrong ? words[at + 3] : "0";
    std::string values = fmt::format("{},{},{}", words[at], words[at + 1], words[at + 2]);
    if (heading.cpu_times) values = "cputime,,";
    if (is_count(wrong) && wrong != "0") values = wrong + " wrong elements,,";
    rows.add(line, fmt::format("{},{},{},{},{},{}", heading.collective, heading.place(), words[0], values, placement,
                               heading.protocol));
  }
}

ToolOutput nccl_tests_text(const std::string& output) {
  Rows rows;
  Heading heading;
  Settings of_test;
  std::set<std::string> algorithms;  // of the tests; "" for a test without one
  std::string tool = "nccl-tests";
  bool replayed = false;
  std::string iterations;
  std::istringstream lines(output);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    // mpirun --tag-output: "[1,0]<stdout>:"
    const auto tag = line.rfind('[', 0) == 0 ? line.find(">:") : std::string::npos;
    if (tag != std::string::npos && line.find("]<std") < tag) line.erase(0, tag + 2);
    std::vector<std::string> words = words_of(line);
    // srun --label: "0: "
    const bool has_label =
        words.size() > 1 && words.front().back() == ':' && is_count(words.front().substr(0, words.front().size() - 1));
    if (has_label) words.erase(words.begin());
    const bool is_comment = !words.empty() && words.front() == "#";
    if (is_comment) words.erase(words.begin());
    if (words.empty()) continue;
    of_test.take(words);
    if (is_comment && words[0] == "seed" && holds_word(line, "scenario") && holds_word(line, "world")) {
      tool = "meshbed perf";
    }
    if (holds_word(line, "nThread") && holds_word(line, "nGpus")) {
      const std::string collective = heading.collective;
      heading = {};
      heading.collective = collective;
      const auto behind = [&words](const char* name) {
        const auto at = std::find(words.begin(), words.end(), name);
        return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
      };
      replayed = replayed || (!behind("graph:").empty() && behind("graph:") != "0");
      // "warmup iters: 1 iters: 20"
      const auto warm = std::find(words.begin(), words.end(), "warmup");
      if (warm != words.end() && warm + 1 != words.end()) words.erase(warm, warm + 2);
      if (iterations.empty() && is_count(behind("iters:"))) iterations = ", -n " + behind("iters:");
    } else if (is_comment && (words[0] == "in-place" || words[0] == "out-of-place")) {
      heading.only_in_place = words[0] == "in-place";
    } else if (words[0] == "Rank") {
      heading.take_rank(words);
    } else if (is_comment && words.size() == 4 && words[0] == "..." && words[3] == "more" && is_count(words[2])) {
      heading.unlisted = std::stoi(words[2].substr(0, 6));
    } else if (words[0] == "size" && words.size() > 4 && words[1] == "count") {
      heading.take_columns(words);
    } else if (holds_word(line, "Avg bus bandwidth")) {
      heading.collective.clear();
      of_test = {};
    } else if (words.size() > 4 && !is_comment && is_count(words[0]) && is_count(words[1])) {
      heading.protocol = of_test.value_of("NCCL_PROTO");  // each test's own: the row's variant
      algorithms.insert(of_test.value_of("NCCL_ALGO"));
      take_row(rows, number, heading, words);
    } else if (!holds_word(line, "test concluded")) {
      for (const std::string& word : words) {
        const std::string named = program_collective(word);
        if (!named.empty()) heading.collective = named;
      }
    }
  }
  const std::string algorithm = algorithms.size() == 1 ? *algorithms.begin() : "";
  return rows.behind(fmt::format("# setup: output of {}{}{}{}{}\n{}", tool, iterations, replayed ? ", CUDA graph" : "",
                                 algorithm.empty() ? "" : ", NCCL_ALGO=" + algorithm,
                                 heading.gpu.empty() ? "" : ", " + heading.gpu, kColumnNames));
}

/// Null if there is none.
const json& member(const json& object, const char* key) {
  static const json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? none : *found;
}

/// Empty if the member is not a list.
std::vector<json> list_at(const json& object, const char* key) {
  const json& list = member(object, key);
  return list.is_array() ? list.get<std::vector<json>>() : std::vector<json>{};
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }

int count_at(const json& object, const char* key, int otherwise) {
  const json& value = member(object, key);
  return value.is_number_integer() ? value.get<int>() : otherwise;
}

/// The collective that was run: of nccl-tests the program's name, of `meshbed perf` the word behind "perf".
std::string collective_of_arguments(const std::vector<json>& arguments) {
  std::string before;
  for (const json& each : arguments) {
    const std::string word = text_of(each);
    const std::string named = program_collective(word);
    if (!named.empty()) return named;
    if (before == "perf") return word;
    before = word;
  }
  return "";
}

/// The output of -J: one device is listed for each process, which had nthreads * ngpus ranks.
ToolOutput nccl_tests_json(const std::string& output) {
  json document;
  try {
    document = json::parse(output);
  } catch (const json::parse_error& error) {
    throw std::runtime_error(fmt::format("the JSON of nccl-tests is broken or ends early ({})", error.what()));
  }
  const json& config = member(document, "config");
  std::set<std::string> hosts;
  const std::vector<json> processes = list_at(config, "devices");
  for (const json& each : processes) hosts.insert(text_of(member(each, "hostname")));
  // Computed as double: the counts of threads and GPUs in a file may overflow an integer.
  const double ranks =
      static_cast<double>(processes.size()) * count_at(config, "nthreads", 1) * count_at(config, "ngpus", 1);
  const std::string place = ranks > 0 ? fmt::format("{:.0f},{}", ranks, hosts.size()) : ",";
  const std::string collective = collective_of_arguments(list_at(document, "args"));
  Settings settings;
  for (const json& each : list_at(document, "env")) settings.take({text_of(each)});
  Rows rows;
  int number = 0;
  for (const json& result : list_at(document, "results")) {
    ++number;
    const json& bytes = member(result, "size");
    if (bytes.is_number() && bytes == 0) continue;
    for (const auto& [key, placement] : {std::pair{"out_of_place", "out"}, {"in_place", "in"}}) {
      const json& run = member(result, key);
      if (!run.is_object()) continue;
      const auto value = [&run = run](const char* name) { return run.contains(name) ? run.at(name).dump() : ""; };
      const json& wrong = member(run, "nwrong");
      std::string values = fmt::format("{},{},{}", value("time"), value("alg_bw"), value("bus_bw"));
      if (run.contains("cpu_time")) values = "cputime,,";
      if (wrong.is_number() && wrong != 0) values = fmt::format("{:g} wrong elements,,", wrong.get<double>());
      rows.add(number, fmt::format("{},{},{},{},{},", collective, place, bytes.dump(), values, placement));
    }
  }
  const int iterations = count_at(config, "iterations", 0);
  const std::vector<json> arguments = list_at(document, "args");
  const bool is_ours = arguments.size() > 1 && text_of(arguments[1]) == "perf";
  const std::string gpu = processes.empty() ? "" : text_of(member(processes.front(), "device_info"));
  return rows.behind(fmt::format("# setup: output of {}{}{}{}{}\n{}", is_ours ? "meshbed perf" : "nccl-tests",
                                 iterations > 0 ? fmt::format(", -n {}", iterations) : "",
                                 count_at(config, "graph", 0) > 0 ? ", CUDA graph" : "", settings.text(),
                                 gpu.empty() ? "" : ", " + gpu, kColumnNames));
}

/// One test or several, each by its heading: "RDMA_Write BW Test", "Send Latency Test", "RDMA_Read Bidirectional BW
/// Test", "Atomic FETCH_AND_ADD BW Test". Both ways at once are the row's variant. What has no model is named in the
/// place of a unit: raw Ethernet, a line without a time. Of a test of a duration (-D) the average latency is taken.
ToolOutput perftest_text(const std::string& output) {
  Rows rows;
  std::string name = "write", kind = "bw", unit = "MB/s", unusable, variant, about;
  std::size_t column = 3, count = 1;
  std::istringstream lines(output);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    if (words.back() == "Test" && words.size() > 1) {
      unusable.clear();
      if (words.front() == "RDMA_Write") name = "write";
      if (words.front() == "RDMA_Read") name = "read";
      if (words.front() == "Send") name = "send";
      if (words.front() == "Atomic") name = "atomic";
      if (words.front() == "Raw") unusable = words.front();
      variant = holds_word(line, "Bidirectional") ? "bidir" : "";
      continue;
    }
    for (const auto& [label, text] : {std::pair{" Device ", ", device "}, std::pair{" Mtu ", ", MTU "},
                                      std::pair{" Number of qps ", ", queue pairs "}, std::pair{" Link type ", ", "}}) {
      const auto at = line.find(label);
      const auto mark = line.find(": ");
      if (at != 0 || mark == std::string::npos || about.find(text) != std::string::npos) continue;
      const std::vector<std::string> value = words_of(line.substr(mark + 2));
      if (!value.empty()) about += text + value.front().substr(0, value.front().find('['));
    }
    if (words.front() == "#bytes") {
      const bool is_latency = holds_word(line, "usec]");
      kind = is_latency ? "lat" : "bw";
      unit = is_latency ? "us" : holds_word(line, "average[Gb/sec]") ? "Gb/s" : "MB/s";
      const bool has_typical = holds_word(line, "t_typical[usec]");
      const bool has_level = holds_word(line, "#sl");
      // Names of columns have blanks: "BW average[Gb/sec]" is the second of two of them.
      column = (is_latency ? (has_typical ? 4 : 2) : 3) + (has_level ? 1 : 0);
      count = has_level ? 2 : 1;
      const bool has_time = is_latency ? has_typical || holds_word(line, "t_avg[usec]") : holds_word(line, "average[");
      if (!has_time) unusable = "no typical time";
      continue;
    }
    if (words.size() <= column || !is_count(words[0]) || !is_count(words[count])) continue;
    rows.add(number, fmt::format("ib_{}_{},{},{},{},{}", name, kind, words[0],
                                 unusable.empty() ? words[column] : unusable, unit, variant));
  }
  return rows.behind("# setup: output of perftest" + about + "\ncollective,bytes,value,unit,variant\n");
}

}  // namespace

std::optional<ToolOutput> measured_text_of(const std::string& output) {
  if (auto report = perftest_json(output)) return report;
  if (auto records = rccl_json(output)) return records;
  if (auto osu = osu_text(output)) return osu;
  if (holds_word(output, "#bytes") && holds_word(output, "#iterations")) return perftest_text(output);
  const auto first = output.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first != std::string::npos && output[first] == '{' && holds_word(output, "\"nccl_version\"")) {
    return nccl_tests_json(output);
  }
  const bool is_nccl_tests = holds_word(output, "busbw") && holds_word(output, "redop") &&
                             (holds_word(output, "out-of-place") || holds_word(output, "#wrong"));
  if (is_nccl_tests) return nccl_tests_text(output);
  return std::nullopt;
}

}  // namespace meshbed::testbed
