#include "plugin/verbs/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace meshbed::verbs {
namespace {

/// Folds "." and ".." of an absolute path.
std::string fold(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  std::string folded;
  for (const std::string& part : parts) folded += "/" + part;
  return folded;
}

}  // namespace

std::optional<std::string> read_line(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[256];
  const ssize_t length = ::read(file, text, sizeof text);
  ::close(file);
  if (length < 0) return std::nullopt;
  std::string line(text, static_cast<std::size_t>(length));
  line.resize(std::min(line.find('\n'), line.size()));
  return line;
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> resolve_link(const std::string& path) {
  char target[1024];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length <= 0 || static_cast<std::size_t>(length) == sizeof target) return std::nullopt;
  const std::string text(target, static_cast<std::size_t>(length));
  if (text.front() == '/') return fold(text);
  return fold(path.substr(0, path.rfind('/') + 1) + text);
}

std::uint32_t interface_speed_mbps(const std::string& netdev) {
  const auto speed = read_line("/sys/class/net/" + netdev + "/speed");
  const long mbps = speed ? std::strtol(speed->c_str(), nullptr, 10) : 0;
  return mbps > 0 ? static_cast<std::uint32_t>(mbps) : 0;
}

}  // namespace meshbed::verbs
