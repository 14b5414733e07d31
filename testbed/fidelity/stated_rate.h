#pragma once
// The rate of a node's adapters, as an option or the header of a measured file states it.

#include <optional>
#include <string>

#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

struct StatedRate {
  double adapters = 1;  // of a node
  double each_GBps = 0;
  std::string source;  // the words that state it
};

/// "200Gb/s", "200G", "25GB/s" of one adapter; "8x400G" of several. Nothing of other texts.
std::optional<StatedRate> parse_rate(const std::string& text);

/// From the file's class, then its set-up: a rate as above, or the name of a generation (EDR, HDR, NDR) or of a machine
/// whose adapters are known (DGX Spark or GB10, p5.48xlarge, Pollara, ...). Nothing where neither states one.
std::optional<StatedRate> stated_rate(const MeasuredFile& file);

}  // namespace meshbed::testbed
