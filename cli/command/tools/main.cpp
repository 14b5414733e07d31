// meshbed-tools: the commands that measure, sweep and verify.

#include "cli/command/program.h"

namespace {

constexpr meshbed::testbed::OwnCommand kOwn[] = {
    {"perf", meshbed::testbed::perf_command},           {"conformance", meshbed::testbed::conformance_command},
    {"fuzz", meshbed::testbed::fuzz_command},           {"tune", meshbed::testbed::tune_command},
    {"models", meshbed::testbed::models_command},       {"validate", meshbed::testbed::validate_command},
    {"calibrate", meshbed::testbed::calibrate_command}, {"fidelity", meshbed::testbed::fidelity_command},
    {"bench", meshbed::testbed::bench_command},         {"ring", meshbed::testbed::ring_command},
    {"cuda", meshbed::testbed::cuda_command},           {"nccl", meshbed::testbed::nccl_command},
    {"plan", meshbed::testbed::plan_command},           {"sweep", meshbed::testbed::sweep_command},
    {"report", meshbed::testbed::report_command},       {"serve", meshbed::testbed::serve_command},
    {"diagnose", meshbed::testbed::diagnose_command},   {"collect", meshbed::testbed::collect_command},
    {"init", meshbed::testbed::init_command},           {"export", meshbed::testbed::export_command},
};

}  // namespace

int main(int argc, char** argv) { return meshbed::testbed::run_program(kOwn, argc, argv); }
