#pragma once
// Fidelity: the errors of the models over a folder of measured files, as numbers and as a page.
//
// Nomenclature: source - a file; each has the same weight in figures over files, whatever its number of points; kind -
// one collective on one count of ranks.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "models/fit/pool.h"
#include "testbed/fidelity/validated.h"

namespace meshbed::testbed {

/// Errors of files, each file's together of weight 1.
struct WeightedErrors {
  std::vector<std::pair<double, double>> error_and_weight;
  void add(const std::vector<double>& errors);
  /// The least error below which `part` of the weight lies; 0 where there is none.
  double percentile(double part) const;
};

/// A and B with their signs; not C, D or nothing.
bool is_good_quality(const std::string& quality);

/// One kind of a class, predicted from a fit to the others of the class, which begins with what other classes tell.
struct LeftOut {
  std::string profile, what;         // "all_gather, 4 ranks"
  std::vector<double> model, large;  // errors: all, and of 8 MiB and more
  double naive_median = 0;  // of the better of two lines carried over: fitted to the others, and to each of them
};
/// Of every kind of the machine's sweeps; none where there is only one, or where the others are too few to fit.
std::vector<LeftOut> leave_one_out(const models::Machine& machine, const std::vector<models::Sweep>& sweeps,
                                   const std::vector<models::Peer>& peers);

/// Pairs of measured points of one kind and size that differ by more than 10 %: whether the models say the same. Of
/// files of good quality.
struct OrderCount {
  std::size_t pairs = 0, right = 0;
  std::size_t decided = 0, decided_right = 0;  // of pairs whose intervals do not overlap; the others are ties
};
OrderCount count_order(const std::vector<Validated>& all);

/// The page, from files with the profiles that `auto` gives them. `plots`: the folder of their plots as the page sees
/// it; empty: no plots.
std::string fidelity_page(const std::vector<Validated>& all, const std::vector<models::Machine>& profiles,
                          const std::string& plots);

}  // namespace meshbed::testbed
