#pragma once
// The state of a process (plugin/net/process/state.h) for people: parsed, and as a table whose stuck connections come
// first.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed {

/// Throws std::runtime_error: no JSON, no state, a newer format, or the error that the process answered with.
nlohmann::ordered_json parse_state(std::string_view text);

/// One line without its end: what the process waits for, since when and in which operation; the longest wait of all.
std::string state_verdict(const nlohmann::ordered_json& state);

struct StateTableOptions {
  bool all = false;  // also what waits for nothing
};
/// The verdict, then several lines, each with its end. Whatever is missing or of another type in `state` is left out;
/// what is not printable is shown as "?".
std::string state_table(const nlohmann::ordered_json& state, const StateTableOptions& options);

/// Of connections that are not up, or have something under way: "send rocep1s0f0 192.168.100.1/24 -> ... waits for
/// ...".
std::vector<std::string> stuck_lines(const nlohmann::ordered_json& state);
/// Of connections that are being made and wait for somebody: "connect rocep1s0f0 to 192.168.100.2/24: begun ... waits
/// for ...".
std::vector<std::string> making_lines(const nlohmann::ordered_json& state);

}  // namespace meshbed::testbed
