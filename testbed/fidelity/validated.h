#pragma once
// Validated: a measured file with the predictions of profiles for each of its rows.

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "models/fit/sweep.h"
#include "models/time/machine.h"
#include "testbed/fidelity/measured_file.h"
#include "testbed/fidelity/nearest_class.h"
#include "testbed/plot/plot.h"

namespace meshbed::testbed {

struct Validated {
  MeasuredFile file;
  std::vector<models::Machine> machines;                    // of the rows, each once
  std::vector<models::Standing> standings;                  // of the machines: how each was chosen
  std::vector<std::string> choices;                         // of the machines: that in words
  std::vector<std::size_t> machine_of_row;                  // into `machines`
  std::vector<double> predicted_us;                         // one a row
  std::vector<models::Interval> intervals;                  // likewise
  models::ErrorSummary errors;                              // of |predicted / measured - 1|
  models::ErrorSummary own_line, carried_line, two_regime;  // of the naive models

  const models::Machine& machine_at(std::size_t row) const { return machines.at(machine_of_row.at(row)); }
  std::string profile_names() const;  // "a + b"
};

/// |predicted / measured - 1| of each row.
std::vector<double> errors_of(const Validated& validated);

/// How the stated intervals did on the rows that were measured.
struct Coverage {
  double inside = 0;  // part of the rows
  double width = 0;   // median of (high - low) / predicted
};
Coverage coverage_of(const Validated& validated);

/// Every row by one machine: its own class where the file has the machine's or states none, else another class.
Validated validate_file(MeasuredFile file, models::Machine machine);
/// Each row by the profile of its class (testbed/fidelity/profiles.h); else by the class that passes the gates
/// (nearest_class.h), else by no class and the values of `peers` of its transport; a line in `notes` gives choice and
/// reason. Throws std::runtime_error, with the classes that there are, where the file states no transport.
Validated validate_file(MeasuredFile file, const std::vector<models::Machine>& profiles, const PeerSource& peers,
                        std::ostream& notes);
/// The same rows by other values of their machines. `standing`: of all of them; nothing: as they were.
Validated validate_with(const Validated& validated, const std::vector<models::Machine>& machines,
                        std::optional<models::Standing> standing = std::nullopt);

/// Measured and predicted times over sizes, a series for each kind of call.
Plot plot_of(const Validated& validated);

}  // namespace meshbed::testbed
