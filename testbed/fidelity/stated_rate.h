#pragma once
// The rate of a node's adapters, as an option or the header of a measured file states it.

#include <optional>
#include <string>

namespace meshbed::testbed {

inline constexpr double kGbitsOfGByte = 8;

struct StatedRate {
  double adapters = 1;  // of a node
  double each_GBps = 0;
  bool counted = false;      // "8x", "1x": the text states how many there are
  bool one_per_gpu = false;  // the name of an adapter alone: a node may have one for each GPU, instead of `adapters`
  std::string source;        // the words that state it
};

/// "200Gb/s", "200G", "25GB/s" of one adapter; "8x400G" of several. Nothing of other texts.
std::optional<StatedRate> parse_rate(const std::string& text);

/// From a file's class, then its set-up: a rate as above, or the name of an adapter, of a generation of InfiniBand or
/// of a machine whose adapters are known (ConnectX-7, HDR, DGX Spark or GB10, p5.48xlarge, ...). Nothing where neither
/// states one.
std::optional<StatedRate> stated_rate(const std::string& topology_class, const std::string& set_up);

}  // namespace meshbed::testbed
