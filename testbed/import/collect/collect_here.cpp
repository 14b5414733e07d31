#include "testbed/import/collect/collect_here.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "emu/shell_quote.h"
#include "testbed/import/collect/collect_script.h"

namespace meshbed::testbed::hosts {

namespace {

std::string default_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"host"};
  const std::string name(host.data());
  return fmt::format("meshbed-collect-{}.tar.gz", name.substr(0, name.find('.')));
}

}  // namespace

void collect_here(const std::string& output, bool quiet) {
  const std::string file = output.empty() ? default_name() : output;
  const std::string command = "sh -s -- " + emu::shell_quote(file) + (quiet ? " 2>/dev/null" : "");
  std::FILE* const shell = popen(command.c_str(), "w");
  if (shell == nullptr) throw std::runtime_error(fmt::format("cannot start sh: {}", std::strerror(errno)));
  const std::string_view script = collect_script();
  const bool is_written = std::fwrite(script.data(), 1, script.size(), shell) == script.size();
  const int status = pclose(shell);
  if (is_written && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw std::runtime_error(fmt::format("collect: the script ended with status {}; the archive {} was not written",
                                       WIFEXITED(status) ? WEXITSTATUS(status) : status, file));
}

}  // namespace meshbed::testbed::hosts
