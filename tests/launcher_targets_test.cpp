// What the launcher builds before it starts a command: what that command needs, and no more.
#include <doctest/doctest.h>

#include <cstddef>

#include "tests/support/launcher_checkout.h"

namespace launcher_targets_test {

using namespace meshbed::test;

TEST_CASE("the launcher builds what the command needs, and no more") {
  const Checkout checkout("launcher_targets");
  fs::create_directory_symlink(std::string(MESHBED_SOURCE_DIR) + "/cli", checkout.folder + "/cli");
  const auto built_for = [&](const std::string& arguments) {
    std::ofstream(checkout.folder + "/ninja.log").close();
    CHECK(checkout.run(arguments + " 2>/dev/null").status == 0);
    return run_command_line("sed 's/.* -j [0-9]* //' '" + checkout.folder + "/ninja.log'").output;
  };
  for (const char* reads_only : {"", "--help", "--version", "help", "lint x.toml", "topo check x.toml", "env", "state",
                                 "exec --help", "zernel x", "compare a b", "dance", "run --help"}) {
    CHECK_MESSAGE(built_for(reads_only) == "bin/meshbed\n", reads_only);
  }
  const std::string tools = "bin/meshbed bin/meshbed-tools";
  for (const char* reads_only :
       {"ring dump x", "bench cost --help", "perf -h", "models", "validate x.csv", "calibrate x.csv", "fidelity",
        "nccl check x", "nccl compare --help", "cuda --help", "cuda run --help"}) {
    CHECK_MESSAGE(built_for(reads_only) == tools + "\n", reads_only);
  }
  for (const char* starts_ranks :
       {"run x.toml", "shell node0", "doctor", "emu status", "exec --scenario x.toml -- y --help"}) {
    CHECK_MESSAGE(built_for(starts_ranks) == "worlds\n", starts_ranks);
  }
  for (const char* starts_ranks : {"perf all_reduce", "conformance", "fuzz --faults", "tune x.toml", "bench messages",
                                   "nccl run --nccl x -- y", "nccl compare --nccl x"}) {
    CHECK_MESSAGE(built_for(starts_ranks) == "worlds bin/meshbed-tools cuda_libraries\n", starts_ranks);
  }
  CHECK(built_for("cuda run x --help") == tools + " cuda_libraries\n");
  CHECK(built_for("bench cost") == "worlds bin/meshbed-tools cuda_libraries cost_programs\n");
  CHECK(built_for("run x.toml --set workload.memory=gpu") == "worlds cuda_libraries\n");
  const auto built_for_file = [&](const std::string& text) {
    std::ofstream(checkout.folder + "/gpu.toml") << text;
    return built_for("run '" + checkout.folder + "/gpu.toml'");
  };
  for (const char* has_gpus :
       {"[workload]\nmemory = \"gpu\"\n", "[workload]\n  memory='gpu'\n", "workload = {memory = \"gpu\"}\n",
        "workload = { bytes = 8, memory = 'gpu' }\n", "workload.memory = \"gpu\"\n"}) {
    CHECK_MESSAGE(built_for_file(has_gpus) == "worlds cuda_libraries\n", has_gpus);
  }
  std::ofstream(checkout.folder + "/gpus.toml") << "[topology]\ngpus = 2\n";
  CHECK(built_for("exec --scenario '" + checkout.folder + "/gpus.toml' -- y") == "worlds cuda_libraries\n");
  for (const char* has_none : {"[workload]\nmemory = \"host\"\n", "[x]\nother_memory = \"gpu\"\n"}) {
    CHECK_MESSAGE(built_for_file(has_none) == "worlds\n", has_none);
  }
}

TEST_CASE("every command answers --help, whichever of the two programs has it, and one that is missing is said") {
  const std::string usage = run_command_line(meshbed_program() + " --help").output;
  int commands = 0;
  for (std::size_t at = usage.find("\n  "); at != std::string::npos; at = usage.find("\n  ", at + 1)) {
    const std::string name = usage.substr(at + 3, usage.find(' ', at + 3) - at - 3);
    if (name.empty() || name == "test" || name == "install") continue;  // the launcher's own
    ++commands;
    const CommandResult help = run_command_line(meshbed_program() + " " + name + " --help 2>&1");
    CHECK_MESSAGE(help.status == 0, name, ": ", help.output);
  }
  CHECK(commands == 23);
  const std::string programs = scratch_folder("launcher_programs");
  fs::copy_file(std::string(MESHBED_BINARY_DIR) + "/bin/meshbed", programs + "/meshbed");
  const CommandResult missing = run_command_line("'" + programs + "/meshbed' fuzz 2>&1");
  CHECK(missing.status == 2);
  CHECK_MESSAGE(missing.output.find("which cannot be started: No such file or directory; ./meshbed fuzz builds it") !=
                    std::string::npos,
                missing.output);
}

}  // namespace launcher_targets_test
