// meshbed: the commands that run a scenario or inspect one.

#include "cli/command/program.h"

namespace {

constexpr meshbed::testbed::OwnCommand kOwn[] = {
    {"run", meshbed::testbed::run_command},       {"compare", meshbed::testbed::compare_command},
    {"record", meshbed::testbed::record_command}, {"state", meshbed::testbed::state_command},
    {"shell", meshbed::testbed::shell_command},   {"emu", meshbed::testbed::emu_command},
    {"lint", meshbed::testbed::lint_command},     {"topo", meshbed::testbed::topo_command},
    {"zernel", meshbed::testbed::zernel_command}, {"env", meshbed::testbed::env_command},
    {"doctor", meshbed::testbed::doctor_command}, {"exec", meshbed::testbed::exec_command},
};

}  // namespace

int main(int argc, char** argv) { return meshbed::testbed::run_program(kOwn, argc, argv); }
