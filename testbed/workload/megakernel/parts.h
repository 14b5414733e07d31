#pragma once
// RingParts: the parts of a token's time. The steps of a rank's ring record their begin and end. Every instant of a
// token counts for the first of the following that was under way on that rank, so that the parts add up to the token:
//
//   launch    a kernel was being launched for an operation (initiation = "launch")
//   compute   a lane was in COMPUTE, REDUCE or COPY
//   wire      a message to the rank was under way, from its post to its arrival
//   queue     an operation of the queues: publish, claim, doorbell, post, flag, poll
//   waiting   none of these: for another rank
//
// One thread at a time adds (RankHost). Cost: 24 bytes a step, and a sort of a token's steps.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/base/units.h"

namespace meshbed::testbed {

enum class RingPart : std::uint8_t { kLaunch, kCompute, kWire, kQueue, kWaiting };
inline constexpr std::size_t kRingParts = 5;
/// "launch", "compute", "wire", "queue", "waiting".
const char* name_of(RingPart part);

using RingPartTimes = std::array<Picoseconds, kRingParts>;  // by RingPart

/// A token, or the mean of several, of one way of initiation.
struct RingToken {
  std::string initiation;  // "host", "device", "launch"
  std::uint64_t tokens = 0;
  Picoseconds token_ps = 0;
  RingPartTimes parts{};
};

class RingParts {
 public:
  explicit RingParts(int ranks) : steps_(static_cast<std::size_t>(ranks)) {}

  /// From `begin_ps` to `end_ps`, which may lie ahead; nothing where that is not later.
  void add(int rank, RingPart part, Picoseconds begin_ps, Picoseconds end_ps);
  /// A message of a connection, which keeps their order: its post, and its arrival.
  void posted(int source, int destination, int channel, Picoseconds at_ps);
  void arrived(int source, int destination, int channel, Picoseconds at_ps);

  /// The rank's steps between the two, which are then forgotten. The parts add up to end - begin.
  RingPartTimes take(int rank, Picoseconds begin_ps, Picoseconds end_ps);

 private:
  struct Step {
    Picoseconds begin_ps, end_ps;
    RingPart part;
  };
  std::vector<std::vector<Step>> steps_;                                       // by rank
  std::map<std::tuple<int, int, int>, std::deque<Picoseconds>> on_their_way_;  // posts, by connection
};

}  // namespace meshbed::testbed
