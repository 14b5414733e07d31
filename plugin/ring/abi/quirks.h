#pragma once
// What the ancestor does that nobody would do on purpose, each under a name. Mode::kStrict does it too, so that a run
// can be held against the ancestor's; Mode::kSafe does what stands beside it. `meshbed ring quirks` prints the list.
// Wherever the code asks for the mode, the quirk's name stands in a comment.

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
