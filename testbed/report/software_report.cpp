#include "testbed/report/software_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "testbed/workload/software.h"

namespace meshbed::testbed {
namespace {

/// As `meshbed fidelity` names what it leaves out.
std::string measured_kind(const models::CollectiveCall& call) {
  return fmt::format("{}, {} ranks", models::name_of(call.collective), call.ranks);
}

/// The parameters of the call, or of messages alone.
std::vector<models::MachineParameter> parameters_in_use(const Scenario& scenario,
                                                        const std::optional<models::CollectiveCall>& call) {
  const models::Machine& machine = *scenario.software.machine;
  models::CollectiveTime time;
  if (call) {
    time = models::collective_time(machine, *call);
  } else if (scenario.workload.protocol == "ll" || scenario.workload.protocol == "ll128") {
    time.protocol =
        scenario.workload.protocol == "ll" ? models::CollectiveProtocol::kLl : models::CollectiveProtocol::kLl128;
  }
  return models::parameters_of(machine, time);
}

std::string percent_text(double part) { return fmt::format("{:.1f} %", 100 * part); }

/// Sources are sentences; the first of many files, or the sentence's beginning, is enough beside a number.
std::string short_source(const std::string& source) {
  constexpr std::size_t kMost = 60;
  return source.size() <= kMost ? source : source.substr(0, source.find_last_of(" ,", kMost)) + " ...";
}

std::string of_unit(const std::string& name) {
  const std::string unit = models::unit_of_name(name);
  return unit == "1" ? "" : unit;
}

/// By how much the run's time is more than the class's model says, as a fraction of that.
double beyond_model(double model_us, Picoseconds time_ps) {
  const double run_us = static_cast<double>(time_ps) / kPicosecondsPerMicrosecond;
  return model_us > 0 ? run_us / model_us - 1 : 0;
}

std::optional<models::CollectiveCall> call_of(const Scenario& scenario, const CollectiveCase* wanted) {
  return wanted == nullptr ? std::nullopt : modelled_call(scenario, *wanted);
}

}  // namespace

std::string time_with_error(const Scenario& scenario, const CollectiveCase& wanted, Picoseconds time_ps) {
  std::string text = fmt::format("{:.1f} us", static_cast<double>(time_ps) / kPicosecondsPerMicrosecond);
  const auto call = modelled_call(scenario, wanted);
  if (!call) return text;
  const auto bar = models::error_bar(*scenario.software.machine, measured_kind(*call));
  return bar ? text + fmt::format(" +- {}", percent_text(bar->errors.p90)) : text;
}

std::vector<std::string> software_lines(const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps) {
  if (scenario.software.machine == nullptr) return {};
  const models::Machine& machine = *scenario.software.machine;
  const auto call = call_of(scenario, wanted);
  std::vector<std::string> lines{fmt::format("software as of profile {}: {}", machine.name, machine.description)};
  if (wanted != nullptr && !call) {
    lines.push_back("  nothing of it is spent: all ranks are on one node, whose inner links no run has");
    return lines;
  }
  for (const models::MachineParameter parameter : parameters_in_use(scenario, call)) {
    const models::Value value = machine.value_of(parameter);
    const std::string name = models::info_of(parameter).name;
    lines.push_back(fmt::format("  {:<16} {:>9.6g} {:<5} {}: {}", name, value.value, of_unit(name),
                                models::name_of(value.basis), short_source(value.source)));
  }
  if (!call) return lines;
  const models::CollectiveTime model = models::collective_time(machine, *call);
  const std::string way = fmt::format("{} {}", models::name_of(model.algorithm), models::name_of(model.protocol));
  lines.push_back(fmt::format("  {} of {} bytes: {}; the class's model alone, {}: {:.1f} us",
                              models::name_of(call->collective), call->bytes,
                              time_with_error(scenario, *wanted, time_ps), way, model.us));
  if (const auto bar = models::error_bar(machine, measured_kind(*call))) {
    lines.push_back(fmt::format("  9 of 10 measured points of {} are within {}, half of them within {}", bar->of,
                                percent_text(bar->errors.p90), percent_text(bar->errors.median)));
    if (const double beyond = beyond_model(model.us, time_ps); std::abs(beyond) > bar->errors.p90) {
      lines.push_back(
          fmt::format("  this run is {} {} than the class's model, more than its +- {}: the scenario's "
                      "cables, rates or algorithm are not the class's",
                      percent_text(std::abs(beyond)), beyond < 0 ? "faster" : "slower", percent_text(bar->errors.p90)));
    }
  } else {
    lines.push_back("  the profile says nothing of its errors");
  }
  return lines;
}

nlohmann::ordered_json software_json(const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps) {
  if (scenario.software.machine == nullptr) return nullptr;
  const models::Machine& machine = *scenario.software.machine;
  const auto call = call_of(scenario, wanted);
  nlohmann::ordered_json json{{"profile", machine.name}, {"parameters", nlohmann::ordered_json::object()}};
  if (wanted != nullptr && !call) return json;  // nothing of it is spent
  for (const models::MachineParameter parameter : parameters_in_use(scenario, call)) {
    const models::Value value = machine.value_of(parameter);
    const std::string name = models::info_of(parameter).name;
    json["parameters"][name] = {{"value", value.value},
                                {"unit", models::unit_of_name(name)},
                                {"basis", models::name_of(value.basis)},
                                {"source", value.source}};
  }
  if (!call) return json;
  const double model_us = models::collective_us(machine, *call);
  json["model_us"] = model_us;
  if (time_ps > 0) json["beyond_model"] = beyond_model(model_us, time_ps);
  if (const auto bar = models::error_bar(machine, measured_kind(*call))) {
    json["error"] = {
        {"median", bar->errors.median}, {"p90", bar->errors.p90}, {"of", bar->of}, {"held_out", bar->is_held_out}};
    if (time_ps > 0) json["beyond_error"] = std::abs(beyond_model(model_us, time_ps)) > bar->errors.p90;
  }
  return json;
}

}  // namespace meshbed::testbed
