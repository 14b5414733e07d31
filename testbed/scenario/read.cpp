// Reading a scenario: text, then table, overrides, sections, cluster, checks. Each stage reports all it can find; the
// first stage with errors ends the reading, because later ones would only repeat them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "models/toml_keys.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/build.h"
#include "testbed/scenario/characters.h"
#include "testbed/scenario/check.h"
#include "testbed/scenario/megakernel/rank_ring.h"
#include "testbed/scenario/override.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/scenario.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {
namespace {

/// A scenario is a page; what is larger is another file given by mistake.
constexpr std::size_t kFileBytesMax = 16 * kMiB;

/// What is cabled how; the rest of a file is what runs on it.
constexpr std::array<const char*, 6> kCablingSections{"topology", "node", "cable", "switch", "router", "management"};

/// The machines of the scenario file `path`, in place of those in `root`.
void take_cabling(toml::table& root, const std::string& path) {
  toml::table other = parse_toml(read_scenario_text(path), path);
  for (const char* section : kCablingSections) {
    root.erase(section);
    if (toml::node* node = other.get(section)) root.insert(section, std::move(*node));
  }
}

void apply_overrides(toml::table& root, const std::vector<std::string>& overrides,
                     std::vector<GeneratedName>& generated, Diagnostics& diagnostics) {
  const std::string cabling = std::string(kCablingKey) + "=";
  for (const std::string& argument : overrides) {
    if (argument.rfind(cabling, 0) == 0) {
      take_cabling(root, argument.substr(cabling.size()));
    } else {
      apply_override(root, argument, generated, diagnostics);
    }
  }
}

/// The scenario files that lie in a folder, by name.
std::vector<std::string> scenario_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void refuse_unless_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  switch (status.type()) {
    case std::filesystem::file_type::regular:
      return;
    case std::filesystem::file_type::directory:
      throw UnreadableScenario(
          path, "this is a folder; name one of its scenario files: " + list_names(scenario_files_in(path)));
    case std::filesystem::file_type::not_found:
      throw UnreadableScenario(path, "there is no such file");
    case std::filesystem::file_type::none:
      throw UnreadableScenario(path, "cannot be read: " + error.message());
    default:
      throw UnreadableScenario(path, "this is not a regular file; a scenario is a TOML file");
  }
}

/// results/NAME/ is made from it, so a file's odd name is no excuse for an odd path.
std::string name_from(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  for (char& letter : stem) {
    if (name_problem(std::string(1, letter)) && letter != '-' && letter != '.') letter = '_';
  }
  return name_problem(stem) ? "scenario" : stem;
}

Scenario assemble(const ScenarioSpec& spec, const std::string& file, const models::Cluster& cluster,
                  Diagnostics& diagnostics) {
  Scenario scenario;
  scenario.name = spec.has("name") ? spec.name : name_from(file);
  scenario.path = file;
  scenario.description = spec.description;
  for (const auto& each : spec.assumed) scenario.assumed.push_back(each.value);
  scenario.seed = spec.seed;
  scenario.workload = spec.workload.value;
  // As nccl-tests: connections that are made on first use are no part of a collective's time.
  if (scenario.workload.kind == WorkloadKind::kCollective && !spec.workload.has("warmup")) scenario.workload.warmup = 1;
  scenario.workload.megakernel = megakernel_of(spec.workload.megakernel, file, diagnostics);
  scenario.software = software_of(spec.models, spec.workload, file, cluster, diagnostics);
  scenario.fabric = spec.fabric.kind;
  scenario.fold = spec.fabric.fold;
  scenario.replay_detail = spec.replay.detail;
  scenario.replay_schedule = spec.replay.schedule;
  scenario.time_limit_s = static_cast<double>(spec.limits.time_ps) / static_cast<double>(kPicosecondsPerSecond);
  for (const auto& fault : spec.faults) scenario.faults.push_back(fault.value);
  scenario.expect = spec.expect.value;
  return scenario;
}

}  // namespace

toml::table parse_toml(const std::string& text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw ScenarioError(file, "the file is empty; a scenario has at least [topology] or [[node]]");
  }
  if (const auto place = misplaced_character(text)) {
    Diagnostics diagnostics(file);
    diagnostics.add(*place, "not TOML: a character that is not ASCII, outside of one-line texts and comments");
    diagnostics.throw_if_any();
  }
  if (const auto place = overlong_key_place(text)) {
    Diagnostics diagnostics(file);
    diagnostics.add(*place, fmt::format("a key has more than {} parts; no key of a scenario has more than 5",
                                        models::kKeyPartsMax));
    diagnostics.throw_if_any();
  }
  try {
    return toml::parse(text, std::string(file));
  } catch (const toml::parse_error& error) {
    Diagnostics diagnostics(file);
    diagnostics.add(error.source(), fmt::format("not TOML: {}", error.description()));
    diagnostics.throw_if_any();
    throw;  // not reached: there is an error now
  }
}

toml::table parse_default(const char* initial) { return toml::parse(std::string("value = ") + initial); }

void refuse_key(const toml::key& key, const toml::node& node, const char* heading,
                const std::vector<std::string>& accepted, Diagnostics& diagnostics) {
  // A key that --set added has no place of its own; its value has.
  const Place& place = key.source().begin ? key.source() : node.source();
  const std::string name(key.str().substr(0, 64));
  const std::string close = closest_name(name, accepted);
  diagnostics.add(place,
                  fmt::format("unknown key '{}' in {}{}; accepted: {}", name, heading,
                              close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close), list_names(accepted)));
}

Scenario parse_scenario(const std::string& text, const std::string& name_for_errors,
                        const std::vector<std::string>& overrides) {
  toml::table table = parse_toml(text, name_for_errors);
  Diagnostics diagnostics(name_for_errors);
  ScenarioSpec spec;
  apply_overrides(table, overrides, spec.generated_names, diagnostics);
  diagnostics.throw_if_any();

  read_section(table, spec, diagnostics);
  diagnostics.throw_if_any();

  if (!spec.topology.has("rate")) {
    constexpr std::uint64_t kDefaultBps = 100'000'000'000;
    const bool is_spark = layout_of(spec.topology) != models::NicLayout::kSeparate;
    spec.topology.rate_bps = is_spark ? models::kSparkPortBps : kDefaultBps;
  }
  Built built = build_cluster(spec, diagnostics);
  diagnostics.throw_if_any();

  check_cluster(built, diagnostics);
  check_addresses(built, spec, diagnostics);
  Scenario scenario = assemble(spec, name_for_errors, built.cluster, diagnostics);
  scenario.cluster = std::move(built.cluster);
  scenario.overrides = overrides;
  place_ranks(spec, scenario, diagnostics);
  diagnostics.throw_if_any();
  choose_forward(scenario);
  make_slot_graph(spec.workload.megakernel, ranks_of(scenario), diagnostics, scenario);
  diagnostics.throw_if_any();
  check_run(scenario, spec, diagnostics);
  diagnostics.throw_if_any();
  return scenario;
}

std::string read_scenario_text(const std::string& path) {
  refuse_unless_file(path);
  std::error_code error;
  if (std::filesystem::file_size(path, error) > kFileBytesMax) {
    throw UnreadableScenario(path, "larger than 16 MiB; this is not a scenario");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw UnreadableScenario(path, std::string("cannot be read: ") + std::strerror(errno));
  return text.str();
}

Scenario read_scenario(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_scenario(read_scenario_text(path), path, overrides);
}

std::optional<std::string> value_of_key(const std::string& text, const std::vector<std::string>& overrides,
                                        const std::string& key) {
  toml::table table = parse_toml(text, "scenario");
  Diagnostics diagnostics("scenario");
  std::vector<GeneratedName> generated;
  apply_overrides(table, overrides, generated, diagnostics);
  const toml::node* node = find_value(table, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* words = node->as_string()) return words->get();
  std::ostringstream written;
  node->visit([&](const auto& value) { written << value; });
  return written.str();
}

std::string path_beside(const Scenario& scenario, const std::string& name) {
  return (std::filesystem::path(scenario.path).parent_path() / name).string();
}

}  // namespace meshbed::testbed
