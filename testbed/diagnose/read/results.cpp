// A run's results: summary.json (docs/schema/run.json) and messages.csv (sim/trace/recorder.h).

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "testbed/base/json_text.h"
#include "testbed/base/words.h"
#include "testbed/diagnose/diagnose.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

using document::Value;

void errors(const Value& summary, const std::string& file, Case& found) {
  for (const Value& error : list_at(summary, "errors")) {
    const Line at = whole_file(file, fmt::format("rank {}: {}", number_at(error, "rank", -1), text_at(error, "text")));
    found.add_fact("error", at.text, at);
    found.match(at);
  }
}

/// Which fault shows how: the events of a run whose scenario has faults.
void faults(const Value& summary, const std::string& file, Case& found) {
  static const std::map<std::string, std::pair<CauseCode, double>> kCauses{
      {"cable_down", {CauseCode::kPortDown, 0.85}}, {"port_down", {CauseCode::kPortDown, 0.85}},
      {"node_kill", {CauseCode::kRankDead, 0.97}},  {"node_stop", {CauseCode::kRankLate, 0.85}},
      {"rate", {CauseCode::kHalfRate, 0.85}},       {"loss", {CauseCode::kRetryExceeded, 0.80}},
  };
  for (const Value& fault : list_at(summary, "faults")) {
    const std::string kind = text_at(fault, "kind");
    const Line at =
        whole_file(file, fmt::format("fault: {} at {} ns", text_at(fault, "fault"), number_at(fault, "at_ns")));
    found.add_fact("fault", text_at(fault, "fault"), at);
    const auto cause = kCauses.find(kind);
    if (cause != kCauses.end())
      found.add_sign(cause->second.first, cause->second.second, "event " + kind, "the run's events name it", at);
    if (kind == "refuse") {
      const bool is_access = text_at(fault, "fault").find("access") != std::string::npos;
      found.add_sign(is_access ? CauseCode::kAccessError : CauseCode::kRnrExceeded, 0.85, "event refuse",
                     "the run's events name it", at);
    }
  }
}

/// Operations that one rank began much later than the others.
void late_ranks(const Value& summary, const std::string& file, Case& found) {
  const Value calls = summary.contains("calls") ? summary.at("calls") : Value();
  double own_ns = 0;
  for (const Value& each : list_at(calls, "iterations")) {
    const double busy = number_at(each, "time_ns") - number_at(each, "skew_ns");
    if (busy > 0 && (own_ns == 0 || busy < own_ns)) own_ns = busy;
  }
  for (const Value& each : list_at(calls, "iterations")) {
    const double skew = number_at(each, "skew_ns");
    constexpr double kLate = 5, kLeast_ns = 1e6;
    if (skew < kLeast_ns || skew < kLate * own_ns) continue;
    const Line at =
        whole_file(file, fmt::format("iteration {}: rank {} began {:.3f} s after the first one",
                                     number_at(each, "iteration"), number_at(each, "last_rank", -1), skew / 1e9));
    found.add_fact("late_rank", number_at(each, "last_rank", -1), at);
    found.add_sign(CauseCode::kRankLate, 0.85, "skew", "a rank began an operation much later than the others", at);
  }
}

/// A link that is slower than the adapters at its ends.
void rates(const Value& summary, const std::string& file, Case& found) {
  double fastest = 0, link = 0;  // of ports: a Spark's PCIe links are slower than its ports
  std::string name;
  const Value topology = summary.contains("topology") ? summary.at("topology") : Value();
  for (const Value& nic : list_at(topology, "nics")) fastest = std::max(fastest, number_at(nic, "rate_bps"));
  for (const Value& each : list_at(summary, "links")) {
    const double rate = number_at(each, "rate_bps");
    found.add_fact("link_Gbps." + text_at(each, "name"), rate / 1e9, whole_file(file, text_at(each, "name")));
    const std::string ends = text_at(each, "name");
    const std::size_t arrow = ends.find('>');
    const bool is_cable = arrow != std::string::npos && arrow > 0 && arrow + 1 < ends.size();
    if (is_cable && number_at(each, "wire_bytes") > 0 && rate > 0 && (link == 0 || rate < link)) {
      link = rate;
      name = text_at(each, "name");
    }
  }
  if (link > 0 && link <= 0.6 * fastest) {
    found.add_sign(
        CauseCode::kHalfRate, 0.70, "slow link", "a link that carried data is slower than the adapters",
        whole_file(file, fmt::format("{}: {:.6g} Gb/s, and adapters of {:.6g} Gb/s", name, link / 1e9, fastest / 1e9)));
  }
}

/// The ports of the topology, for what their addresses and rates say beside each other.
void ports(const Value& summary, const std::string& file, Case& found) {
  const Value topology = summary.contains("topology") ? summary.at("topology") : Value();
  const Value& nodes = list_at(topology, "nodes");
  for (const Value& nic : list_at(topology, "nics")) {
    const auto node = static_cast<std::size_t>(std::clamp(number_at(nic, "node"), 0.0, 1e6));
    const std::string owner = node < nodes.size() ? text_at(nodes.at(node), "name") : fmt::format("node {}", node);
    Adapter adapter{.owner = owner,
                    .device = text_at(nic, "function"),
                    .netdev = "",
                    .rate_Gbps = number_at(nic, "rate_bps") / 1e9,
                    .addresses = {},
                    .at = {}};
    for (const Value& address : list_at(nic, "addresses")) {
      if (address.is_string()) adapter.addresses.push_back(address.get<std::string>());
    }
    adapter.at = whole_file(file, fmt::format("{}/{}: {:.6g} Gb/s, {}", owner, adapter.device, adapter.rate_Gbps,
                                              fmt::join(adapter.addresses, ", ")));
    found.adapters.push_back(std::move(adapter));
  }
}

void management(const Value& summary, const std::string& file, Case& found) {
  const double bytes = number_at(summary, "management_bytes");
  found.add_fact("management_bytes", bytes, whole_file(file, "management_bytes"));
  if (bytes > 65536 && bytes >= number_at(summary, "bytes") && text_at(summary, "outcome") == "finished") {
    found.add_sign(CauseCode::kManagementNic, 0.85, "management bytes", "the data went over the management network",
                   whole_file(file, fmt::format("management_bytes: {:.0f}, of operations of {:.0f} B", bytes,
                                                number_at(summary, "bytes"))));
  }
}

}  // namespace

bool read_summary(const Value& value, const std::string& file, Case& found) {
  if (!value.is_object() || !value.contains("proofs") || !value.contains("digest")) return false;
  found.formats.insert("results");
  for (const char* key : {"scenario", "world", "outcome", "digest", "collective"}) {
    if (const std::string text = text_at(value, key); !text.empty()) found.add_fact(key, text, whole_file(file, key));
  }
  for (const char* key : {"ranks", "bytes", "busbw_GBps", "time_ns", "over_bound", "retransmissions", "wrong"}) {
    if (value.contains(key) && value.at(key).is_number()) found.add_fact(key, value.at(key), whole_file(file, key));
  }
  for (const Value& finding : list_at(value, "findings")) {
    const Line at = whole_file(file, fmt::format("{}: {}", text_at(finding, "place"), text_at(finding, "cause")));
    if (text_at(finding, "severity") != "note" || text_at(finding, "code") == "no-path")
      sign_of_finding(text_at(finding, "code"), at, found);
  }
  errors(value, file, found);
  faults(value, file, found);
  late_ranks(value, file, found);
  rates(value, file, found);
  management(value, file, found);
  ports(value, file, found);
  for (const Value& state : list_at(value, "waiters")) {
    const Line at = whole_file(file, state.is_string() ? state.get<std::string>() : json_text(state));
    found.add_fact("waits", at.text, at);
    found.match(at);
  }
  return true;
}

void read_messages(const std::string& text, const std::string& file, Case& found) {
  // posted_ps,...,status,tries,...: the columns by their names.
  const std::size_t head_end = std::min(text.find('\n'), text.size());
  const std::vector<std::string> names = words_of(std::string_view(text).substr(0, head_end), ",\r");
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const std::size_t status = column("status"), tries = column("tries");
  if (status == names.size() || tries == names.size())
    throw std::runtime_error(file + ":1: columns status and tries are missing; is it a run's messages.csv?");
  std::map<std::string, std::pair<std::size_t, Line>> by_status;
  std::size_t number = 1, retried = 0, count = 0;
  for (std::size_t begin = head_end + 1; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view row = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const std::vector<std::string> cells = words_of(row, ",\r");
    if (cells.size() <= std::max(status, tries)) continue;
    ++count;
    if (leading_number(cells[tries]).value_or(1) > 1) ++retried;
    if (cells[status] != "0") {
      auto& [times, first] = by_status[cells[status]];
      if (times++ == 0) first = {.file = file, .number = number, .text = std::string(row.substr(0, kLineShown))};
    }
  }
  found.formats.insert("results");
  found.add_fact("messages", count, {.file = file, .number = 0, .text = ""});
  found.add_fact("messages_retried", retried, {.file = file, .number = 0, .text = ""});
  for (const auto& [code, entry] : by_status) {
    found.add_fact("messages_with_status_" + code, entry.first, entry.second);
    if (code == "12")
      found.add_sign(CauseCode::kRetryExceeded, 0.40, "messages 12", "messages ended with status 12", entry.second);
    if (code == "13")
      found.add_sign(CauseCode::kRnrExceeded, 0.80, "messages 13", "messages ended with status 13", entry.second);
    if (code == "10")
      found.add_sign(CauseCode::kAccessError, 0.80, "messages 10", "messages ended with status 10", entry.second);
  }
}

}  // namespace meshbed::testbed::diagnose
