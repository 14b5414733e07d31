// The protocol of the state socket, from both ends: what clients may say to a process, in any pieces; and what may
// stand where a process's answer should be. The first byte says which.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plugin/net/process/state.h"
#include "plugin/net/state/state_socket.h"
#include "testbed/result/state_report.h"

namespace {

using meshbed::net::StateRequestLine;

/// Cut after every byte, or whole: the verdict is the same, and comes no later than with the line's end.
void ask(std::string_view text) {
  StateRequestLine whole, piecewise;
  const auto at_once = whole.take(text, true);
  auto verdict = StateRequestLine::Progress::kWaits;
  for (std::size_t at = 0; at < text.size() && verdict == StateRequestLine::Progress::kWaits; ++at) {
    verdict = piecewise.take(text.substr(at, 1), false);
  }
  if (verdict == StateRequestLine::Progress::kWaits) verdict = piecewise.take("", true);
  if (verdict == StateRequestLine::Progress::kWaits || verdict != at_once) std::abort();
}

/// Whatever is read is printed without control characters but for the ends of lines.
void read(std::string_view text) {
  try {
    const auto state = meshbed::testbed::parse_state(text);
    std::string shown = meshbed::testbed::state_table(state, {.all = true});
    for (const std::string& line : meshbed::testbed::stuck_lines(state)) shown += line + "\n";
    for (const char letter : shown) {
      if (letter != '\n' && (letter < 0x20 || letter > 0x7e)) std::abort();
    }
  } catch (const std::exception&) {
    // It was refused in words.
  }
}

/// What the plugin writes of names as strange as these is a state for the reader.
void write_and_read(std::string_view text) {
  meshbed::net::ProcessState state;
  state.host = text;
  state.connections.push_back({.name = std::string(text), .reason = std::string(text), .waits_for = std::string(text)});
  (void)meshbed::testbed::state_table(meshbed::testbed::parse_state(meshbed::net::to_json(state)), {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      ask(text);
      break;
    case 1:
      read(text);
      break;
    default:
      write_and_read(text);
      break;
  }
  return 0;
}
