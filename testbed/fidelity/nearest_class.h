#pragma once
// Nearest class: for a measured file whose class nobody has described, the profile of the class that its header is most
// like, with as many ranks a node and as fast adapters as the header says.
//
// Alike: words that name what carries the bytes (EFA, RoCE, TCP, ring, NVLink, ...), each common one for it and each
// other one against it, less the logarithms of the ratios of rates and of ranks a node. Nothing where no such word is
// common.

#include <optional>
#include <string>
#include <vector>

#include "models/time/machine.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

struct Nearest {
  models::Machine machine;  // what was fitted to it is a guess here
  std::string why;          // one line: which class, and what was changed
};
std::optional<Nearest> nearest_class(const MeasuredFile& file, const std::vector<models::Machine>& profiles);

}  // namespace meshbed::testbed
