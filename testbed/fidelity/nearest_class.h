#pragma once
// Nearest class: for a measured file whose class has no profile, the most similar class that passes all gates
// (gates.h). If there is none, a machine without a class, from the header alone, with the common values of the measured
// classes of its transport (models/fit/pool.h).
//
// Similarity: rates, then ranks a node, then words that both headers have. The chosen class gets the ranks a node and
// the adapter rates that the header states.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/fit/pool.h"
#include "models/time/interval.h"
#include "models/time/machine.h"
#include "testbed/fidelity/gates.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

/// The measured classes, read where a file has no class of its own.
using PeerSource = std::function<const std::vector<models::Peer>&()>;

struct Chosen {
  models::Machine machine;  // fitted values of another class are "other classes" here
  models::Standing standing = models::Standing::kNearClass;
  std::string why;  // one line: which class and what was changed; or why there is none
};

/// For the row's kind. Nothing where the header states no transport.
std::optional<Chosen> choose_class(const MeasuredFile& file, const MeasuredRow& row,
                                   const std::vector<models::Machine>& profiles, const PeerSource& peers);

/// The machine that the header describes, without any fit.
models::Machine machine_of_header(const Gates& gates);

}  // namespace meshbed::testbed
