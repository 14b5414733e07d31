#include "testbed/fidelity/tool_output_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "testbed/base/words.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {
namespace {

using Json = nlohmann::json;

/// The output as its rows come, each with its line or its number.
class FormRows {
 public:
  explicit FormRows(std::string head) : head_(std::move(head)) {}
  void add(int line, const std::string& row) {
    text_ += row + "\n";
    lines_.push_back(line);
  }
  ToolOutput output() const {
    ToolOutput all{.text = head_ + text_, .rows = lines_.size(), .lines = {}};
    all.lines.assign(static_cast<std::size_t>(std::count(head_.begin(), head_.end(), '\n')), 1);
    all.lines.insert(all.lines.end(), lines_.begin(), lines_.end());
    return all;
  }

 private:
  std::string head_, text_;
  std::vector<int> lines_;
};

double number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string string_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The objects of a text, one behind the other.
std::vector<Json> objects_of(const std::string& text) {
  std::vector<Json> all;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' && depth++ == 0) begin = at;
    if (text[at] == '}' && depth > 0 && --depth == 0) all.push_back(Json::parse(text.substr(begin, at + 1 - begin)));
  }
  if (depth != 0) throw std::runtime_error("the JSON of perftest ends early");
  return all;
}

std::string verb_of(const std::string& test) {
  const std::string name = lower_case(test);
  for (const char* verb : {"write", "read", "send", "atomic"}) {
    if (name.find(verb) != std::string::npos) return verb;
  }
  return "";
}

struct OsuTest {
  const char* name;
  const char* collective;
  bool of_one_rank;  // its sizes
};
constexpr OsuTest kOsuTests[] = {{"bi-directional bandwidth", "osu_bibw", false},
                                 {"bandwidth", "osu_bw", false},
                                 {"allreduce latency", "all_reduce", false},
                                 {"allgather latency", "all_gather", true},
                                 {"alltoall latency", "alltoall", true},
                                 {"all-to-all personalized exchange latency", "alltoall", true},
                                 {"broadcast latency", "broadcast", false},
                                 {"bcast latency", "broadcast", false},
                                 {"reduce_scatter latency", "reduce_scatter", false},
                                 {"reduce-scatter latency", "reduce_scatter", false},
                                 {"reduce latency", "reduce", false},
                                 {"gather latency", "gather", true},
                                 {"scatter latency", "scatter", true},
                                 {"latency", "osu_latency", false}};

/// Ranks and nodes of a launcher's command line; each empty where it does not state them.
std::pair<std::string, std::string> placement_of(const std::string& line) {
  std::smatch match;
  if (!std::regex_search(line, std::regex("\\b(?:mpirun|mpiexec|srun)\\b"))) return {};
  std::string ranks, nodes;
  if (std::regex_search(line, match, std::regex(" -N ?([0-9]{1,5})\\b"))) nodes = match[1];
  if (std::regex_search(line, match, std::regex(" (?:-np|-n|--ntasks)[ =]?([0-9]{1,6})\\b"))) ranks = match[1];
  const bool is_each = std::regex_search(line, match, std::regex(" --ntasks-per-node[ =]([0-9]{1,4})\\b"));
  if (ranks.empty() && !nodes.empty() && is_each) ranks = std::to_string(std::stoi(nodes) * std::stoi(match[1]));
  return {ranks, nodes};
}

}  // namespace

std::optional<ToolOutput> perftest_json(const std::string& output) {
  const auto first = output.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || output[first] != '{' || output.find("\"test_info\"") == std::string::npos ||
      output.find("\"MsgSize\"") == std::string::npos) {
    return std::nullopt;
  }
  std::vector<Json> objects;
  try {
    objects = objects_of(output);
  } catch (const Json::parse_error& error) {
    throw std::runtime_error(fmt::format("the JSON of perftest is broken ({})", error.what()));
  }
  std::string about;
  std::vector<std::string> rows;
  for (const Json& object : objects) {
    const Json info = object.value("test_info", Json::object()), results = object.value("results", Json::object());
    const std::string test = string_at(info, "test"), verb = verb_of(test);
    const bool is_latency = lower_case(test).find("latency") != std::string::npos;
    const bool both = lower_case(test).find("bidirectional") != std::string::npos;
    const double rate_M = number_at(results, "MsgRate");
    double us = rate_M > 0 ? 1 / rate_M : 0;
    if (is_latency) {
      us = number_at(results, "t_typical");
      if (us <= 0) us = number_at(results, "t_avg");
    }
    if (about.empty()) {
      about = fmt::format(", device {}, MTU {:.0f}, {:.0f} queue pairs, {}", string_at(info, "Device"),
                          number_at(info, "Mtu"), number_at(info, "Number_of_qps"), string_at(info, "Link_type"));
    }
    rows.push_back(fmt::format("{},{:.0f},{},{}", verb.empty() ? test : "ib_" + verb + (is_latency ? "_lat" : "_bw"),
                               number_at(results, "MsgSize"), us > 0 ? fmt::format("{:.9g}", us) : "no rate",
                               both ? "bidir" : ""));
  }
  FormRows all("# setup: output of perftest" + about + "\ncollective,bytes,time_us,variant\n");
  int number = 0;
  for (const std::string& row : rows) all.add(++number, row);
  return all.output();
}

std::optional<ToolOutput> osu_text(const std::string& output) {
  if (output.find("# OSU ") == std::string::npos) return std::nullopt;
  FormRows rows("# setup: output of OSU micro-benchmarks\ncollective,ranks,nodes,bytes,bytes_each,value,unit\n");
  std::string collective, ranks, nodes, unusable;
  bool of_one_rank = false, is_rate = false;
  std::istringstream lines(output);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (const auto placed = placement_of(line); !placed.first.empty()) {
      ranks = placed.first;
      nodes = placed.second;
    }
    if (std::regex_search(line, match, std::regex("# OSU (?:MPI|NCCL|OpenSHMEM|UPC)?(?:-[A-Z]+)? ?(.*?) Test"))) {
      const std::string test = lower_case(match[1]);
      collective.clear();
      unusable = "a test that has no model: " + test;
      const bool is_other = test.find("multi") != std::string::npos || test.find("put") != std::string::npos ||
                            test.find("get ") != std::string::npos || test.find("one sided") != std::string::npos ||
                            test.find("non-blocking") != std::string::npos;
      for (const OsuTest& each : kOsuTests) {
        if (is_other || test.find(each.name) == std::string::npos) continue;
        collective = each.collective;
        of_one_rank = each.of_one_rank;
        is_rate = test.find("bandwidth") != std::string::npos;
        unusable.clear();
        break;
      }
      continue;
    }
    std::istringstream text(line);
    std::string size, value;
    if (!(text >> size >> value) || !is_digits(size)) continue;
    const bool is_message = collective.rfind("osu_", 0) == 0;
    rows.add(number, fmt::format("{},{},{},{},{},{},{}", unusable.empty() ? collective : unusable,
                                 is_message ? "2" : ranks, is_message ? "2" : nodes, of_one_rank ? "" : size,
                                 of_one_rank ? size : "", value, is_rate ? "10^6B/s" : "us"));
  }
  return rows.output();
}

std::optional<ToolOutput> rccl_json(const std::string& output) {
  const auto first = output.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || output[first] != '[' || output.find("\"inPlace\"") == std::string::npos) {
    return std::nullopt;
  }
  Json records;
  try {
    records = Json::parse(output);
  } catch (const Json::parse_error& error) {
    throw std::runtime_error(fmt::format("the JSON of rccl-tests is broken or ends early ({})", error.what()));
  }
  FormRows rows(
      "# setup: output of rccl-tests\ncollective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n");
  int number = 0;
  for (const Json& each : records) {
    ++number;
    const Json wrong = each.value("wrong", Json());
    const std::string errors = wrong.is_string() ? wrong.get<std::string>() : wrong.is_number() ? wrong.dump() : "0";
    const bool is_wrong = errors != "0" && errors != "N/A" && errors != "0.0";
    const bool in_place = number_at(each, "inPlace") != 0;
    rows.add(number, fmt::format("{},{:.0f},{:.0f},{:.0f},{},{:.9g},{:.9g},{},", string_at(each, "name"),
                                 number_at(each, "ranks"), number_at(each, "nodes"), number_at(each, "size"),
                                 is_wrong ? errors + " wrong elements" : fmt::format("{:.9g}", number_at(each, "time")),
                                 is_wrong ? 0 : number_at(each, "algBw"), is_wrong ? 0 : number_at(each, "busBw"),
                                 in_place ? "in" : "out"));
  }
  return rows.output();
}

}  // namespace meshbed::testbed
