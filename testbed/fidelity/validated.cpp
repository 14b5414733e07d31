#include "testbed/fidelity/validated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <stdexcept>

#include "testbed/fidelity/nearest_class.h"
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

Validated validate_file(MeasuredFile file, models::Machine machine) {
  Validated validated;
  validated.machine_of_row.assign(file.rows.size(), 0);
  validated.file = std::move(file);
  validated.machines.push_back(std::move(machine));
  predict(validated);
  return validated;
}

Validated validate_file(MeasuredFile file, const std::vector<models::Machine>& profiles, std::ostream& notes) {
  Validated validated;
  const std::vector<const models::Machine*> own = own_profiles(file, profiles);
  std::vector<const models::Machine*> known;
  for (const models::Machine* each : own) {
    auto place = std::find(known.begin(), known.end(), each);
    if (place == known.end()) {
      if (each != nullptr) {
        validated.machines.push_back(*each);
      } else {
        auto nearest = nearest_class(file, profiles);
        if (!nearest) refuse_class(file, profiles);
        notes << fmt::format("meshbed: {}: {}\n", file.path, nearest->why);
        validated.machines.push_back(std::move(nearest->machine));
      }
      place = known.insert(known.end(), each);
    }
    validated.machine_of_row.push_back(static_cast<std::size_t>(place - known.begin()));
  }
  validated.file = std::move(file);
  predict(validated);
  return validated;
}

Validated validate_with(const Validated& validated, const std::vector<models::Machine>& machines) {
  Validated other;
  other.file = validated.file;
  other.machines = machines;
  other.machine_of_row = validated.machine_of_row;
  predict(other);
  return other;
}

}  // namespace meshbed::testbed
