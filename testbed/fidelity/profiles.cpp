#include "testbed/fidelity/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "models/shipped_profiles.h"
#include "testbed/base/closest_name.h"
#include "testbed/fidelity/gates.h"

namespace meshbed::testbed {
namespace {

template <typename Value>
Value or_throw(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

bool row_is_of_other_links(const MeasuredFile& file, const MeasuredRow& row, const models::Machine& machine) {
  if (machine.transport != models::MachineTransport::kWithin) return false;
  const auto own = gates_of(file, row).link_GBps, its = gates_of(machine).link_GBps;
  constexpr double kSame = 1.05;
  return own && its && std::max(*own / *its, *its / *own) > kSame;
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
  if (!models::is_of_kind(machine, row.point)) return 0;
  // What words distinguish from others, and what has none of them here, is the last choice of its class.
  double score = machine.keywords.empty() && machine.variants.empty() ? 1 : 0.5;
  const std::string words = lower_case(file.set_up + file.source), variant = lower_case(row.variant);
  bool has_keyword = false;
  for (const std::string& keyword : machine.keywords) {
    if (words.find(lower_case(keyword)) == std::string::npos) continue;
    score += 2;
    has_keyword = true;
  }
  // A class's text names links and no GPU: another generation's are another class.
  if (row_is_of_other_links(file, row, machine)) return 0;
  // Without a class to compare, words alone do not make it one: its rate, library and directions have to fit, too.
  if (!has_class && (!has_keyword || !gate_failure(gates_of(file, row), gates_of(machine)).empty())) return 0;
  double longest = 0;
  for (const std::string& each : machine.variants) {
    if (variant.rfind(lower_case(each), 0) == 0) longest = std::max(longest, static_cast<double>(each.size()));
  }
  constexpr double kSaysMoreThanSetUp = 10;
  return longest > 0 ? score + kSaysMoreThanSetUp + longest : score;
}

}  // namespace

std::vector<models::Profile> shipped_profiles() {
  std::vector<models::Profile> profiles;
  for (const std::string& name : models::shipped_profile_names()) {
    profiles.push_back(or_throw(models::Profile::parse(*models::shipped_profile(name), name + ".toml")));
  }
  return profiles;
}

std::vector<models::Machine> shipped_machines() {
  std::vector<models::Machine> machines;
  for (const models::Profile& profile : shipped_profiles()) {
    if (profile.machine_class()) machines.push_back(machine_of_profile(profile));
  }
  return machines;
}

models::Profile find_profile(const std::string& name) {
  if (const auto shipped = models::shipped_profile(name)) {
    return or_throw(models::Profile::parse(*shipped, name + ".toml"));
  }
  if (name.find('/') != std::string::npos || name.find(".toml") != std::string::npos) {
    return or_throw(models::Profile::read(name));
  }
  const std::vector<std::string> names = models::shipped_profile_names();
  if (name == models::kSparkFamily) {
    throw std::runtime_error(
        fmt::format("\"{}\" is what a scenario's cables make of it (spark-pair-200g, spark-ring-nccl-graph, "
                    "spark-switch-200g); name one here",
                    name));
  }
  const std::string close = closest_name(name, names);
  throw std::runtime_error(fmt::format("there is no profile \"{}\"{}; there are: {}", name,
                                       close.empty() ? "" : " (did you mean \"" + close + "\"?)",
                                       fmt::join(names, ", ")));
}

models::Machine machine_of_profile(const models::Profile& profile) { return or_throw(models::machine_of(profile)); }

models::CollectiveCall call_on(const models::Machine& machine, models::Collective collective, std::uint64_t bytes,
                               std::optional<int> ranks) {
  models::CollectiveCall call{.collective = collective, .bytes = bytes};
  int nodes = machine.cabling == models::Cabling::kRing ? 4 : 2;
  if (machine.transport == models::MachineTransport::kWithin) nodes = 1;
  call.ranks = ranks.value_or(std::max(2, nodes * machine.ranks_per_node));
  call.nodes = models::nodes_of(machine, call.ranks);
  if (is_one_shot(machine)) call.algorithm = models::CollectiveAlgorithm::kDirect;
  return call;
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

}  // namespace meshbed::testbed
