#include "testbed/result/state_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "plugin/net/process/state.h"

namespace meshbed::testbed {
namespace {

using Json = nlohmann::ordered_json;

/// What comes from another process goes to a terminal.
std::string printable_state(std::string text) {
  for (char& letter : text) {
    if (letter < 0x20 || letter > 0x7e) letter = '?';
  }
  return text;
}

std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? printable_state(found->get<std::string>()) : "";
}

/// -1: unknown.
std::int64_t number_at(const Json& object, const char* key) {
  if (!object.is_object()) return net::kUnknown;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : net::kUnknown;
}

bool flag_at(const Json& object, const char* key) {
  if (!object.is_object()) return false;
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

const Json& list_at(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

const Json& object_at(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNone;
}

constexpr int kIdle = 2;

/// 0: not up, or its caller is stuck in it; 1: waits for a peer; kIdle.
int urgency(const Json& connection) {
  if (flag_at(connection, "busy") || text_at(connection, "state") != "up") return 0;
  return text_at(connection, "waits_for").empty() ? kIdle : 1;
}

std::vector<const Json*> stuck_first(const Json& connections) {
  std::vector<const Json*> sorted;
  for (const Json& connection : connections) sorted.push_back(&connection);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Json* one, const Json* other) {
    const auto rank = [](const Json& connection) {
      return std::pair(urgency(connection), -number_at(connection, "quiet_ms"));
    };
    return rank(*one) < rank(*other);
  });
  return sorted;
}

std::string age_text(std::int64_t age_ms) {
  if (age_ms < 0) return "-";
  if (age_ms < 1000) return fmt::format("{} ms", age_ms);
  if (age_ms < 600'000) return fmt::format("{:.1f} s", static_cast<double>(age_ms) / 1000);
  return fmt::format("{} min", age_ms / 60'000);
}

std::string count_text(std::int64_t count) { return count < 0 ? "-" : fmt::format("{}", count); }

/// "rocep1s0f0 192.168.100.1 QP 17"; over TCP without the last.
std::string end_text(const Json& end) {
  const std::string address = text_at(end, "address");
  const std::int64_t pair = number_at(end, "qp");
  return fmt::format("{} {}{}", text_at(end, "nic"), address.substr(0, address.find('/')),
                     pair != 0 ? " QP " + count_text(pair) : "");
}

std::string ends_text(const Json& connection) {
  if (flag_at(connection, "busy")) return text_at(connection, "name");
  const bool sends = text_at(connection, "direction") == "send";
  return fmt::format("{} {} {}", end_text(object_at(connection, "ours")), sends ? "->" : "<-",
                     end_text(object_at(connection, "theirs")));
}

class StateTable {
 public:
  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write_process(StateTable& table, const Json& state, bool all) {
  table.line("  process {} on {}: Mesh {}, node {}, service port {}", count_text(number_at(state, "pid")),
             text_at(state, "host"), text_at(state, "version"), text_at(state, "node"),
             count_text(number_at(state, "service_port")));
  for (const Json& nic : list_at(state, "nics")) {
    if (!all && flag_at(nic, "link_up")) continue;
    std::string addresses;
    for (const Json& address : list_at(nic, "addresses")) {
      if (address.is_string()) addresses += " " + printable_state(address.get<std::string>());
    }
    const std::int64_t rail = number_at(nic, "rail"), plane = number_at(nic, "plane");
    table.line("  NIC {}:{} {} {} Gb/s {}{}{}{}", text_at(nic, "name"), count_text(number_at(nic, "port")),
               text_at(nic, "netdev"), count_text(number_at(nic, "rate_mbps") / 1000),
               flag_at(nic, "link_up") ? "up" : "down", addresses, rail >= 0 ? fmt::format(" rail {}", rail) : "",
               plane >= 0 ? fmt::format(" plane {}", plane) : "");
  }
  for (const Json& one : list_at(state, "communicators")) {
    if (!all || number_at(one, "hints") <= 0) continue;
    table.line("  communicator {}: hints op {} algo {} proto {}, peers {}, flows {}", text_at(one, "comm"),
               number_at(one, "op"), number_at(one, "algo"), number_at(one, "proto"),
               number_at(object_at(one, "send"), "peers_max"), number_at(object_at(one, "send"), "flows_max"));
  }
}

void write_details(StateTable& table, const Json& connection) {
  if (flag_at(connection, "busy")) table.line("         its caller is inside the library and did not come back");
  if (const std::string reason = text_at(connection, "reason"); !reason.empty()) table.line("         {}", reason);
  const Json& outstanding = list_at(connection, "outstanding");
  if (outstanding.empty() || urgency(connection) == kIdle) return;
  std::string first_tags;
  for (const Json& tag : list_at(outstanding.front(), "tags")) {
    if (tag.is_number_integer()) first_tags += fmt::format("{}{}", first_tags.empty() ? "" : ",", tag.get<int>());
  }
  table.line("         {} open, the oldest: {} bytes, tag {}, open for {}",
             count_text(number_at(connection, "outstanding_count")),
             count_text(number_at(outstanding.front(), "size_bytes")), first_tags.empty() ? "-" : first_tags,
             number_at(outstanding.front(), "age_ms") < 0
                 ? "an unknown time"
                 : "at least " + age_text(number_at(outstanding.front(), "age_ms")));
}

/// " (relayed through 192.168.100.2)"; nothing of a cable.
std::string way_text(const Json& connection) {
  const std::string way = text_at(connection, "way");
  if (way.empty() || way == "cable") return "";
  return " (" + way + ")";
}

void write_connections(StateTable& table, const Json& state, bool all) {
  const Json& connections = list_at(state, "connections");
  if (connections.empty()) {
    table.line("  no connections");
    return;
  }
  const auto idle =
      std::count_if(connections.begin(), connections.end(), [](const Json& one) { return urgency(one) == kIdle; });
  if (!all && idle > 0) {
    table.line("  {} idle of {} connection{} {} left out: --all", idle, connections.size(),
               connections.size() == 1 ? "" : "s", idle == 1 ? "is" : "are");
  }
  if (!all && static_cast<std::size_t>(idle) == connections.size()) return;
  table.line("  {:<5} {:<9} {:<62} {:>8} {:>8} {:>14} {:>8}  {}", "", "state", "ours, peer", "posted", "done", "bytes",
             "quiet", "waits for");
  for (const Json* one : stuck_first(connections)) {
    const Json& connection = *one;
    if (!all && urgency(connection) == kIdle) break;
    table.line("  {:<5} {:<9} {:<62} {:>8} {:>8} {:>14} {:>8}  {}{}", text_at(connection, "direction"),
               flag_at(connection, "busy") ? "busy" : text_at(connection, "state"), ends_text(connection),
               count_text(number_at(connection, "posted")), count_text(number_at(connection, "done")),
               count_text(number_at(connection, "bytes")), age_text(number_at(connection, "quiet_ms")),
               text_at(connection, "waits_for"), way_text(connection));
    write_details(table, connection);
  }
}

/// "connect rocep1s0f0 to 192.168.100.2/24: begun 4.9 s ago, last asked for 0 ms ago; waits for ...".
std::string handshake_text(const Json& one) {
  const std::string peer = text_at(one, "peer"), waits_for = text_at(one, "waits_for");
  const std::int64_t accepted = number_at(one, "accepted"), asked_ms = number_at(one, "asked_ms");
  return fmt::format("{} {}{}: begun {} ago, {}{}{}", text_at(one, "side"), text_at(one, "nic"),
                     peer.empty() ? "" : " to " + peer, age_text(number_at(one, "age_ms")),
                     asked_ms < 0 ? "never asked for since" : "last asked for " + age_text(asked_ms) + " ago",
                     accepted > 0 ? fmt::format(", {} accepted", accepted) : "",
                     waits_for.empty() ? "" : "; waits for " + waits_for);
}

void write_handshakes(StateTable& table, const Json& state, bool all) {
  for (const Json& one : list_at(state, "handshakes")) {
    if (all || !text_at(one, "waits_for").empty()) table.line("  {}", handshake_text(one));
  }
}

void write_circuits(StateTable& table, const Json& state, bool all) {
  for (const Json& circuit : list_at(state, "circuits")) {
    const std::string waits_for = text_at(circuit, "waits_for");
    if (!all && waits_for.empty() && number_at(circuit, "held") <= 0) continue;
    table.line("  relays {}: {} pieces, {} bytes, {} held, {} credits{}", text_at(circuit, "name"),
               count_text(number_at(circuit, "pieces")), count_text(number_at(circuit, "bytes")),
               count_text(number_at(circuit, "held")), count_text(number_at(circuit, "credits")),
               waits_for.empty() ? "" : "; waits for " + waits_for);
  }
}

/// How long a connection's wait has lasted at least; -1: unknown.
std::int64_t waited_ms(const Json& connection) {
  const Json& outstanding = list_at(connection, "outstanding");
  const std::int64_t open_ms = outstanding.empty() ? net::kUnknown : number_at(outstanding.front(), "age_ms");
  return std::max(open_ms, number_at(connection, "quiet_ms"));
}

/// "a send of 4096 bytes, tag 4": the oldest operation that is under way.
std::string operation_text(const Json& connection) {
  const bool sends = text_at(connection, "direction") == "send";
  const Json& outstanding = list_at(connection, "outstanding");
  if (outstanding.empty()) return sends ? "a send" : "a receive";
  std::string text = fmt::format("a {} of {} bytes", sends ? "send" : "receive",
                                 count_text(number_at(outstanding.front(), "size_bytes")));
  const Json& tags = list_at(outstanding.front(), "tags");
  if (!tags.empty() && tags.front().is_number_integer()) text += fmt::format(", tag {}", tags.front().get<int>());
  return text;
}

std::string since_text(std::int64_t age_ms) { return age_ms < 0 ? "" : " for " + age_text(age_ms); }

std::string connection_verdict(const Json& connection) {
  const std::string state = text_at(connection, "state"), waits_for = text_at(connection, "waits_for");
  std::string text;
  if (flag_at(connection, "busy")) {
    text = "is inside a call of the library that has not returned: " + text_at(connection, "name");
  } else if (!waits_for.empty()) {
    text =
        fmt::format("waits for {}{}, in {}", waits_for, since_text(waited_ms(connection)), operation_text(connection));
  } else {
    text = fmt::format("has a connection that is {}{}", state, since_text(waited_ms(connection)));
  }
  if (const std::string peer = text_at(connection, "peer"); !peer.empty() && text.find(peer) == std::string::npos) {
    text += fmt::format(" {} {}", text_at(connection, "direction") == "send" ? "to" : "from", peer);
  }
  const std::string reason = text_at(connection, "reason");
  if (!flag_at(connection, "busy") && state != "up" && !waits_for.empty()) {
    text += fmt::format(" ({}{})", state, reason.empty() ? "" : ": " + reason);
  }
  return text;
}

}  // namespace

Json parse_state(std::string_view text) {
  Json state = Json::parse(text, nullptr, false);
  if (state.is_discarded() || !state.is_object()) throw std::runtime_error("this is not a state: not a JSON object");
  const std::int64_t format = number_at(state, "format");
  if (format < 1) throw std::runtime_error("this is not a state: it has no format");
  if (format > net::kStateFormat) {
    throw std::runtime_error(fmt::format("its format is {}, and this meshbed reads {}: take the meshbed of that plugin",
                                         format, net::kStateFormat));
  }
  if (const std::string error = text_at(state, "error"); !error.empty()) throw std::runtime_error(error);
  return state;
}

std::string state_verdict(const Json& state) {
  const std::string process =
      fmt::format("process {} on {}", count_text(number_at(state, "pid")), text_at(state, "host"));
  const auto sorted = stuck_first(list_at(state, "connections"));
  const Json* longest = nullptr;
  std::size_t stuck = 0;
  for (const Json* one : sorted) {
    if (urgency(*one) == kIdle) break;
    ++stuck;
    // One that is not up, or whose caller is stuck in it, is the cause of what waits.
    const bool is_worse =
        longest == nullptr || (urgency(*one) == urgency(*longest) && waited_ms(*one) > waited_ms(*longest));
    if (is_worse) longest = one;
  }
  if (longest != nullptr) {
    const std::string others = stuck > 1 ? fmt::format("; {} more wait{}", stuck - 1, stuck == 2 ? "s" : "") : "";
    return fmt::format("{} {}{}", process, connection_verdict(*longest), others);
  }
  const Json* oldest = nullptr;
  for (const Json& one : list_at(state, "handshakes")) {
    if (text_at(one, "waits_for").empty()) continue;
    if (oldest == nullptr || number_at(one, "age_ms") > number_at(*oldest, "age_ms")) oldest = &one;
  }
  if (oldest != nullptr) {
    return fmt::format("{} waits for {}{}, in {}()", process, text_at(*oldest, "waits_for"),
                       since_text(number_at(*oldest, "age_ms")), text_at(*oldest, "side"));
  }
  for (const Json& circuit : list_at(state, "circuits")) {
    if (const std::string waits_for = text_at(circuit, "waits_for"); !waits_for.empty()) {
      return fmt::format("{} waits for {}, as the relay of {}", process, waits_for, text_at(circuit, "name"));
    }
  }
  return process + " waits for nothing";
}

std::string state_table(const Json& state, const StateTableOptions& options) {
  StateTable table;
  table.line("{}", state_verdict(state));
  write_process(table, state, options.all);
  write_connections(table, state, options.all);
  write_handshakes(table, state, options.all);
  write_circuits(table, state, options.all);
  return table.take();
}

std::vector<std::string> stuck_lines(const Json& state) {
  std::vector<std::string> lines;
  for (const Json* one : stuck_first(list_at(state, "connections"))) {
    if (urgency(*one) == kIdle) break;
    std::string line = fmt::format("{} {}: {} of {} done", text_at(*one, "direction"), ends_text(*one),
                                   count_text(number_at(*one, "done")), count_text(number_at(*one, "posted")));
    if (const std::string phase = text_at(*one, "state"); phase != "up") line += ", " + phase;
    if (const std::string waits_for = text_at(*one, "waits_for"); !waits_for.empty())
      line += ", waits for " + waits_for;
    lines.push_back(line + way_text(*one));
  }
  return lines;
}

std::vector<std::string> making_lines(const Json& state) {
  std::vector<std::string> lines;
  for (const Json& one : list_at(state, "handshakes")) {
    if (!text_at(one, "waits_for").empty()) lines.push_back(handshake_text(one));
  }
  return lines;
}

}  // namespace meshbed::testbed
