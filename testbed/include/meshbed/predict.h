#pragma once
// meshbed::predict(): the predicted time of a collective on a measured class of machines, with its error. Nothing is
// run: closed forms with values that were fitted to published measurements (docs/models.md).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshbed/export.h"

namespace meshbed {

struct PredictedPart {
  std::string name;  // "launch", "hops", "wire"
  double time_s = 0;
};

struct Prediction {
  double time_s = 0;
  std::string algorithm, protocol;  // "ring", "LL128"
  int ranks = 0, nodes = 0;
  std::vector<PredictedPart> parts;  // time_s is their sum
  // 9 of 10 measurements of files that were left out, at the same distance from what was fitted, were off by this part
  // at most: 0.12 is 12 %.
  std::optional<double> error_p90;
  double low_s = 0, high_s = 0;  // between these
  std::string basis;             // class, gate, distance, and what is outside of what was measured
};

/// The profiles that predict() knows by name, as `meshbed models` lists them.
MESHBED_API std::vector<std::string> profiles();

/// `profile`: one of profiles() that is a class of machines, or the path of a profile file. `collective`: "all_reduce",
/// ...; `bytes` as nccl-tests counts them. `ranks`: two or more; empty: two nodes full, or four nodes around a ring.
/// Throws std::invalid_argument with the names that there are.
MESHBED_API Prediction predict(const std::string& profile, const std::string& collective, std::uint64_t bytes,
                               std::optional<int> ranks = std::nullopt);

}  // namespace meshbed
