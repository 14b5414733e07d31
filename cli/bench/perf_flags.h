#pragma once
// PerfFlags: options of nccl-tests (2.19.6, its src/common.cu, main) that have no equivalent here. Each is accepted by
// its name with a reason: an option that would change a number is refused, any other is noted and ignored.

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace meshbed::testbed {

class PerfFlags {
 public:
  PerfFlags();
  /// Adds them; the values are read into this object, which must stay where it is until they are parsed.
  void add_to(boost::program_options::options_description& options);
  /// A line for each that was given and changes nothing. Throws std::runtime_error for one that would change something
  /// here, were it taken.
  std::vector<std::string> notes() const;

 private:
  std::vector<int> values_;  // in the order of the table in perf_flags.cpp
};

}  // namespace meshbed::testbed
