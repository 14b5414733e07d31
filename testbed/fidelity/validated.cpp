#include "testbed/fidelity/validated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <ostream>
#include <stdexcept>

#include "testbed/fidelity/gates.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

void append_all(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Everything that follows from the rows and their machines.
void predict(Validated& validated) {
  std::vector<std::vector<models::SweepPoint>> points(validated.machines.size());
  for (std::size_t row = 0; row < validated.file.rows.size(); ++row) {
    const models::SweepPoint& point = validated.file.rows[row].point;
    points.at(validated.machine_of_row[row]).push_back(point);
    validated.predicted_us.push_back(models::predicted_us(validated.machine_at(row), point));
    validated.intervals.push_back(
        models::interval_of(validated.machine_at(row), point, validated.standings.at(validated.machine_of_row[row])));
  }
  std::vector<double> own, carried, two;
  for (std::size_t index = 0; index < points.size(); ++index) {
    const models::NaiveErrors naive = models::naive_errors(validated.machines[index], points[index]);
    append_all(own, naive.own_line);
    append_all(carried, naive.carried_line);
    append_all(two, naive.two_regime);
  }
  validated.errors = models::summarise(errors_of(validated));
  validated.own_line = models::summarise(std::move(own));
  validated.carried_line = models::summarise(std::move(carried));
  validated.two_regime = models::summarise(std::move(two));
}

[[noreturn]] void refuse_class(const MeasuredFile& file, const std::vector<models::Machine>& profiles) {
  std::string names;
  for (const models::Machine& machine : profiles) {
    names += fmt::format("\n  {:<28} {}", machine.name,
                         machine.classes.empty() ? "(by set-up)" : fmt::format("{}", fmt::join(machine.classes, "; ")));
  }
  throw std::runtime_error(fmt::format("{}: no profile is of the class \"{}\"; choose one by --profile NAME:{}",
                                       file.path, file.topology_class, names));
}

}  // namespace

std::string Validated::profile_names() const {
  std::string names;
  for (const models::Machine& machine : machines) names += (names.empty() ? "" : " + ") + machine.name;
  return names;
}

std::vector<double> errors_of(const Validated& validated) {
  std::vector<double> errors;
  for (std::size_t row = 0; row < validated.file.rows.size(); ++row) {
    errors.push_back(std::abs(validated.predicted_us[row] / validated.file.rows[row].point.time_us - 1));
  }
  return errors;
}

Coverage coverage_of(const Validated& validated) {
  Coverage coverage;
  std::vector<double> widths;
  for (std::size_t row = 0; row < validated.file.rows.size(); ++row) {
    const models::Interval& interval = validated.intervals[row];
    const double measured_us = validated.file.rows[row].point.time_us;
    if (interval.low_us <= measured_us && measured_us <= interval.high_us) coverage.inside += 1;
    widths.push_back((interval.high_us - interval.low_us) / validated.predicted_us[row]);
  }
  if (!widths.empty()) coverage.inside /= static_cast<double>(widths.size());
  coverage.width = models::summarise(std::move(widths)).median;
  return coverage;
}

Validated validate_file(MeasuredFile file, models::Machine machine) {
  Validated validated;
  const std::string own_class = lower_case(file.topology_class);
  const bool is_own = own_class.empty() || machine.classes.empty() ||
                      std::any_of(machine.classes.begin(), machine.classes.end(),
                                  [&](const std::string& each) { return lower_case(each) == own_class; });
  validated.machine_of_row.assign(file.rows.size(), 0);
  validated.file = std::move(file);
  validated.standings.push_back(is_own ? models::Standing::kOwnClass : models::Standing::kNearClass);
  validated.choices.push_back(fmt::format("profile {}, as --profile names it{}", machine.name,
                                          is_own ? "" : ", which is of another class than the file"));
  validated.machines.push_back(std::move(machine));
  predict(validated);
  return validated;
}

Validated validate_file(MeasuredFile file, const std::vector<models::Machine>& profiles, const PeerSource& peers,
                        std::ostream& notes) {
  Validated validated;
  const std::vector<const models::Machine*> own = own_profiles(file, profiles);
  std::map<std::pair<const models::Machine*, std::string>, std::size_t> known;
  for (std::size_t row = 0; row < own.size(); ++row) {
    // Rows of a file without a class may be of several: by what they are and whose software they ran.
    const models::SweepPoint& point = file.rows[row].point;
    const std::string what =
        own[row] != nullptr ? "" : gates_of(file, file.rows[row]).text() + models::measured_operation(point);
    const auto [place, is_new] = known.try_emplace({own[row], what}, validated.machines.size());
    if (is_new && own[row] != nullptr) {
      validated.machines.push_back(*own[row]);
      validated.standings.push_back(models::Standing::kOwnClass);
      validated.choices.push_back(fmt::format("profile {}, of the file's class", own[row]->name));
    } else if (is_new) {
      auto chosen = choose_class(file, file.rows[row], profiles, peers);
      if (!chosen) refuse_class(file, profiles);
      notes << fmt::format("meshbed: {}: {}\n", file.path, chosen->why);
      validated.machines.push_back(std::move(chosen->machine));
      validated.standings.push_back(chosen->standing);
      validated.choices.push_back(std::move(chosen->why));
    }
    validated.machine_of_row.push_back(place->second);
  }
  validated.file = std::move(file);
  predict(validated);
  return validated;
}

Validated validate_with(const Validated& validated, const std::vector<models::Machine>& machines,
                        std::optional<models::Standing> standing) {
  Validated other;
  other.file = validated.file;
  other.machines = machines;
  other.standings = validated.standings;
  if (standing) other.standings.assign(machines.size(), *standing);
  other.choices = validated.choices;
  other.machine_of_row = validated.machine_of_row;
  predict(other);
  return other;
}

}  // namespace meshbed::testbed
