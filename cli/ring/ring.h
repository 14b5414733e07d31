#pragma once
// What meshbed ring does with files: a megakernel's work ring (plugin/ring). dump, check and replay read buffers and
// recordings from files; program prints a program's slots; bench measures; policy says how a launch would be made;
// quirks lists what strict mode does as the ancestor did.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int ring_dump_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_check_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_replay_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_program_command(const Arguments& arguments, std::ostream& out, std::ostream& err);
int ring_policy_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed
