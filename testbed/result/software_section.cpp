#include "testbed/result/software_section.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "models/time/interval.h"
#include "testbed/workload/software.h"

namespace meshbed::testbed::document {
namespace {

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

/// Whether the run's time is outside of the interval around the class's model.
bool is_beyond(const models::Interval& of_model, Picoseconds time_ps) {
  const double run_us = static_cast<double>(time_ps) / kPicosecondsPerMicrosecond;
  return run_us > 0 && (run_us < of_model.low_us || run_us > of_model.high_us);
}

std::optional<models::CollectiveCall> call_of(const Scenario& scenario, const CollectiveCase* wanted) {
  return wanted == nullptr ? std::nullopt : modelled_call(scenario, *wanted);
}

void fill_lines(Section& section, const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps) {
  const models::Machine& machine = *scenario.software.machine;
  const auto call = call_of(scenario, wanted);
  section.line("software as of profile {}: {}", machine.name, machine.description);
  if (wanted != nullptr && !call) {
    section.line("  nothing of it is spent: all ranks are on one node, whose inner links no run has");
    return;
  }
  for (const models::MachineParameter parameter : parameters_in_use(scenario, call)) {
    const models::Value value = machine.value_of(parameter);
    const std::string name = models::info_of(parameter).name;
    section.line("  {:<16} {:>9.6g} {:<5} {}: {}", name, value.value, of_unit(name), models::name_of(value.basis),
                 short_source(value.source));
  }
  if (!call) return;
  const models::CollectiveTime model = models::collective_time(machine, *call);
  const std::string way = fmt::format("{} {}", models::name_of(model.algorithm), models::name_of(model.protocol));
  section.line("  {} of {} bytes: {}; the class's model alone, {}: {:.1f} us", models::name_of(call->collective),
               call->bytes, time_with_error(scenario, *wanted, time_ps), way, model.us);
  const models::Interval interval = models::interval_of(machine, *call, model.us);
  section.line("  9 of 10 measurements lie within {} of it, half of them within {}: {}",
               models::range_text(interval, model.us), percent_text(interval.half), models::basis_text(interval));
  if (is_beyond(interval, time_ps)) {
    const double beyond = beyond_model(model.us, time_ps);
    section.line(
        "  this run is {} {} than the class's model, more than its {}: the scenario's "
        "cables, rates or algorithm are not the class's",
        percent_text(std::abs(beyond)), beyond < 0 ? "faster" : "slower", models::range_text(interval, model.us));
  }
}

Value parameter_values(const std::vector<models::MachineParameter>& parameters, const models::Machine& machine) {
  Value values = Value::object();
  for (const models::MachineParameter parameter : parameters) {
    const models::Value value = machine.value_of(parameter);
    const std::string name = models::info_of(parameter).name;
    values[name] = {{"value", value.value},
                    {"unit", models::unit_of_name(name)},
                    {"basis", models::name_of(value.basis)},
                    {"source", value.source}};
  }
  return values;
}

}  // namespace

Section software_section_shape() {
  Section section{.key = "software", .title = "Software", .empty = Empty::kAbsent};
  section.with({text("profile", "its name"),
                any("parameters", "by name those that the time rests on: value, unit, basis, source"),
                number("model_us", "us", "of the call by the class's model alone").or_absent(),
                number("beyond_model", "", "the run's time over that, less 1").or_absent(),
                object("error", "of predictions that were left out of their fits, at the same distance from it",
                       {number("median", "", "half of the measurements are within this part of the prediction"),
                        number("p90", "", "9 of 10 are, on the larger side"),
                        number("low_us", "us", "9 of 10 measurements of such a call are between this"),
                        number("high_us", "us", "and this"),
                        text("of", "class, gate, distance from what was measured, and what is outside of that"),
                        text("distance", "the distance alone"), flag("held_out", "no constant was fitted to them")})
                    .or_absent(),
                flag("beyond_error", "whether the run is outside of the interval around the model").or_absent()});
  return section;
}

Section software_section(const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps) {
  Section section = software_section_shape();
  section.has_values = scenario.software.machine != nullptr;
  if (!section.has_values) return section;
  const models::Machine& machine = *scenario.software.machine;
  const auto call = call_of(scenario, wanted);
  const bool is_within_a_node = wanted != nullptr && !call;  // nothing of the profile is spent
  fill_lines(section, scenario, wanted, time_ps);
  section.set("profile", machine.name);
  section.set("parameters", parameter_values(is_within_a_node ? std::vector<models::MachineParameter>{}
                                                              : parameters_in_use(scenario, call),
                                             machine));
  if (!call) return section;
  const double model_us = models::collective_us(machine, *call);
  section.set("model_us", model_us);
  if (time_ps > 0) section.set("beyond_model", beyond_model(model_us, time_ps));
  // Around the run's own time, which knows the scenario's cables; without one, around the model's.
  const double run_us = static_cast<double>(time_ps) / kPicosecondsPerMicrosecond;
  const double around_us = time_ps > 0 ? run_us : model_us;
  const models::Interval interval = models::interval_of(machine, *call, around_us);
  section.set("error", {{"median", interval.half},
                        {"p90", models::larger_side(interval, around_us)},
                        {"low_us", interval.low_us},
                        {"high_us", interval.high_us},
                        {"of", models::basis_text(interval)},
                        {"distance", models::name_of(interval.distance)},
                        {"held_out", true}});
  if (time_ps > 0) section.set("beyond_error", is_beyond(models::interval_of(machine, *call, model_us), time_ps));
  return section;
}

std::string time_with_error(const Scenario& scenario, const CollectiveCase& wanted, Picoseconds time_ps) {
  std::string text = fmt::format("{:.1f} us", static_cast<double>(time_ps) / kPicosecondsPerMicrosecond);
  const auto call = modelled_call(scenario, wanted);
  if (!call) return text;
  const double us = static_cast<double>(time_ps) / kPicosecondsPerMicrosecond;
  const models::Interval interval = models::interval_of(*scenario.software.machine, *call, us);
  return us > 0 ? text + fmt::format(" ({:.1f} to {:.1f})", interval.low_us, interval.high_us) : text;
}

}  // namespace meshbed::testbed::document
