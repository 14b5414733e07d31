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
//   basis = "measured"     # or "data sheet", "constant", "other classes", "calibrated", "guess"
//   source = "perftest 24.01, ib_write_lat, 2 B"
//   range = [200, 400]     # of a guess, which must have one; of the others, if known
//
// or on one line, above the tables below; the unit may be left out where the name's last word is one (_us, _ns, _bytes,
// _GBps; _fraction: 1):
//
//   launch_us = { value = 6.6, basis = "constant", source = "NCCL src/graph/tuning.cc" }
//   fitted_on = ["x.csv"]    # the files that a source of "fitted_on" stands for
//
// A profile of a class of machines (models/time/machine_profile.h) has more tables:
//
//   [match]                                  # which measured files are of its kind
//   class = ["2 nodes direct 200G"]          # their topology_class
//   setup = ["nccl"]                         # words of their set-up, where several profiles have the class
//   variant = ["nccl"]                       # beginnings of a row's variant, which take precedence over both
//   library = "nccl"                         # whose calls: nccl (if it is not given), sircl, oneshot, ...
//   [topology]
//   cabling = "mesh"
//   ranks_per_node = 1
//   transport = "unified"
//   [residuals]                              # errors on the files that it was fitted to
//   "x.csv" = "median 3.1 %, p90 8.0 %"
//   [held_out]                               # errors of a fit without these, `meshbed fidelity` (results/fidelity)
//   "all_reduce, 4 ranks" = "median 13.4 %, p90 21.2 %"
//   [measured]                               # what it was fitted to: kinds of calls, and their sizes
//   "all_reduce, 4 ranks on 4 nodes" = "2048 to 1572864 bytes, 13 points"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::models {

/// Where a value comes from.
enum class Basis {
  kMeasured,    // on such a machine, by something else than what is predicted
  kDataSheet,   // its maker's or the standard's figure
  kConstant,    // published with the library: NCCL's tuning constants
  kPooled,      // fitted to other classes of its transport, none of its own (models/fit/pool.h)
  kCalibrated,  // fitted to what is predicted
  kGuess,
};
/// "measured", "data sheet", "constant", "other classes", "calibrated", "guess"
const char* name_of(Basis basis);
std::optional<Basis> parse_basis(std::string_view name);

/// "us" of "launch_us"; "" where the name's last word is no unit.
std::string unit_of_name(const std::string& name);

/// The key of the files that values were fitted to, and the source that stands for them.
inline constexpr const char* kFittedOn = "fitted_on";

struct Parameter {
  double value = 0;
  std::string unit;
  Basis basis = Basis::kGuess;
  std::string source;  // where it was measured, which data sheet, which files it was calibrated on, why it is guessed
  std::pair<double, double> range{0, 0};  // equal: not known
  std::string place;                      // "x.toml:7", for error texts
};

/// Errors of predictions, as shares: 0.05 is 5 %.
struct ToldErrors {
  double median = 0, p90 = 0;
};
/// Parses "median 3.1 %, p90 8.0 %", with any text after it; nullopt if the text does not begin like this.
std::optional<ToldErrors> parse_errors(std::string_view text);

/// Sizes of one kind of calls that a profile was fitted to.
struct MeasuredSizes {
  std::uint64_t least_bytes = 0, most_bytes = 0;
  std::size_t points = 0;
};
/// "2048 to 1572864 bytes, 13 points", and the same read.
std::string sizes_text(const MeasuredSizes& sizes);
std::optional<MeasuredSizes> parse_sizes(std::string_view text);

/// The text of a profile about its class of machines.
struct ProfileClass {
  std::vector<std::string> classes, set_up_words, variants;
  std::string cabling, transport;  // transport: "" if it is not given
  std::string library;             // likewise
  int ranks_per_node = 1;
  std::string place;
};

class Profile {
 public:
  /// Errors (kInvalidArgument) name `place`, line, parameter, what is wrong and what is accepted.
  static Result<Profile> parse(std::string_view text, const std::string& place);
  static Result<Profile> read(const std::string& path);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::map<std::string, Parameter>& parameters() const { return parameters_; }
  const std::vector<std::string>& fitted_on() const { return fitted_on_; }
  /// Nothing in a profile without [topology]: it has values alone.
  const std::optional<ProfileClass>& machine_class() const { return class_; }
  /// By measured file: errors of the fit. Lines of another form than parse_errors() reads are for readers alone.
  const std::map<std::string, ToldErrors>& residuals() const { return residuals_; }
  /// By what was predicted from a fit without it ("all_reduce, 4 ranks").
  const std::map<std::string, ToldErrors>& held_out() const { return held_out_; }
  /// By kind of call (models/time/interval.h: measured_kind()), the sizes that the values were fitted to.
  const std::map<std::string, MeasuredSizes>& measured() const { return measured_; }

  /// The parameter's value in `unit`; an error where there is none, or in another unit.
  Result<double> value(const std::string& parameter, const std::string& unit) const;
  /// Of a parameter whose unit is a time (ps, ns, us, ms, s).
  Result<Picoseconds> time_ps(const std::string& parameter) const;

 private:
  std::string name_, description_;
  std::map<std::string, Parameter> parameters_;
  std::vector<std::string> fitted_on_;
  std::optional<ProfileClass> class_;
  std::map<std::string, ToldErrors> residuals_, held_out_;
  std::map<std::string, MeasuredSizes> measured_;
};

}  // namespace meshbed::models
