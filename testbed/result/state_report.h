#pragma once
// The state of a process (plugin/net/process/state.h) for people: parsed, and as a table whose stuck connections come
// first.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed {

/// Throws std::runtime_error if the text is not JSON, not a state, has a newer format, or reports an error.
nlohmann::ordered_json parse_state(std::string_view text);

/// One line without its end: the longest wait of the process, with its start and its operation.
std::string state_verdict(const nlohmann::ordered_json& state);

struct StateTableOptions {
  bool all = false;  // also connections that wait for nothing
};
/// The verdict, then several lines, each with its end. Members that are missing in `state` or have another type are
/// left out; unprintable characters are shown as "?".
std::string state_table(const nlohmann::ordered_json& state, const StateTableOptions& options);

/// Connections that are not up, or have requests under way: "send rocep1s0f0 192.168.100.1/24 -> ... waits for
/// ...".
std::vector<std::string> stuck_lines(const nlohmann::ordered_json& state);
/// Connections that are being made and wait for a peer: "connect rocep1s0f0 to 192.168.100.2/24: begun ... waits
/// for ...".
std::vector<std::string> making_lines(const nlohmann::ordered_json& state);

}  // namespace meshbed::testbed
