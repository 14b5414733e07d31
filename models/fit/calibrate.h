#pragma once
// Calibrate: the few unknown parameters of a machine, fitted to measured sweeps. Pure and deterministic.
//
// Mechanisms join one group of parameters after the other, each only if it pays: the loss must fall by a share that
// grows with the number of its parameters, so that noise is not explained. A group that the data cannot tell apart from
// another is never free: launch and hop are one sum on one count of steps, trees need nodes of several ranks. Loss:
// over sweeps, each weighted once, the mean of e + 4 max(0, e - 0.12), e = |ln(predicted / measured)|: medians, and
// tails; and how far times between measured sizes leave those beside them (models/fit/between.h). Ridge: each fitted
// value costs what it is away from what was expected of it, in spreads of its kind, and the more the fewer points there
// are: few points do not overrule what is known of all machines. Hops of the protocols that are not fitted move with
// the fitted one: between nodes by what it takes more than expected, which is the transport's own, within one and where
// it takes less by its factor. Where NCCL chooses, protocol and algorithm are its cost table's until a threshold pays;
// a library's own kernels have one way until another pays. Search: each parameter by a falling ladder of factors, in
// turn, within its plausible range (ParameterInfo), from several starts for thresholds. Cost: groups * starts * rounds
// * parameters * points.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "models/fit/sweep.h"
#include "plugin/base/result.h"

namespace meshbed::models {

struct Calibration {
  Machine machine;
  std::vector<MachineParameter> fitted;
  double loss = 0;
  std::size_t points = 0;  // of different sizes, collectives and jobs
  /// Fitted values of which the points show one sum or product only: scaled alone, either moves all times alike (cosine
  /// of the logarithmic sensitivities 0.99 and more). Each is held near what was expected of it.
  std::vector<std::pair<MachineParameter, MachineParameter>> not_apart;
};

/// Free parameters are replaced with basis calibrated and `source`; what the machine knows from elsewhere (measured,
/// data sheet) stays as it is. An error where the points cannot determine what is to be fitted: it says how many there
/// are and are needed.
Result<Calibration> calibrate(const Machine& machine, const std::vector<Sweep>& sweeps, const std::string& source);

}  // namespace meshbed::models
