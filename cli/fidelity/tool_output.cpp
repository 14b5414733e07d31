#include "cli/fidelity/tool_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <sstream>
#include <vector>

namespace meshbed::cli {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

bool holds_word(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

bool begins_with_digit(const std::vector<std::string>& words) {
  return !words.empty() && std::isdigit(static_cast<unsigned char>(words.front().front())) != 0;
}

/// "all_reduce" of "# Collective test starting: all_reduce_perf".
std::string collective_of_line(const std::string& line) {
  const std::vector<std::string> words = words_of(line.substr(line.find(':') + 1));
  std::string name = words.empty() ? "" : words.front();
  if (name.size() > 5 && name.compare(name.size() - 5, 5, "_perf") == 0) name.resize(name.size() - 5);
  return name;
}

std::string nccl_tests_text(const std::string& output) {
  std::string collective;
  std::vector<std::string> rows;  // behind ranks and nodes, which may be told later
  std::set<std::string> hosts;
  int ranks = 0;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    if (holds_word(line, "Collective test starting:")) collective = collective_of_line(line);
    // #  Rank  0 Group  0 Pid  1 on  host-1 device  0 [...] NVIDIA ...
    const auto on = std::find(words.begin(), words.end(), "on");
    if (words.size() > 4 && words[0] == "#" && words[1] == "Rank" && on != words.end() && on + 1 != words.end()) {
      ++ranks;
      hosts.insert(*(on + 1));
    }
    // size count type redop root | time algbw busbw #wrong | time algbw busbw #wrong
    if (!begins_with_digit(words) || words.size() < 8) continue;
    constexpr std::size_t kFirst = 5, kEach = 4;
    const char* placement = "out";
    for (std::size_t at = kFirst; at + 2 < words.size(); at += kEach) {
      rows.push_back(fmt::format("{},{},{},{},{},\n", words[0], words[at], words[at + 1], words[at + 2], placement));
      placement = "in";
    }
  }
  std::string text =
      "# setup: output of nccl-tests\ncollective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";
  const std::string place = ranks > 0 ? fmt::format("{},{}", ranks, hosts.size()) : ",";
  for (const std::string& row : rows) text += collective + "," + place + "," + row;
  return text;
}

std::string perftest_text(const std::string& output) {
  // "RDMA_Write BW Test", "Send Latency Test", "RDMA_Read BW Test"
  std::string name = "write", kind = "bw", unit = "MB/s", text;
  if (holds_word(output, "Send ")) name = "send";
  if (holds_word(output, "RDMA_Read")) name = "read";
  if (holds_word(output, "t_typical[usec]")) kind = "lat", unit = "us";
  if (holds_word(output, "average[Gb/sec]")) unit = "Gb/s";
  text = "# setup: output of perftest\ncollective,bytes,value,unit\n";
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    // bytes iterations peak average rate; or bytes iterations t_min t_max t_typical ...
    const std::size_t column = kind == "lat" ? 4 : 3;
    if (!begins_with_digit(words) || words.size() <= column) continue;
    text += fmt::format("ib_{}_{},{},{},{}\n", name, kind, words[0], words[column], unit);
  }
  return text;
}

}  // namespace

std::optional<std::string> measured_text_of(const std::string& output) {
  if (holds_word(output, "#bytes") && holds_word(output, "#iterations")) return perftest_text(output);
  const bool is_nccl_tests = holds_word(output, "#wrong") && holds_word(output, "busbw") && holds_word(output, "redop");
  if (is_nccl_tests) return nccl_tests_text(output);
  return std::nullopt;
}

}  // namespace meshbed::cli
