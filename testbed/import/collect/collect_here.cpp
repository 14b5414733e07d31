#include "testbed/import/collect/collect_here.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "emu/shell_quote.h"
#include "testbed/import/collect/collect_script.h"

namespace meshbed::testbed::hosts {

void collect_here(const std::string& output) {
  const std::string command = "sh -s --" + (output.empty() ? "" : " " + emu::shell_quote(output));
  std::FILE* const shell = popen(command.c_str(), "w");
  if (shell == nullptr) throw std::runtime_error(fmt::format("cannot start sh: {}", std::strerror(errno)));
  const std::string_view script = collect_script();
  const bool is_written = std::fwrite(script.data(), 1, script.size(), shell) == script.size();
  const int status = pclose(shell);
  if (is_written && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw std::runtime_error(fmt::format("collect: the script ended with status {}; the archive {} was not written",
                                       WIFEXITED(status) ? WEXITSTATUS(status) : status,
                                       output.empty() ? "in this folder" : output));
}

}  // namespace meshbed::testbed::hosts
