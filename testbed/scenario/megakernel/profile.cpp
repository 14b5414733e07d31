// Values of a megakernel's profile for keys that the scenario does not set.

#include "models/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "models/shipped_profiles.h"
#include "testbed/scenario/megakernel/graph_generators.h"
#include "testbed/scenario/megakernel/names.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/scenario.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {
namespace {

struct ProfileTime {
  const char* key;
  Picoseconds Megakernel::*member;
};
constexpr std::array<ProfileTime, 10> kProfileTimes{{{"launch", &Megakernel::launch_ps},
                                                     {"operation_launch", &Megakernel::operation_launch_ps},
                                                     {"publish", &Megakernel::publish_ps},
                                                     {"visibility", &Megakernel::visibility_ps},
                                                     {"claim", &Megakernel::claim_ps},
                                                     {"poll", &Megakernel::poll_ps},
                                                     {"doorbell", &Megakernel::doorbell_ps},
                                                     {"device_doorbell", &Megakernel::device_doorbell_ps},
                                                     {"post", &Megakernel::post_ps},
                                                     {"flag", &Megakernel::flag_ps}}};

/// Whether the profile says anything of a megakernel; others are of what whole collectives take.
bool is_of_megakernels(const models::Profile& profile) {
  const auto has = [&](const char* key) { return profile.parameters().count(key) > 0; };
  return has("credit") || has("memory_rate") || has("sms") || has("blocks_per_sm") ||
         std::any_of(kProfileTimes.begin(), kProfileTimes.end(),
                     [&](const ProfileTime& time) { return has(time.key); });
}

std::string megakernel_profile_names() {
  std::string names;
  for (const std::string& name : models::shipped_profile_names()) {
    const auto profile = models::Profile::parse(*models::shipped_profile(name), name + ".toml");
    if (profile && is_of_megakernels(*profile)) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

Result<models::Profile> read_profile(const std::string& wanted, const std::string& scenario_path) {
  if (const auto shipped = models::shipped_profile(wanted)) {
    return models::Profile::parse(*shipped, wanted + ".toml");
  }
  namespace fs = std::filesystem;
  const fs::path path = fs::path(scenario_path).parent_path() / wanted;
  std::error_code problem;
  if (fs::is_regular_file(path, problem)) return models::Profile::read(path.string());
  return Error{
      .code = ErrorCode::kInvalidArgument,
      .scope = Scope::kJob,
      .text = fmt::format("'{}' is neither a shipped profile of megakernels ({}) nor a file beside the scenario",
                          wanted, megakernel_profile_names())};
}

class ProfileUse {
 public:
  ProfileUse(const MegakernelSpec& said, const models::Profile& profile, Diagnostics& diagnostics, Megakernel& result)
      : said_(said), profile_(profile), diagnostics_(diagnostics), result_(result) {}

  void apply() {
    if (!is_of_megakernels(profile_)) {
      return wrong(fmt::format("{} has no time of a megakernel; those that have: {}", profile_.name(),
                               megakernel_profile_names()));
    }
    for (const auto& [key, member] : kProfileTimes) {
      if (is_wanted(key)) take(key, profile_.time_ps(key), result_.*member);
    }
    if (is_wanted("credit")) take("credit", profile_.time_ps("credit"), result_.credit_ps);
    if (is_wanted("memory_rate")) {
      double gigabytes = 0;
      take("memory_rate", profile_.value("memory_rate", "GB/s"), gigabytes);
      result_.memory_bps = static_cast<std::uint64_t>(std::llround(gigabytes * 1e9));
    }
    count("sms", result_.sms);
    count("blocks_per_sm", result_.blocks_per_sm);
  }

 private:
  bool is_wanted(const std::string& key) const { return !said_.has(key) && profile_.parameters().count(key) > 0; }

  void wrong(const std::string& text) { diagnostics_.add(said_.at("profile"), "profile: " + text); }

  template <typename Value>
  void take(const std::string& key, const Result<Value>& found, Value& out) {
    if (!found) return wrong(found.error().text);
    if (*found < 0) return wrong(key + " is negative");
    out = *found;
    const models::Parameter& parameter = profile_.parameters().at(key);
    std::string source =
        fmt::format("{} in profile {}: {}", models::name_of(parameter.basis), profile_.name(), parameter.source);
    if (parameter.range.first != parameter.range.second) {
      source += fmt::format(" (range {} to {} {})", parameter.range.first, parameter.range.second, parameter.unit);
    }
    result_.sources[key] = source;
  }

  void count(const std::string& key, int& out) {
    constexpr double kMost = 4096;
    if (!is_wanted(key)) return;
    double value = 0;
    take(key, profile_.value(key, "1"), value);
    if (value < 1 || value > kMost) return wrong(fmt::format("{} has to be 1 to {}", key, kMost));
    out = static_cast<int>(value);
  }

  const MegakernelSpec& said_;
  const models::Profile& profile_;
  Diagnostics& diagnostics_;
  Megakernel& result_;
};

}  // namespace

void make_slot_graph(const MegakernelSpec& spec, int ranks, Diagnostics& diagnostics, Scenario& scenario) {
  Megakernel& settings = scenario.workload.megakernel;
  if (scenario.workload.kind != WorkloadKind::kMegakernel || !is_generated_graph(settings) || ranks == 0) return;
  const Result<SlotGraph> graph = generate_slot_graph(scenario.workload, ranks, scenario.path, scenario.seed);
  if (graph) {
    settings.graph = std::make_shared<const SlotGraph>(*graph);
    return;
  }
  const std::string& text = graph.error().text;
  diagnostics.add(spec.at(text.substr(0, text.find(':'))), text);
}

Megakernel megakernel_of(const MegakernelSpec& spec, const std::string& scenario_path, Diagnostics& diagnostics) {
  constexpr std::uint64_t kBitsPerByte = 8;
  Megakernel result = spec.value;
  for (const auto& [text, place] : spec.mix) result.mix.push_back(text);
  result.memory_bps = spec.memory_rate_bps / kBitsPerByte;
  if (!result.recording.empty()) {
    take_recording(spec, (std::filesystem::path(scenario_path).parent_path() / result.recording).string(), diagnostics,
                   result);
  }
  if (is_slot_graph_file(result.program)) {
    const std::string path = (std::filesystem::path(scenario_path).parent_path() / result.program).string();
    try {
      result.graph = std::make_shared<const SlotGraph>(read_slot_graph(path));
      result.tenants = std::max<int>(1, static_cast<int>(result.graph->tenants.size()));
    } catch (const ScenarioError& error) {
      for (const ScenarioProblem& problem : error.problems()) {
        diagnostics.add(spec.at("program"), fmt::format("program: {}: {}", problem.place, problem.text));
      }
    }
  }
  if (!result.profile.empty()) {
    if (const auto profile = read_profile(result.profile, scenario_path)) {
      ProfileUse(spec, *profile, diagnostics, result).apply();
    } else {
      diagnostics.add(spec.at("profile"), "profile: " + profile.error().text);
    }
  }
  // The GPU rings the NIC's doorbell itself, and its WRITE and its atomic are two WQEs, unless the scenario says else.
  if (result.queue == "ibgda" && !spec.has("initiation")) result.initiation = "device";
  if (result.queue == "ibgda" && !spec.has("put_and_signal")) result.fuses = false;
  const auto is_known = [&](const char* key) { return spec.has(key) || result.sources.count(key) > 0; };
  if (!is_known("device_doorbell")) result.device_doorbell_ps = result.doorbell_ps;
  if (!is_known("operation_launch")) result.operation_launch_ps = result.launch_ps;
  return result;
}

}  // namespace meshbed::testbed
