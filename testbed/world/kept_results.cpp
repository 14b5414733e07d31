#include "testbed/world/kept_results.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

class Keeper {
 public:
  void keep_folder(const fs::path& from, const fs::path& to) {
    std::error_code problem;
    fs::create_directory(to, problem);
    if (problem) return say(to, problem);
    fs::directory_iterator entry(from, problem);
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
      keep(entry->path(), to / entry->path().filename());
    }
    if (problem) say(from, problem);
  }

  std::vector<std::string> troubles;

 private:
  void keep(const fs::path& from, const fs::path& to) {
    std::error_code problem;
    const fs::file_type type = fs::symlink_status(from, problem).type();
    // What is written goes into the folder, and not to where a link of an earlier run leads.
    if (fs::is_symlink(fs::symlink_status(to, problem)) && !fs::remove(to, problem)) return say(to, problem);
    problem.clear();
    if (type == fs::file_type::directory) return keep_folder(from, to);
    if (type == fs::file_type::regular) fs::copy_file(from, to, fs::copy_options::overwrite_existing, problem);
    if (type == fs::file_type::symlink) {
      fs::remove(to, problem);
      if (!problem) fs::copy_symlink(from, to, problem);
    }
    if (problem) say(from, problem);
  }

  void say(const fs::path& path, const std::error_code& problem) {
    troubles.push_back(fmt::format("--results: {} is not kept: {}", path.string(), problem.message()));
  }
};

}  // namespace

std::vector<std::string> keep_results(const std::string& folder, const emu::ClusterOutcome& outcome) {
  Keeper keeper;
  for (const emu::NodeOutcome& node : outcome.nodes) {
    std::error_code problem;
    fs::directory_iterator entry(node.folder, problem);
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
      const std::string name = entry->path().filename().string();
      std::error_code gone;
      if (name.rfind("rank-", 0) != 0 || !fs::is_directory(entry->symlink_status(gone))) continue;
      keeper.keep_folder(entry->path(), fs::path(folder) / name);
    }
    if (problem) keeper.troubles.push_back(fmt::format("--results: {}: {}", node.folder, problem.message()));
  }
  return keeper.troubles;
}

namespace {

/// Its regular files that begin as the plugin's reports do (report_text.cpp).
std::vector<fs::path> job_reports_in(const std::string& folder) {
  constexpr std::string_view kBegin = "{\"report\":\"mesh\",";
  std::vector<fs::path> found;
  std::error_code problem;
  for (fs::directory_iterator each(folder, problem), end; !problem && each != end; each.increment(problem)) {
    std::error_code gone;
    if (each->symlink_status(gone).type() != fs::file_type::regular) continue;
    std::ifstream in(each->path(), std::ios::binary);
    std::string begin(kBegin.size(), '\0');
    if (in.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kBegin) {
      found.push_back(each->path());
    }
  }
  return found;
}

}  // namespace

void keep_job_reports(const std::string& folder, const emu::ClusterOutcome& outcome) {
  std::error_code problem;  // a report that cannot be kept is no reason to lose the run
  for (const fs::path& earlier : job_reports_in(folder)) fs::remove(earlier, problem);
  for (const emu::NodeOutcome& node : outcome.nodes) {
    for (const fs::path& report : job_reports_in(node.folder)) {
      fs::copy_file(report, fs::path(folder) / report.filename(), fs::copy_options::overwrite_existing, problem);
    }
  }
}

}  // namespace meshbed::testbed
