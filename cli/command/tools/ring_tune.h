#pragma once
// ring tune: the smallest queues, lanes and rings of a megakernel scenario that do not increase its time.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int ring_tune_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed
