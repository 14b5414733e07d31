#include "testbed/fidelity/peers.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

/// Here, or beside the built program's tree.
fs::path measured_folder() {
  const fs::path here = "models/data";
  std::error_code error;
  if (fs::is_directory(here, error)) return here;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.parent_path().parent_path().parent_path() / here;
  if (!error && fs::is_directory(beside, error)) return beside;
  throw std::runtime_error(
      "there is no folder models/data here or beside the program: call it in the project's folder");
}

}  // namespace

std::vector<MeasuredFile> read_measured_folder() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(measured_folder())) {
    if (entry.path().extension() == ".csv" && entry.path().string().find("perftest_points") == std::string::npos) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<MeasuredFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back(read_measured_file(path, {}));
  return files;
}

std::vector<models::Peer> peers_among(const std::vector<MeasuredFile>& files,
                                      const std::vector<models::Machine>& profiles) {
  std::vector<MeasuredFile> usable;
  std::copy_if(files.begin(), files.end(), std::back_inserter(usable),
               [](const MeasuredFile& file) { return !file.quality.empty() && file.quality.front() != 'D'; });
  std::map<std::string, std::vector<models::Sweep>> sweeps = sweeps_by_profile(usable, profiles);
  std::vector<models::Peer> peers;
  for (const models::Machine& machine : profiles) {
    const auto own = sweeps.find(machine.name);
    if (own != sweeps.end()) peers.push_back({machine, std::move(own->second)});
  }
  return peers;
}

}  // namespace meshbed::testbed
