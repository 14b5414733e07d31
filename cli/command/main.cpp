// meshbed: the commands that run a scenario, or look at one.

#include "cli/command/program.h"

namespace {

constexpr meshbed::cli::OwnCommand kOwn[] = {
    {"run", meshbed::cli::run_command},     {"compare", meshbed::cli::compare_command},
    {"state", meshbed::cli::state_command}, {"shell", meshbed::cli::shell_command},
    {"emu", meshbed::cli::emu_command},     {"lint", meshbed::cli::lint_command},
    {"topo", meshbed::cli::topo_command},   {"zernel", meshbed::cli::zernel_command},
    {"env", meshbed::cli::env_command},     {"doctor", meshbed::cli::doctor_command},
    {"exec", meshbed::cli::exec_command},
};

}  // namespace

int main(int argc, char** argv) { return meshbed::cli::run_program(kOwn, argc, argv); }
