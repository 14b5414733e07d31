#pragma once
// Profile: a named set of model parameters, each with where it comes from. A number without that is refused: what a
// prediction rests on must be seen.
//
// A TOML file, one table a parameter:
//
//   name = "dgx-spark"
//   description = "two DGX Sparks on one cable"
//   [post_send]
//   value = 250            # in `unit`
//   unit = "ns"
//   basis = "measured"     # or "data sheet", "calibrated", "guess"
//   source = "perftest 24.01, ib_write_lat, 2 B"
//   range = [200, 400]     # of a guess, which must have one; of the others, if known

#include <map>
#include <string>
#include <utility>

#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::models {

enum class Basis { kMeasured, kDataSheet, kCalibrated, kGuess };
/// "measured", "data sheet", "calibrated", "guess"
const char* name_of(Basis basis);

struct Parameter {
  double value = 0;
  std::string unit;
  Basis basis = Basis::kGuess;
  std::string source;  // where it was measured, which data sheet, which files it was calibrated on, why it is guessed
  std::pair<double, double> range{0, 0};  // equal: not known
};

class Profile {
 public:
  /// Errors (kInvalidArgument) name `place`, line, parameter, what is wrong and what is accepted.
  static Result<Profile> parse(const std::string& text, const std::string& place);
  static Result<Profile> read(const std::string& path);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::map<std::string, Parameter>& parameters() const { return parameters_; }

  /// The parameter's value in `unit`; an error where there is none, or in another unit.
  Result<double> value(const std::string& parameter, const std::string& unit) const;
  /// Of a parameter whose unit is a time (ps, ns, us, ms, s).
  Result<Picoseconds> time_ps(const std::string& parameter) const;

 private:
  std::string name_, description_;
  std::map<std::string, Parameter> parameters_;
};

}  // namespace meshbed::models
