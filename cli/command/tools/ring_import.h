#pragma once
// meshbed ring import: what other runtimes and profilers write, as a program of the work rings.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int ring_import_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed
