#pragma once
// HostClock: the clock that measures the host's part of a GPU's work: this machine's, or for a simulated GPU the
// simulated host's.

#include "plugin/base/units.h"

namespace meshbed::testbed {

class HostClock {
 public:
  /// After the driver has been loaded.
  HostClock();
  bool is_simulated() const { return simulated_ != nullptr; }
  Picoseconds now_ps() const;
  /// Between two looks at memory that the GPU writes. On a real GPU the host looks as fast as it can; on a simulated
  /// one, whose host's own code takes no time otherwise, each look takes `look_ps`.
  void pause(Picoseconds look_ps) const;

 private:
  int (*simulated_)(long long advance_ps, long long* now_ps) = nullptr;
};
/// What a look at a word takes on a simulated GPU: half of it is how far a measured time may be off there.
inline constexpr Picoseconds kLookPs = 5 * kPicosecondsPerNanosecond;

}  // namespace meshbed::testbed
