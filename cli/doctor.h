#pragma once
// meshbed doctor: which worlds this machine can run, and what is missing. Looks, and changes nothing.

#include "cli/command.h"

namespace meshbed::cli {

int doctor_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli
