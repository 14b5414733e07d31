#pragma once
// The collecting script, run on this host.

#include <string>

namespace meshbed::testbed::hosts {

/// Runs it with sh; its own report goes to standard error, with `quiet` nowhere. `output`: a file, "-" for standard
/// output, or empty for the script's own name in this folder. Throws std::runtime_error where there is no sh or the
/// archive cannot be written.
void collect_here(const std::string& output, bool quiet = false);

}  // namespace meshbed::testbed::hosts
