#include "cli/fidelity/peers.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/fidelity/profiles.h"

namespace meshbed::cli {

std::vector<MeasuredFile> read_measured_folder() {
  std::vector<std::string> paths;
  const std::filesystem::path folder = std::filesystem::path(profiles_folder()).parent_path() / "data";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
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

}  // namespace meshbed::cli
