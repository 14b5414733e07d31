#include "sim/host/load/stack_trace.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "sim/host/load/elf_image.h"
#include "sim/perfetto/demangled.h"

namespace meshbed::sim {
namespace {

struct Frame {
  const std::byte* address = nullptr;
  std::string path{};        // of the copied file; empty: the address is in none
  std::uintptr_t place = 0;  // in that file
  std::string text{};
};

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// What the program prints; empty where it cannot be run.
std::string output_of(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const bool runs = ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  char bytes[4096];
  while (runs) {
    const ssize_t count = ::read(ends[0], bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(bytes, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  while (runs && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return text;
}

/// addr2line prints two lines for each address: the function, and its "file:line".
void add_lines(const std::string& path, std::vector<Frame>& frames) {
  std::vector<std::string> words{"addr2line", "-f", "-C", "-e", path};
  std::vector<Frame*> of_path;
  for (Frame& frame : frames) {
    if (frame.path != path) continue;
    words.push_back(fmt::format("{:#x}", frame.place));
    of_path.push_back(&frame);
  }
  std::istringstream lines(output_of(std::move(words)));
  for (Frame* frame : of_path) {
    std::string function, line;
    if (!std::getline(lines, function) || !std::getline(lines, line)) return;
    if (function.empty() || function == "??") continue;
    const std::string place = name_of(line.substr(0, line.find(' ')));  // cuts off " (discriminator 2)"
    const bool has_line = !place.starts_with("??") && !place.ends_with(":?") && !place.ends_with(":0");
    frame->text = has_line ? fmt::format("{} ({})", function, place) : fmt::format("{} in {}", function, name_of(path));
  }
}

std::string linker_text(const Frame& frame) {
  Dl_info info{};
  const bool known = ::dladdr(frame.address, &info) != 0;
  const std::string file = !frame.path.empty()                  ? name_of(frame.path)
                           : known && info.dli_fname != nullptr ? name_of(info.dli_fname)
                                                                : "";
  if (known && info.dli_sname != nullptr) return fmt::format("{} in {}", demangled(info.dli_sname), file);
  if (!frame.path.empty()) return fmt::format("{}+{:#x}", file, frame.place);
  return file.empty() ? fmt::format("{}, which is in no file", static_cast<const void*>(frame.address)) : file;
}

}  // namespace

bool is_in_copy(const ProcessState& state, const void* address) {
  // The search allocates nothing and takes no lock [glibc manual, "Dynamic Linker Introspection"].
  dl_find_object found{};
  if (::_dl_find_object(const_cast<void*>(address), &found) != 0) return false;
  return std::any_of(state.libraries.begin(), state.libraries.end(),
                     [&](const auto& library) { return library.second == found.dlfo_link_map; });
}

std::vector<std::string> frame_texts(const ProcessState& state, std::span<const void* const> addresses,
                                     bool first_is_exact) {
  std::vector<Frame> frames;
  std::size_t own_end = 0;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    Frame frame{.address = static_cast<const std::byte*>(addresses[at])};
    if (at > 0 || !first_is_exact) --frame.address;
    for (const auto& [path, handle] : state.libraries) {
      const ElfImage image(handle);
      if (!image.holds(frame.address)) continue;
      frame.path = path;
      frame.place = static_cast<std::uintptr_t>(frame.address - image.at(0));
      own_end = at + 1;
    }
    frames.push_back(std::move(frame));
  }
  if (own_end > 0) frames.resize(own_end);
  for (Frame& frame : frames) frame.text = linker_text(frame);
  std::set<std::string> paths;
  for (const Frame& frame : frames) {
    if (!frame.path.empty()) paths.insert(frame.path);
  }
  for (const std::string& path : paths) add_lines(path, frames);
  std::vector<std::string> texts;
  for (Frame& frame : frames) texts.push_back(std::move(frame.text));
  return texts;
}

}  // namespace meshbed::sim
