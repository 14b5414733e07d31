#include "testbed/result/results_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "plugin/base/descriptor.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

/// In the order in which they leave; they come in the reverse order.
constexpr std::array<const char*, 4> kFileNames{"summary.json", "provenance.json", "messages.csv", "slots.csv"};
constexpr std::string_view kPartial = ".partial-";

std::string partial_path(const std::string& folder, const std::string& name) {
  return fmt::format("{}/{}{}{}", folder, name, kPartial, getpid());
}

/// "messages.csv.partial-4711" of a process that is no more.
bool is_left_over(const std::string& file_name) {
  const auto at = file_name.find(kPartial);
  if (at == std::string::npos ||
      std::find(kFileNames.begin(), kFileNames.end(), file_name.substr(0, at)) == kFileNames.end()) {
    return false;
  }
  const char* const end = file_name.data() + file_name.size();
  pid_t process = 0;
  const auto [stop, problem] = std::from_chars(file_name.data() + at + kPartial.size(), end, process);
  if (problem != std::errc() || stop != end || process <= 0) return false;
  // Our own number is that of an earlier process: we have written nothing yet.
  return process == getpid() || (kill(process, 0) != 0 && errno == ESRCH);
}

void remove_left_over(const std::string& folder) {
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    std::error_code ignored;  // a file that cannot go now goes with a later run
    if (is_left_over(entry.path().filename())) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

std::string variant_name(const std::string& scenario_name, const std::vector<std::string>& settings) {
  constexpr std::size_t kLengthMax = 120;
  constexpr std::string_view kKept = ".-_=,:@%^";
  if (settings.empty()) return scenario_name;
  const std::string all = fmt::format("+{}", fmt::join(settings, "+"));
  std::string name = all;
  for (char& letter : name) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '+' || kKept.find(letter) != kKept.npos;
    if (!plain) letter = '_';
  }
  if (name.size() > kLengthMax) name.resize(kLengthMax);
  if (name != all) name += fmt::format("-{:016x}", XXH3_64bits(all.data(), all.size()));
  return scenario_name + name;
}

ResultsFolder::ResultsFolder(const std::string& results, const std::string& scenario_name, const std::string& world)
    : path_(results + "/" + scenario_name + "/" + world) {
  if (results.empty()) throw std::runtime_error("--results is empty; name a folder, as in --results results");
  std::error_code problem;
  fs::path made;
  for (const fs::path& part : fs::path(path_)) {
    made /= part;
    if (!fs::exists(made, problem)) unfinished_.emplace_back(made);
  }
  fs::create_directories(path_, problem);
  if (!problem && access(path_.c_str(), W_OK) != 0) problem.assign(errno, std::generic_category());
  if (problem) {
    throw std::runtime_error(fmt::format("--results {}: cannot write to {}: {}; name a folder that you may write to",
                                         results, path_, problem.message()));
  }
  remove_left_over(path_);
}

ResultsFolder::~ResultsFolder() {
  std::error_code ignored;
  for (const std::string& name : written_) fs::remove(partial_path(path_, name), ignored);
}

std::string ResultsFolder::aside(const std::string& name) {
  const std::string path = partial_path(path_, name);
  if (std::find(written_.begin(), written_.end(), name) == written_.end()) {
    written_.push_back(name);
    unfinished_.emplace_back(path);
  }
  return path;
}

void ResultsFolder::publish() {
  const auto done = [&](const char* verb, const std::string& name, const std::error_code& problem) {
    if (!problem) return;
    throw std::runtime_error(
        fmt::format("cannot {} {}/{}: {}; this run's results are not kept", verb, path_, name, problem.message()));
  };
  const HeldInterruption whole;
  std::error_code problem;
  // One publisher at a time: two would mix their files. The lock goes with the descriptor.
  const Descriptor folder(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() || flock(folder.number(), LOCK_EX) != 0) problem.assign(errno, std::generic_category());
  done("lock", ".", problem);
  for (const std::string name : kFileNames) {
    // Before anything goes: a folder in a file's place would stop us half way.
    if (fs::is_directory(path_ + "/" + name)) done("replace", name, std::make_error_code(std::errc::is_a_directory));
  }
  for (const std::string name : kFileNames) {
    fs::remove(path_ + "/" + name, problem);
    done("replace", name, problem);
  }
  for (auto name = kFileNames.rbegin(); name != kFileNames.rend(); ++name) {
    const auto written = std::find(written_.begin(), written_.end(), *name);
    if (written == written_.end()) continue;
    fs::rename(partial_path(path_, *name), path_ + "/" + *name, problem);
    done("write", *name, problem);
    written_.erase(written);
  }
  unfinished_.clear();
}

}  // namespace meshbed::testbed
