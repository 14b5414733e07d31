#pragma once
// meshbed compare: two runs of one scenario in two worlds, joined message by message.
//
// Same files, same NICs and routes, same messages in the same order on each connection (or, where a connection broke,
// the same messages arrived: compare_messages.h), same result bytes, same errors: a difference is a failure, and the
// first diverging message is named. Times are shown and never compared.

#include <iosfwd>

#include "cli/command.h"

namespace meshbed::cli {

int compare_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli
