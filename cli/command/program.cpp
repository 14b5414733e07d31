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

#include "cli/command/needs.h"
#include "cli/common/progress_bar.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kMain = "meshbed";
constexpr const char* kTools = "meshbed-tools";
constexpr const char* kLauncher = nullptr;  // no program: ./meshbed itself

struct Subcommand {
  const char* name;
  const char* program;
  const char* summary;
};

constexpr Subcommand kSubcommands[] = {
#define MESHBED_COMMAND(name, program, summary) {#name, program, summary},
#include "cli/command/commands.def"
#undef MESHBED_COMMAND
};

void print_usage(std::ostream& out) {
  out << "meshbed " << kVersion << ": try an RDMA mesh before you cable it\n\n"
      << "usage: meshbed COMMAND [arguments]; meshbed COMMAND --help says more\n\n";
  for (const Subcommand& command : kSubcommands) {
    out << "  " << std::left << std::setw(13) << command.name << command.summary << "\n";
  }
  out << "\nexit status: 0 as promised, 1 a broken promise or proof, 2 usage, or a file that cannot be read or "
         "written,\n"
      << "             3 no progress, 130 interrupted by Ctrl-C (by SIGTERM: 143 in sim, 130 elsewhere)\n";
}

/// Continues as the other program, which stands beside this one. Returns only where that fails.
int hand_over(const Subcommand& command, const Arguments& words, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path other = self.parent_path() / command.program;
  if (other == self) {
    std::cerr << "meshbed: " << command.name << " is missing in " << self.string() << "; ./meshbed " << command.name
              << " builds it anew\n";
    return kExitUsage;
  }
  execv(other.c_str(), argv);
  if (errno == ENOENT && asks_for_help(words)) {
    std::cout << "meshbed " << command.name << ": " << command.summary << "\n\nThis command is in " << command.program
              << ", which is not built yet. `./meshbed " << command.name
              << "` builds it; after that --help prints the options.\n";
    return kExitOk;
  }
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
  if (!words.empty() && words.front() == "--needs") {
    std::cout << to_text(needs_of(Arguments(words.begin() + 1, words.end())));
    return kExitOk;
  }
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
  const Subcommand* command = find_command(words.front());
  if (command != nullptr && command->program != kLauncher) return hand_over(*command, words, argv);
  if (words.front() == "test") {
    std::cerr << "meshbed: the launcher builds and runs the tests: ./meshbed test\n";
    return kExitUsage;
  }
  if (words.front() == "install") {
    std::cerr << "meshbed: the launcher builds and installs: ./meshbed install PREFIX\n";
    return kExitUsage;
  }
  std::vector<std::string> names{"help"};
  for (const Subcommand& each : kSubcommands) names.emplace_back(each.name);
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

bool is_command_of_tools(const std::string& name) {
  const Subcommand* command = find_command(name);
  return command != nullptr && command->program == kTools;
}

int become_command(const Arguments& words) {
  std::string name = kMain;
  std::vector<char*> argv{name.data()};
  Arguments copies = words;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  return hand_over(*find_command(words.front()), words, argv.data());
}

int run_program(std::span<const OwnCommand> own, int argc, char** argv) {
  occupy_closed_descriptors();
  ProgressBar bar(stderr);
  if (from_environment("MESHBED_PROGRESS").value_or("") != "off") set_progress_viewer(&bar);
  try {
    return with_output_written(dispatch(own, Arguments(argv + 1, argv + argc), argv));
  } catch (const std::exception& error) {
    std::cerr << "meshbed: " << error.what() << "\n";
    return kExitUsage;
  }
}

}  // namespace meshbed::testbed
