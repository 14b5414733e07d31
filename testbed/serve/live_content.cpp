#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "testbed/base/json_text.h"
#include "testbed/base/xml_text.h"
#include "testbed/result/state_client.h"
#include "testbed/result/state_report.h"
#include "testbed/result/zernel/metrics.h"
#include "testbed/serve/content.h"

namespace meshbed::testbed::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLiveRefresh_s = 2;
constexpr int kStatePatience_ms = 1000;

/// A value within quotes, as the exposition format has it.
std::string label_text(const std::string& value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return text;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::uint64_t number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

const Json& list_at(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

struct LiveMetric {
  const char* name;
  const char* type;
  const char* help;
};
// In the order of LiveValues::values.
constexpr LiveMetric kLiveMetrics[] = {
    {"meshbed_processes", "gauge", "processes with a Mesh plugin that replied"},
    {"meshbed_link_up", "gauge", "1: the port's link is up"},
    {"meshbed_connections", "gauge", "open connections by their state"},
    {"meshbed_connection_bytes", "gauge", "bytes that open connections have carried"},
    {"meshbed_requests_outstanding", "gauge", "sends and receives that are not finished"},
    {"meshbed_resumptions", "gauge", "how often open connections went on over another queue pair"},
};

/// Metrics by their labels.
class LiveValues {
 public:
  void add(std::size_t metric, const std::string& labels, std::uint64_t value) { values_[{metric, labels}] += value; }

  std::string text() const {
    std::string text;
    for (std::size_t metric = 0; metric < std::size(kLiveMetrics); ++metric) {
      const LiveMetric& one = kLiveMetrics[metric];
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", one.name, one.help, one.type);
      for (auto at = values_.lower_bound({metric, ""}); at != values_.end() && at->first.first == metric; ++at) {
        const std::string& labels = at->first.second;
        text += fmt::format("{}{} {}\n", one.name, labels.empty() ? "" : "{" + labels + "}", at->second);
      }
    }
    return text;
  }

 private:
  std::map<std::pair<std::size_t, std::string>, std::uint64_t> values_;
};

void add_process(LiveValues& values, const Json& state) {
  const std::string process =
      fmt::format("host=\"{}\",pid=\"{}\"", label_text(text_at(state, "host")), number_at(state, "pid"));
  values.add(0, "", 1);
  for (const Json& nic : list_at(state, "nics")) {
    const auto up = nic.find("link_up");
    values.add(1, process + fmt::format(",nic=\"{}\"", label_text(text_at(nic, "name"))),
               up != nic.end() && up->is_boolean() && up->get<bool>() ? 1 : 0);
  }
  for (const Json& connection : list_at(state, "connections")) {
    const std::string direction =
        process + fmt::format(",direction=\"{}\"", label_text(text_at(connection, "direction")));
    const std::string phase = text_at(connection, "state");
    values.add(2, direction + fmt::format(",state=\"{}\"", phase.empty() ? "busy" : label_text(phase)), 1);
    const auto ours = connection.find("ours");
    if (ours == connection.end()) continue;
    const std::string nic = direction + fmt::format(",nic=\"{}\"", label_text(text_at(*ours, "nic")));
    values.add(3, nic, number_at(connection, "bytes"));
    values.add(4, direction, number_at(connection, "outstanding_count"));
    values.add(5, direction, number_at(connection, "resumed"));
  }
}

}  // namespace

std::vector<std::string> LiveContent::states() const {
  const StateSockets sockets = words_.empty() ? find_state_sockets() : named_state_sockets(words_);
  std::vector<std::string> texts;
  for (const std::string& path : sockets.paths) {
    StateAnswer answer = ask_for_state(path, kStatePatience_ms);
    if (!answer.problem.empty()) continue;
    try {
      parse_state(answer.text);
      texts.push_back(std::move(answer.text));
    } catch (const std::runtime_error&) {
      continue;  // of another version: `meshbed state` has the reason
    }
  }
  return texts;
}

std::string LiveContent::metrics() {
  LiveValues values;
  values.add(0, "", 0);
  for (const std::string& text : states()) add_process(values, parse_state(text));
  // No state has what zernel's probes see: its metrics are there without samples.
  return zernel::Metrics({}).prometheus() + values.text();
}

std::string LiveContent::json() { return json_text(zernel::Metrics({}).snapshot()); }

Reply LiveContent::page() {
  std::string tables;
  for (const std::string& text : states()) {
    tables += "<pre>" + xml_text(state_table(parse_state(text), {.all = true})) + "</pre>\n";
  }
  if (tables.empty()) tables = "<p>No running process with a Mesh plugin was found.</p>\n";
  return {.type = "text/html; charset=utf-8",
          .body =
              "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
              "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\">\n<title>Meshbed, "
              "live</title>\n</head>\n<body>\n<h1>Running processes</h1>\n" +
              tables + "</body>\n</html>\n",
          .refresh_s = kLiveRefresh_s};
}

Reply LiveContent::other(std::string_view path) {
  if (path == "/state") {
    Json all = Json::array();
    for (const std::string& text : states()) all.push_back(parse_state(text));
    return {.type = "application/json", .body = json_text(all)};
  }
  return plain_reply(404, "there is /, /metrics, /json, /health and /state; records are of results folders alone");
}

}  // namespace meshbed::testbed::serve
