#pragma once
// Calibrate: the few unknown parameters of a machine, fitted to measured sweeps. Pure and deterministic.
//
// Mechanisms join one group of parameters after the other, each only if it pays: the loss must fall by a share that
// grows with the number of its parameters, so that noise is not explained. A group that the data cannot separate from
// another one is never free: launch and hop are one sum on one count of steps, trees need nodes of several ranks. Loss:
// over sweeps, each weighted once, the mean of e + 4 max(0, e - 0.12), e = |ln(predicted / measured)|: medians, and
// tails; how far times between measured sizes leave those beside them (models/fit/between.h); and how far a fill or a
// ramp would end beyond the measured sizes, where neither differs from the rate. Ridge: each fitted
// value has a cost for its distance from the expected value, in spreads of its kind, which is higher for fewer points:
// few points do not override the knowledge of all machines. Hops of the protocols that are not fitted move with the
// fitted one: between nodes by its additional time, which belongs to the transport; within a node, and if it takes less
// time, by its factor. If NCCL chooses, protocol and algorithm are its cost table's until a threshold reduces the loss;
// a library's own kernels have one algorithm until another one does. Search: each parameter by a falling ladder of
// factors, in turn, within its plausible range (ParameterInfo), from several starts for thresholds. Cost: groups *
// starts * rounds
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
/// data sheet) stays as it is. An error if the points cannot determine the free parameters, with the number of points
/// and the number needed.
Result<Calibration> calibrate(const Machine& machine, const std::vector<Sweep>& sweeps, const std::string& source);

}  // namespace meshbed::models
