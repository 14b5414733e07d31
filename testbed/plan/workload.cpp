// The workload of a plan: a collective, a model's decode step, or a scenario's workload.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "models/shipped_profiles.h"
#include "plugin/base/collective.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/files.h"
#include "testbed/plan/plan.h"

namespace meshbed::testbed::plan {
namespace {

constexpr const char* kForms = "all_reduce:64M, decode:NAME or a scenario file";

std::string collective_tables(const Request& request, const std::string& name, const std::string& bytes) {
  const std::string models =
      request.profile.empty() ? "" : fmt::format("[models]\nprofile = \"{}\"\n\n", request.profile);
  return fmt::format(
      "{}[workload]\ncollective = \"{}\"\nbytes = \"{}\"\nwarmup = 1  # the first call makes the connections\n", models,
      name, bytes);
}

template <typename T>
T required(const toml::table& table, const char* key, const std::string& place) {
  const auto value = table[key].value<T>();
  if (!value) throw std::runtime_error(fmt::format("{}: '{}' is missing or of another type", place, key));
  return *value;
}

Decode read_decode(const std::string& name) {
  const auto text = models::shipped_decode(name);
  if (!text) {
    const std::vector<std::string> names = models::shipped_decode_names();
    throw std::runtime_error(fmt::format("--workload decode:{}: there is no models/data/decode/{}.toml; there are: {}",
                                         name, name, fmt::join(names, ", ")));
  }
  const std::string place = fmt::format("models/data/decode/{}.toml", name);
  const toml::table table = toml::parse(*text, place);
  const auto batch = required<std::int64_t>(table, "batch", place),
             hidden = required<std::int64_t>(table, "hidden", place);
  const auto element = required<std::int64_t>(table, "element_bytes", place);
  return {.name = name,
          .layers = static_cast<int>(required<std::int64_t>(table, "layers", place)),
          .calls_per_layer = static_cast<int>(required<std::int64_t>(table, "calls_per_layer", place)),
          .bytes = static_cast<std::uint64_t>(batch * hidden * element),
          .compute_us_per_layer = required<double>(table, "compute_us_per_layer", place),
          .source = required<std::string>(table, "compute_source", place)};
}

/// The plan's scenarios lie elsewhere than the one that names the file.
void make_absolute(const toml::node_view<toml::node>& value, const std::filesystem::path& folder) {
  const auto name = value.value<std::string>();
  if (!name || name->empty()) return;
  const std::filesystem::path file = (folder / *name).lexically_normal();
  if (std::filesystem::is_regular_file(file)) *value.as_string() = file.string();
}

/// Everything of a scenario except its cabling, faults and promises.
void read_tables_of(const std::string& path, Request& request) {
  toml::table table;
  try {
    table = toml::parse(read_text_file(path), path);
  } catch (const toml::parse_error& error) {
    throw std::runtime_error(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
  for (const char* key :
       {"name", "description", "topology", "node", "cable", "switch", "router", "management", "fault", "expect"}) {
    table.erase(key);
  }
  if (!table.contains("workload")) throw std::runtime_error(path + ": has no [workload]; there is nothing to plan for");
  for (const char* place :
       {"workload.program", "workload.recording", "workload.tuning", "workload.nccl", "workload.net_plugin",
        "workload.megakernel.profile", "workload.megakernel.recording", "models.profile"}) {
    make_absolute(table.at_path(place), std::filesystem::absolute(path).parent_path());
  }
  if (!request.profile.empty()) {
    table.insert_or_assign("models", toml::table{{"profile", request.profile}});
  }
  const toml::node_view<toml::node> workload = table["workload"];
  request.is_collective = workload["kind"].value_or(std::string("collective")) == "collective" &&
                          !workload["algorithm"] && !workload["protocol"];
  std::ostringstream text;
  text << table << "\n";
  request.workload = text.str();
}

}  // namespace

void read_workload(const std::string& text, Request& request) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon), rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "decode" && colon != std::string::npos) {
    request.decode = read_decode(rest);
    request.workload = collective_tables(request, "all_reduce", std::to_string(request.decode->bytes));
    request.is_collective = true;
    return;
  }
  std::vector<std::string> names;
  for (int number = 0; number < kCollectiveCount; ++number)
    names.emplace_back(name_of(static_cast<Collective>(number)));
  if (std::find(names.begin(), names.end(), kind) != names.end()) {
    if (rest.empty())
      throw std::runtime_error(fmt::format("--workload {}: the size is missing; give {}:64M", text, kind));
    request.workload = collective_tables(request, kind, rest);
    request.is_collective = true;
    return;
  }
  if (!std::filesystem::is_regular_file(text)) {
    const std::string close = colon == std::string::npos ? "" : closest_name(kind, names);
    throw std::runtime_error(fmt::format("--workload {}: there is no such file or collective{}; expects {}", text,
                                         close.empty() ? "" : fmt::format(" (did you mean {}:{}?)", close, rest),
                                         kForms));
  }
  read_tables_of(text, request);
}

}  // namespace meshbed::testbed::plan
