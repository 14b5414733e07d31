#pragma once
// emulation: whether tests may boot virtual machines here.

#include <cstdlib>
#include <string>

#include "emu/microvm/probe.h"

namespace meshbed::test {

/// kShort: what every change is held against; kWhole: what is run before an issue is done.
enum class Emulation { kShort, kWhole };

/// Why the emulated world does not run in this test; empty: it does. It downloads its kernel once (70 MB) and takes
/// both cores, so a test program by itself boots nothing: MESHBED_TEST_EMU=short asks for the short part, =full for all
/// of it.
inline std::string why_not_emulated(Emulation part = Emulation::kWhole) {
  const char* wanted = std::getenv("MESHBED_TEST_EMU");
  const std::string asked = wanted != nullptr ? wanted : "";
  if (asked != "full" && (asked != "short" || part == Emulation::kWhole)) {
    return "boots virtual machines: ./meshbed test --stage emu";
  }
  for (const emu::Part& one : emu::look_at_parts()) {
    if (!one.present) return one.what + ": " + one.detail;
  }
  return "";
}

}  // namespace meshbed::test
