#pragma once
// Where connections stripe their messages over several cables, two runs may cut them at different places. Which they
// may not: lose bytes of one message and have them in another. Pure functions of what was traced.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "testbed/result/trace_file.h"

namespace meshbed::testbed {

/// One direction of one queue pair.
using Stream = std::vector<const TracedMessage*>;

/// A message that ends in an immediate value, and before it the plain writes that belong to it: parts of a group, which
/// are not written where nothing of them falls to this cable.
struct Ending {
  const TracedMessage* message = nullptr;  // nullptr: of what has no end yet
  std::vector<std::uint64_t> parts_bytes{};
};

/// Two streams that differ in the lengths of pieces, and in nothing else.
struct Recut {
  std::vector<Ending> mine, yours;  // as many of both
  std::size_t pieces = 0;
  std::int64_t more_bytes = 0;  // in the first one
};

/// The message has not arrived for sure.
bool failed(const TracedMessage& message);
/// The same end, as far as both are known.
bool same_end(const TracedMessage& one, const TracedMessage& other);
/// The same message, or the same piece of a message that was striped, cut at another place: what it says of the whole
/// message is the same.
bool same_but_for_cut(const TracedMessage& one, const TracedMessage& other);

/// nullopt: they differ in more.
std::optional<Recut> recut(const Stream& one, const Stream& other);

/// All that differs from one rank to another: whether what a message has less on one cable it has more on the others.
/// Which streams are of one connection no trace tells. But their messages come in the same order on each of its cables,
/// and those that were striped before all rails were laid are the first: so streams are held together from their ends.
/// The parts of groups, of which one stream alone tells, are looked for in that order; where several connections with
/// groups differ they are held to it group by group, and where these do not even look alike kind by kind:
/// some way to divide the rails among them must explain each; only where there are more than five rails, to their sum.
bool conserves_messages(std::span<const Recut> recuts);

}  // namespace meshbed::testbed
