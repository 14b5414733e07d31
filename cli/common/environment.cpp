#include "cli/common/environment.h"

#include <cstdlib>

namespace meshbed::cli {

std::optional<std::string> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace meshbed::cli
