// The cost of a scenario's software: the class of machines that [models] names.

#include <fmt/format.h>

#include <filesystem>

#include "models/shipped_profiles.h"
#include "models/time/machine_profile.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {
namespace {

/// Why no run can have it; empty: one can. Single adapters, and what is of device rings alone, say nothing of
/// collectives; one node's times are those of links that a scenario does not have.
std::string no_run_has(const models::Machine& machine) {
  if (machine.transport == models::MachineTransport::kMessage)
    return "is of single messages, and says nothing of collectives";
  if (machine.transport == models::MachineTransport::kExpert)
    return "is of dispatch and combine of experts, which no run has";
  if (machine.transport == models::MachineTransport::kWithin) return "is of one node, whose inner links no run has";
  return "";
}

/// NCCL on Sparks that are joined so, as it was measured. Three around a triangle are a ring of three: the class of
/// that name (spark-mesh3-plugin) is of another net plugin.
std::string spark_class(const models::Cluster& cluster) {
  if (!cluster.switches.empty()) return "spark-switch-200g";
  return cluster.nodes.size() == 2 ? "spark-pair-200g" : "spark-ring-nccl-graph";
}

std::vector<std::string> class_names() {
  std::vector<std::string> names{kIdealProfile, models::kSparkFamily};
  for (const std::string& name : models::shipped_profile_names()) {
    const auto profile = models::Profile::parse(*models::shipped_profile(name), name + ".toml");
    if (!profile || !profile->machine_class()) continue;
    const auto machine = models::machine_of(*profile);
    if (machine && no_run_has(*machine).empty()) names.push_back(name);
  }
  return names;
}

Result<models::Machine> read_machine(const std::string& wanted, const std::string& scenario_path) {
  namespace fs = std::filesystem;
  const auto refused = [](std::string text) {
    return Error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text)};
  };
  Result<models::Profile> profile = refused("");
  if (const auto shipped = models::shipped_profile(wanted)) {
    profile = models::Profile::parse(*shipped, wanted + ".toml");
  } else {
    const fs::path path = fs::path(scenario_path).parent_path() / wanted;
    std::error_code problem;
    if (!fs::is_regular_file(path, problem)) {
      const std::vector<std::string> names = class_names();
      const std::string close = closest_name(wanted, names);
      return refused(fmt::format(
          "'{}' is neither a profile of a class of machines{} nor a file beside the scenario; "
          "there are: {}",
          wanted, close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close), fmt::join(names, ", ")));
    }
    profile = models::Profile::read(path.string());
  }
  if (!profile) return profile.error();
  if (!profile->machine_class()) {
    return refused(profile->name() + " has only values, and is not a class of machines; of megakernels it is " +
                   "workload.megakernel.profile");
  }
  auto machine = models::machine_of(*profile);
  if (const std::string why = machine ? no_run_has(*machine) : ""; !why.empty()) {
    return refused(fmt::format("{} {}; there are: {}", profile->name(), why, fmt::join(class_names(), ", ")));
  }
  return machine;
}

}  // namespace

Software software_of(const ModelsSpec& spec, const WorkloadSpec& workload, const std::string& scenario_path,
                     const models::Cluster& cluster, Diagnostics& diagnostics) {
  Software software;
  software.profile = spec.profile == models::kSparkFamily ? spark_class(cluster) : spec.profile;
  if (spec.profile == kIdealProfile) return software;
  if (workload.value.kind == WorkloadKind::kMegakernel) {
    diagnostics.add(spec.at("profile"), "profile: megakernels have times of their own: workload.megakernel.profile");
    return software;
  }
  const auto machine = read_machine(software.profile, scenario_path);
  if (!machine) {
    diagnostics.add(spec.at("profile"), "profile: " + machine.error().text);
    return software;
  }
  software.machine = std::make_shared<const models::Machine>(*machine);
  software.own_protocol = !workload.has("protocol") || workload.value.protocol == "auto";
  return software;
}

}  // namespace meshbed::testbed
