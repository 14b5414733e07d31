#pragma once
// meshbed ring: the files of a megakernel's work ring (plugin/ring). dump, check and replay read buffers and recordings
// from files; program prints a program's slots; bench measures; policy computes the launch for a request; quirks lists
// the deviations of strict mode, which are the ancestor's.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int ring_dump_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_check_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_replay_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_program_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_policy_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed
