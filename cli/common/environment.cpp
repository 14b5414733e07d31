#include "cli/common/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace meshbed::cli {

std::optional<std::string> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string program_in_path(const std::string& command, const std::string& name) {
  if (name.find('/') != name.npos) return name;
  const std::string folders = from_environment("PATH").value_or("");
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t colon = std::min(folders.find(':', begin), folders.size());
    const std::string file = folders.substr(begin, colon - begin) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    begin = colon + 1;
  }
  throw std::runtime_error(fmt::format("{}: {}: no such program in PATH; name it with its folder", command, name));
}

}  // namespace meshbed::cli
