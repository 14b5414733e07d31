#include "tests/support/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace meshbed::test {

namespace {

/// Of all commands that a test starts: on a busy machine a run takes longer than the ten seconds after which it says
/// how far it is, and what it says is compared.
[[maybe_unused]] const int g_quiet = setenv("MESHBED_PROGRESS", "off", 1);

}  // namespace

CommandResult run_command_line(const std::string& command_line) {
  std::FILE* pipe = popen(command_line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command_line);
  CommandResult result;
  std::array<char, 4096> block{};
  for (std::size_t size = 0; (size = std::fread(block.data(), 1, block.size(), pipe)) > 0;) {
    result.output.append(block.data(), size);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string meshbed_program() { return "'" + std::string(MESHBED_BINARY_DIR) + "/bin/meshbed'"; }

std::string scenario_file(const std::string& name) {
  return "'" + std::string(MESHBED_SOURCE_DIR) + "/scenarios/" + name + ".toml'";
}

std::string scratch_folder(const std::string& name) {
  namespace fs = std::filesystem;
  // Of this process: two runs of one suite do not share it, and it goes when the suite ends.
  struct Root {
    fs::path path = fs::path(MESHBED_BINARY_DIR) / "scratch" / std::to_string(getpid());
    ~Root() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Root root;
  const fs::path folder = root.path / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

}  // namespace meshbed::test
