#pragma once
// Validated: a measured file beside what profiles say of each of its rows.

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "models/time/machine.h"
#include "testbed/fidelity/measured_file.h"
#include "testbed/plot/plot.h"

namespace meshbed::testbed {

struct Validated {
  MeasuredFile file;
  std::vector<models::Machine> machines;                    // of the rows, each once
  std::vector<std::size_t> machine_of_row;                  // into `machines`
  std::vector<double> predicted_us;                         // one a row
  models::ErrorSummary errors;                              // of |predicted / measured - 1|
  models::ErrorSummary own_line, carried_line, two_regime;  // of the naive models

  const models::Machine& machine_at(std::size_t row) const { return machines.at(machine_of_row.at(row)); }
  std::string profile_names() const;  // "a + b"
};

/// |predicted / measured - 1| of each row.
std::vector<double> errors_of(const Validated& validated);

/// Every row by one machine.
Validated validate_file(MeasuredFile file, models::Machine machine);
/// Each row by the profile of its class (testbed/fidelity/profiles.h), or by the nearest class, which a line in
/// `notes` names. Throws std::runtime_error, with the classes that there are, where none is near.
Validated validate_file(MeasuredFile file, const std::vector<models::Machine>& profiles, std::ostream& notes);
/// The same rows by other values of their machines.
Validated validate_with(const Validated& validated, const std::vector<models::Machine>& machines);

/// Measured and predicted times over sizes, a series for each kind of call.
Plot plot_of(const Validated& validated);

}  // namespace meshbed::testbed
