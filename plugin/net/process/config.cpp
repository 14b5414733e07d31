#include "plugin/net/process/config.h"

#include <unistd.h>

#include <algorithm>

#include "plugin/base/log.h"

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
  // NCCL_SOCKET_IFNAME and the like also serve other plugins: only our own names cause a warning.
  const bool changed = setting.source == ValueSource::kEnvironment &&
                       (variable.kind == ValueKind::kText || setting.number != variable.default_value);
  if (changed && !variable.effective && std::string_view(variable.name).substr(0, 10) == "NCCL_MESH_") {
    MESHBED_WARN("%s=%s has no effect: %s", variable.name, setting.text.c_str(), variable.meaning);
  }
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
  if (const char* folder = std::getenv("MESHBED_RESULTS")) config.results_folder_ = folder;
  // After all were read, because some settings refer to others.
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

bool is_our_tuner(std::string_view name) {
  const std::string_view file = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  const auto begins = [file](std::string_view what) { return file.substr(0, what.size()) == what; };
  return name.empty() || name == "mesh" || begins("libnccl-net-mesh.so") || begins("libnccl-tuner-mesh.so");
}

}  // namespace meshbed::net
