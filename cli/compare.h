#pragma once
// meshbed compare: two runs of one scenario in two worlds, joined message by message.
//
// Same files, same NICs and routes, same messages in the same order on each connection, same result bytes, same
// errors: a difference is a failure, and the first diverging message is named. Times are shown and never compared.

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/trace_file.h"

namespace meshbed::cli {

/// Two connections of one pair of ports match where both directions carry the same messages in the same order; which of
/// several parallel connections was made first does not matter. Returns the differences, one line each, the first
/// diverging message first; `left` and `right` name the runs.
std::vector<std::string> compare_messages(const std::vector<TracedMessage>& one,
                                          const std::vector<TracedMessage>& other, const std::string& left,
                                          const std::string& right);

int compare_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli
