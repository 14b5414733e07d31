#include "emu/config.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace meshbed::emu {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
  // Guests and helpers start in other folders: a relative path would mean another place there.
  if (const std::string own = variable("MESHBED_EMU_CACHE"); !own.empty()) return std::filesystem::absolute(own);
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty()) return caches + "/meshbed/emu";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/meshbed/emu";
  throw std::runtime_error(
      "no folder for boot images: neither MESHBED_EMU_CACHE nor XDG_CACHE_HOME nor HOME is set; set the first");
}

std::string find_program(const std::string& name) {
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace meshbed::emu
