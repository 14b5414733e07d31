#include "plugin/net/process/config.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/base/name_list.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kFastTimeout = 14;  // 67 ms
constexpr std::int64_t kFastRetries = 3;

void warn_about(const Config& config, const Setting& setting) {
  const VariableInfo& variable = *setting.variable;
  const auto of = [&config](Variable other) -> const Setting& { return config.at(other); };
  if (const std::string complaint = complaint_of(setting, of); !complaint.empty()) {
    MESHBED_WARN("%s", complaint.c_str());
  }
  // NCCL_SOCKET_IFNAME and the like are for others, too; only our own names deserve a warning.
  const bool changed = setting.source == ValueSource::kEnvironment &&
                       (variable.kind == ValueKind::kText || setting.number != variable.default_value);
  if (changed && !variable.effective && std::string_view(variable.name).substr(0, 10) == "NCCL_MESH_") {
    MESHBED_WARN("%s=%s has no effect: %s", variable.name, setting.text.c_str(), variable.meaning);
  }
}

/// "name:port:rail:plane", each but the first may be missing.
struct Entry {
  std::string_view name, port, rail, plane;
};

Entry split(std::string_view text) {
  const auto cut = [&text] {
    const std::size_t end = std::min(text.find(':'), text.size());
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return first;
  };
  Entry entry;
  entry.name = cut();
  entry.port = cut();
  entry.rail = cut();
  entry.plane = text;
  return entry;
}

/// -1: it is no number from 0 to 32767.
std::int16_t identity(std::string_view text) {
  int number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || (number = 10 * number + (digit - '0')) > INT16_MAX) return -1;
  }
  return static_cast<std::int16_t>(text.empty() ? -1 : number);
}

bool is_port(std::string_view text) {
  constexpr int kLargest = UINT8_MAX;
  const int number = identity(text);
  return number >= 1 && number <= kLargest && text == std::to_string(number);
}

std::string entry_problem(std::string_view text) {
  const Entry entry = split(text);
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (entry.name.empty()) return quoted + " has no name, and is left out";
  if (!entry.port.empty() && !is_port(entry.port)) {
    return quoted + " fits no port, for they are numbered from 1 to 255: \"" + std::string(entry.port) + "\"";
  }
  if (text.back() == ':' && entry.port.empty() && entry.rail.empty())
    return quoted + " has no port behind its colon, and fits all of them";
  for (const auto& [value, what] : {std::pair{entry.rail, "rail"}, {entry.plane, "plane"}}) {
    if (value.empty() || identity(value) >= 0) continue;
    return "the " + std::string(what) + " of " + quoted + " is no number from 0 to 32767, and not taken";
  }
  return "";
}

}  // namespace

Config::Config() {
  for (const VariableInfo& variable : kVariables) set(variable, nullptr);
}

void Config::set(const VariableInfo& variable, const char* raw) {
  settings_[static_cast<std::size_t>(variable.id)] = evaluate(variable, raw);
}

Config Config::from_environment() {
  Config config;
  for (const VariableInfo& variable : kVariables) config.set(variable, std::getenv(variable.name));
  // When all are known: some stand for others.
  for (const Setting& setting : config.all()) warn_about(config, setting);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const std::string name(line.substr(0, line.find('=')));
    if (is_unknown_mesh_variable(name)) {
      MESHBED_WARN("%s is not a variable of this plugin; `meshbed env` lists them", name.c_str());
    }
  }
  return config;
}

int Config::max_relay_hops() const {
  const std::int64_t hops = number(Variable::kMaxRelayHops);
  return static_cast<int>(hops > 0 ? hops : number(at(Variable::kMaxRelayHops).variable->zero_means));
}

std::uint8_t Config::queue_pair_timeout() const {
  const bool fast = flag(Variable::kFastFail) && at(Variable::kIbTimeout).source != ValueSource::kEnvironment;
  return static_cast<std::uint8_t>(fast ? kFastTimeout : number(Variable::kIbTimeout));
}

std::uint8_t Config::queue_pair_retries() const {
  const bool fast = flag(Variable::kFastFail) && at(Variable::kIbRetryCount).source != ValueSource::kEnvironment;
  return static_cast<std::uint8_t>(fast ? kFastRetries : number(Variable::kIbRetryCount));
}

HcaChoice hca_choice(std::string_view list, std::string_view device, int port) {
  const NameList names = read_name_list(list);
  if (names.entries.empty()) return {.allowed = true};
  for (const std::string_view text : names.entries) {
    const Entry entry = split(text);
    const bool port_fits = entry.port.empty() || entry.port == std::to_string(port);
    if (!port_fits || !names.fits(entry.name, device)) continue;
    if (names.excludes) return {};
    return {.allowed = true, .rail = identity(entry.rail), .plane = identity(entry.plane)};
  }
  return {.allowed = names.excludes};
}

std::string hca_list_problem(std::string_view list) {
  std::string problem = name_list_problem(list);
  for (const std::string_view entry : read_name_list(list).entries) {
    const std::string what = entry.empty() ? "" : entry_problem(entry);
    if (!what.empty()) problem += (problem.empty() ? "" : "; ") + what;
  }
  return problem;
}

bool is_our_tuner(std::string_view name) {
  const std::string_view file = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  const auto begins = [file](std::string_view what) { return file.substr(0, what.size()) == what; };
  return name.empty() || name == "mesh" || begins("libnccl-net-mesh.so") || begins("libnccl-tuner-mesh.so");
}

}  // namespace meshbed::net
