#include "testbed/base/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

#include "emu/config.h"

namespace meshbed::testbed {

std::optional<std::string> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string program_in_path(const std::string& command, const std::string& name) {
  if (name.find('/') != name.npos) return name;
  if (const std::string file = emu::find_program(name); !file.empty()) return file;
  throw std::runtime_error(fmt::format("{}: {}: no such program in PATH; name it with its folder", command, name));
}

}  // namespace meshbed::testbed
