#pragma once
// Unintended behaviour of the ancestor, each under a name. Mode::kStrict reproduces it, so that a run can be compared
// with the ancestor's; Mode::kSafe behaves as described beside it. `meshbed ring quirks` prints the list. Where the
// code depends on the mode, a comment contains the quirk's name.

#include <span>

namespace meshbed::ring {

struct Quirk {
  const char* name;     // "watchdog-wrap"
  const char* strict;   // what the ancestor does
  const char* safe;     // what is done instead
  const char* section;  // of vyre, commit ca35047
};

std::span<const Quirk> quirks();

}  // namespace meshbed::ring
