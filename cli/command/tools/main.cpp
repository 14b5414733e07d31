// meshbed-tools: the commands that measure, sweep and verify.

#include "cli/command/program.h"

namespace {

constexpr meshbed::cli::OwnCommand kOwn[] = {
    {"perf", meshbed::cli::perf_command},           {"conformance", meshbed::cli::conformance_command},
    {"fuzz", meshbed::cli::fuzz_command},           {"tune", meshbed::cli::tune_command},
    {"models", meshbed::cli::models_command},       {"validate", meshbed::cli::validate_command},
    {"calibrate", meshbed::cli::calibrate_command}, {"fidelity", meshbed::cli::fidelity_command},
    {"bench", meshbed::cli::bench_command},         {"ring", meshbed::cli::ring_command},
    {"cuda", meshbed::cli::cuda_command},           {"nccl", meshbed::cli::nccl_command},
};

}  // namespace

int main(int argc, char** argv) { return meshbed::cli::run_program(kOwn, argc, argv); }
