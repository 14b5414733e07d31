#pragma once
// Search: the fitted values of a machine, moved until no loss is left to gain. Pure and deterministic.
//
// Each free parameter goes up and down by a factor that shrinks once nothing helps any more (coordinate descent in
// logarithms), within its plausible range. Ridge: a fitted value with little evidence in the points stays near its
// expected value, at a loss for each spread (a hundredth of loss is a hundredth of error).
// Cost: rounds * parameters * loss.

#include <functional>
#include <string>
#include <vector>

#include "models/time/machine.h"

namespace meshbed::models {

using LossFunction = std::function<double(const Machine&)>;

/// Rounded to four digits, which is more than any measurement's accuracy, and kept within its range.
void put_fitted(Machine& machine, MachineParameter parameter, double value, Basis basis, const std::string& source);

/// The least loss; `last` is the factor at which the search ends: 1.05 is coarse, 1.004 fine.
double descend(Machine& machine, const std::vector<MachineParameter>& free, const LossFunction& loss, Basis basis,
               const std::string& source, double last);

/// Of the free parameters of `machine` against those of `expected`: the squares of how many spreads each is away. Where
/// no limit is expected, and of what has no spread, nothing.
double ridge_squares(const Machine& machine, const Machine& expected, const std::vector<MachineParameter>& free);

}  // namespace meshbed::models
