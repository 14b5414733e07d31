#include "cli/command/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "cli/common/progress_bar.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/exit_status.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kMain = "meshbed";
constexpr const char* kTools = "meshbed-tools";

struct Subcommand {
  const char* name;
  const char* program;
  const char* summary;
};

constexpr Subcommand kSubcommands[] = {
    {"run", kMain, "run a scenario and prove the result"},
    {"perf", kTools, "sweep a collective over sizes, as nccl-tests prints it"},
    {"compare", kMain, "two runs of a scenario, joined message by message"},
    {"conformance", kTools,
     "does a net plugin keep NCCL's rules? conformance ptx: the PTX interpreter beside this GPU"},
    {"fuzz", kTools, "random fault schedules, or every order of two ranks' calls: right data, or a reason"},
    {"state", kMain, "what the mesh plugins of running jobs are doing, and whom they wait for"},
    {"shell", kMain, "a shell in a node of the emulated cluster"},
    {"exec", kMain, "any program, once a rank, in the nodes of the emulated cluster"},
    {"emu", kMain, "the emulated cluster in this host's own kernel: emu up, emu down, emu status"},
    {"tune", kTools, "which algorithm and protocol is the fastest, size by size, as a tuning table"},
    {"sweep", kTools, "the variants of a scenario, also with each cable, NIC or node out, as one table"},
    {"models", kTools, "profiles of machines: every value with its source, and a prediction in parts"},
    {"validate", kTools, "measured times beside what the models predict"},
    {"calibrate", kTools, "a class of machines fitted to measured files, as a profile; calibrate gpu: this GPU's"},
    {"fidelity", kTools, "how good the models are over all measured files, as a page"},
    {"bench", kTools, "what a simulated message, rank and library copy cost here"},
    {"ring", kTools, "a megakernel's work ring: ring dump, check, replay, bench, policy, quirks"},
    {"cuda", kTools, "an unmodified CUDA program on a simulated GPU: cuda run PROGRAM"},
    {"nccl", kTools, "NVIDIA's own NCCL, built by you: nccl check, run, compare"},
    {"lint", kMain, "check scenario files"},
    {"topo", kMain, "who reaches whom: topo check, topo draw, topo rules"},
    {"zernel", kMain, "what zernel would say of the records that run --zernel-out wrote"},
    {"env", kMain, "every variable with its value in force and its source"},
    {"doctor", kMain, "which worlds this machine can run"},
};

void print_usage(std::ostream& out) {
  out << "meshbed " << kVersion << ": try an RDMA mesh before you cable it\n\n"
      << "usage: meshbed COMMAND [arguments]; meshbed COMMAND --help says more\n\n";
  for (const Subcommand& command : kSubcommands) {
    out << "  " << std::left << std::setw(13) << command.name << command.summary << "\n";
  }
  out << "  " << std::left << std::setw(13) << "test"
      << "build and run the tests (only through ./meshbed)\n"
      << "  " << std::left << std::setw(13) << "install"
      << "the command, the library and the Python module into a folder (only through ./meshbed)\n\n"
      << "exit status: 0 as promised, 1 a broken promise or proof, 2 usage, or a file that cannot be read or written,\n"
      << "             3 no progress, 130 interrupted by Ctrl-C (by SIGTERM: 143 in sim, 130 elsewhere)\n";
}

/// Goes on as the other program, which stands beside this one. Returns only where that cannot be.
int hand_over(const Subcommand& command, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path other = self.parent_path() / command.program;
  if (other == self) {
    std::cerr << "meshbed: " << command.name << " is missing in " << self.string() << "; ./meshbed " << command.name
              << " builds it anew\n";
    return kExitUsage;
  }
  execv(other.c_str(), argv);
  std::cerr << "meshbed: " << command.name << " is a command of " << other.string()
            << ", which cannot be started: " << std::strerror(errno) << "; ./meshbed " << command.name
            << " builds it\n";
  return kExitUsage;
}

const Subcommand* find_command(const std::string& name) {
  for (const Subcommand& command : kSubcommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

int dispatch(std::span<const OwnCommand> own, const Arguments& words, char** argv) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
    print_usage(words.empty() ? std::cerr : std::cout);
    return words.empty() ? kExitUsage : kExitOk;
  }
  if (words.front() == "--version") {
    std::cout << "meshbed " << kVersion << "\n";
    return kExitOk;
  }
  for (const OwnCommand& command : own) {
    if (words.front() == command.name) {
      return command.function(Arguments(words.begin() + 1, words.end()), std::cout, std::cerr);
    }
  }
  if (const Subcommand* command = find_command(words.front())) return hand_over(*command, argv);
  if (words.front() == "test") {
    std::cerr << "meshbed: the launcher builds and runs the tests: ./meshbed test\n";
    return kExitUsage;
  }
  if (words.front() == "install") {
    std::cerr << "meshbed: the launcher builds and installs: ./meshbed install PREFIX\n";
    return kExitUsage;
  }
  std::vector<std::string> names{"test", "install", "help"};
  for (const Subcommand& command : kSubcommands) names.emplace_back(command.name);
  const std::string close = closest_name(words.front(), names);
  std::cerr << "meshbed: there is no command \"" << words.front() << "\""
            << (close.empty() ? "" : " (did you mean \"" + close + "\"?)") << "; meshbed --help lists them\n";
  return kExitUsage;
}

/// What a full disk or a closed pipe swallowed was not said: that is no success.
int with_output_written(int status) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::cout && std::ferror(stdout) == 0) return status;
  std::cerr << "meshbed: standard output could not be written"
            << (errno != 0 ? std::string(": ") + std::strerror(errno) : "") << "\n";
  return status == kExitOk ? kExitUsage : status;
}

/// A standard descriptor that is closed would become the next file that is opened, and take in what is written to it.
/// One that can only be read from keeps the error that writing gave.
void occupy_closed_descriptors() {
  while (true) {
    const int descriptor = open("/dev/null", O_RDONLY);
    if (descriptor > STDERR_FILENO || descriptor < 0) {
      if (descriptor >= 0) close(descriptor);
      return;
    }
  }
}

}  // namespace

int become_command(const Arguments& words) {
  std::string name = kMain;
  std::vector<char*> argv{name.data()};
  Arguments copies = words;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  return hand_over(*find_command(words.front()), argv.data());
}

int run_program(std::span<const OwnCommand> own, int argc, char** argv) {
  occupy_closed_descriptors();
  ProgressBar bar(stderr);
  set_progress_viewer(&bar);
  try {
    return with_output_written(dispatch(own, Arguments(argv + 1, argv + argc), argv));
  } catch (const std::exception& error) {
    std::cerr << "meshbed: " << error.what() << "\n";
    return kExitUsage;
  }
}

}  // namespace meshbed::testbed
