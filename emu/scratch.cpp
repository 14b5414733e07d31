#include "emu/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace meshbed::emu {
namespace {

namespace fs = std::filesystem;

/// "PURPOSE.4711.aBcDeF" of a process that is no more.
bool is_left_over(const std::string& name, const std::string& purpose) {
  if (name.rfind(purpose + ".", 0) != 0) return false;
  const char* const start = name.data() + purpose.size() + 1;
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  const auto [stop, problem] = std::from_chars(start, end, process);
  if (problem != std::errc() || stop == end || *stop != '.' || process <= 0) return false;
  return process != getpid() && kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

Scratch::Scratch(const std::string& folder, const std::string& purpose) {
  make_folder(folder);
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    std::error_code ignored;  // another process may be removing it too
    if (is_left_over(entry.path().filename(), purpose)) fs::remove_all(entry.path(), ignored);
  }
  std::string name = fmt::format("{}/{}.{}.{}", folder, purpose, getpid(), std::string(6, 'X'));
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(fmt::format("cannot make a folder in {}: {}; is it writable, and is there space?", folder,
                                         std::generic_category().message(errno)));
  }
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

void make_folder(const std::string& path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  if (problem) throw std::runtime_error(fmt::format("cannot make the folder {}: {}", path, problem.message()));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path));
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw std::runtime_error(fmt::format("cannot write {}; is the disk full?", path));
}

Descriptor create_file(const std::string& path) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    throw std::runtime_error(fmt::format("cannot write {}: {}", path, std::generic_category().message(errno)));
  }
  return file;
}

}  // namespace meshbed::emu
