#pragma once
// emulation: whether tests may boot virtual machines here.

#include <cstdlib>
#include <string>

#include "emu/probe.h"

namespace meshbed::test {

/// Why the emulated world does not run in these tests; empty: it does. It downloads its kernel once (70 MB) and takes
/// both cores, so it is part of the whole test only.
inline std::string why_not_emulated() {
  if (std::getenv("MESHBED_TEST_FULL") == nullptr) return "boots virtual machines: ./meshbed test without --quick";
  for (const emu::Part& part : emu::look_at_parts()) {
    if (!part.present) return part.what + ": " + part.detail;
  }
  return "";
}

}  // namespace meshbed::test
