#include "cli/fidelity/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "cli/common/closest_name.h"

namespace meshbed::cli {
namespace {

namespace fs = std::filesystem;

std::string lower_case(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

models::Machine machine_or_throw(const models::Profile& profile) {
  Result<models::Machine> machine = models::machine_of(profile);
  if (!machine) throw std::runtime_error(machine.error().text);
  return std::move(*machine);
}

/// How well the profile describes the row; 0: it is not of its class.
double likeness(const MeasuredFile& file, const MeasuredRow& row, const models::Machine& machine) {
  const std::string own_class = lower_case(file.topology_class);
  const bool has_class =
      !own_class.empty() && std::any_of(machine.classes.begin(), machine.classes.end(),
                                        [&](const std::string& each) { return lower_case(each) == own_class; });
  // Point-to-point files have no class: theirs is what the set-up says.
  if (!has_class && !(file.topology_class.empty() && machine.classes.empty())) return 0;
  // A profile of messages and one of collectives may share a class.
  if ((machine.transport == models::Transport::kMessage) != row.point.is_message) return 0;
  // What is told apart from others by words, and has none of them here, is the last choice of its class.
  double score = machine.keywords.empty() && machine.variants.empty() ? 1 : 0.5;
  const std::string told = lower_case(file.set_up + file.source), variant = lower_case(row.variant);
  for (const std::string& keyword : machine.keywords) {
    score += told.find(lower_case(keyword)) != std::string::npos ? 2 : 0;
  }
  double longest = 0;
  for (const std::string& each : machine.variants) {
    if (variant.rfind(lower_case(each), 0) == 0) longest = std::max(longest, static_cast<double>(each.size()));
  }
  constexpr double kSaysMoreThanSetUp = 10;
  return longest > 0 ? score + kSaysMoreThanSetUp + longest : score;
}

}  // namespace

std::string profiles_folder() {
  const std::string here = "models/profiles";
  std::error_code error;
  if (fs::is_directory(here, error)) return here;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.parent_path().parent_path().parent_path() / here;
  if (!error && fs::is_directory(beside, error)) return beside;
  throw std::runtime_error(
      "there is no folder models/profiles here or beside the program; --profile takes a file's path");
}

models::Profile read_profile_file(const std::string& path) {
  Result<models::Profile> profile = models::Profile::read(path);
  if (!profile) throw std::runtime_error(profile.error().text);
  return std::move(*profile);
}

std::vector<models::Profile> read_profile_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<models::Profile> profiles;
  profiles.reserve(paths.size());
  for (const std::string& path : paths) profiles.push_back(read_profile_file(path));
  return profiles;
}

std::vector<models::Machine> read_profiles(const std::string& folder) {
  std::vector<models::Machine> machines;
  for (const models::Profile& profile : read_profile_files(folder)) {
    if (profile.machine_class()) machines.push_back(machine_or_throw(profile));
  }
  return machines;
}

models::Machine find_profile(const std::string& name) { return machine_or_throw(find_profile_file(name)); }

models::Profile find_profile_file(const std::string& name) {
  if (name.find('/') != std::string::npos || name.find(".toml") != std::string::npos) return read_profile_file(name);
  std::vector<std::string> names;
  for (models::Profile& profile : read_profile_files(profiles_folder())) {
    if (profile.name() == name) return std::move(profile);
    names.push_back(profile.name());
  }
  const std::string close = closest_name(name, names);
  throw std::runtime_error(fmt::format("there is no profile \"{}\"{}; there are: {}", name,
                                       close.empty() ? "" : " (did you mean \"" + close + "\"?)",
                                       fmt::join(names, ", ")));
}

std::vector<const models::Machine*> own_profiles(const MeasuredFile& file,
                                                 const std::vector<models::Machine>& profiles) {
  std::map<std::pair<std::string, bool>, const models::Machine*> known;  // by what of a row decides
  std::vector<const models::Machine*> all;
  for (const MeasuredRow& row : file.rows) {
    const auto [place, is_new] = known.try_emplace({row.variant, row.point.is_message}, nullptr);
    if (is_new) {
      double most = 0;
      for (const models::Machine& machine : profiles) {
        const double score = likeness(file, row, machine);
        if (score <= most) continue;
        most = score;
        place->second = &machine;
      }
    }
    all.push_back(place->second);
  }
  return all;
}

std::map<std::string, std::vector<models::Sweep>> sweeps_by_profile(const std::vector<MeasuredFile>& files,
                                                                    const std::vector<models::Machine>& profiles) {
  std::map<std::string, std::vector<models::Sweep>> all;
  for (const MeasuredFile& file : files) {
    std::map<std::string, models::Sweep> of_file;
    const std::vector<const models::Machine*> own = own_profiles(file, profiles);
    for (std::size_t index = 0; index < own.size(); ++index) {
      if (own[index] == nullptr) continue;
      models::Sweep& sweep = of_file[own[index]->name];
      sweep.name = file.name;
      sweep.points.push_back(file.rows[index].point);
    }
    for (auto& [name, sweep] : of_file) all[name].push_back(std::move(sweep));
  }
  return all;
}

}  // namespace meshbed::cli
