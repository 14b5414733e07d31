#pragma once
// Compares runs whose connections stripe messages over several cables. Two runs may cut a message at different places,
// but the total bytes of each message must be equal. Pure functions of the traces.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "testbed/result/trace_file.h"

namespace meshbed::testbed {

/// One direction of one queue pair.
using Stream = std::vector<const TracedMessage*>;

/// A message that ends in an immediate value, with the preceding plain writes that belong to it: parts of a group; a
/// part is missing if this cable carries nothing of it.
struct Ending {
  const TracedMessage* message = nullptr;  // nullptr: the writes have no end yet
  std::vector<std::uint64_t> parts_bytes{};
};

/// Two streams that differ only in the lengths of pieces.
struct Recut {
  std::vector<Ending> mine, yours;  // of equal number
  std::size_t pieces = 0;
  std::int64_t more_bytes = 0;  // in the first one
};

/// Whether the message failed; it may have arrived.
bool failed(const TracedMessage& message);
/// Whether the ends are equal, or one of them is not known.
bool same_end(const TracedMessage& one, const TracedMessage& other);
/// Whether both are the same message, or the same piece of a striped message with another length: the immediate values,
/// which describe the whole message, are equal.
bool same_but_for_cut(const TracedMessage& one, const TracedMessage& other);

/// nullopt: they differ in more than lengths.
std::optional<Recut> recut(const Stream& one, const Stream& other);

/// `recuts`: all differing streams from one rank to another. Whether the bytes that a message lacks on one cable are on
/// the others. A trace does not record which streams belong to one connection. But each cable of a connection carries
/// its messages in the same order, and messages that were striped before all rails existed come first; so streams are
/// aligned from their ends. The parts of groups, which only one stream describes, are searched in that order. If
/// several connections with groups differ, they are checked group by group; if these are unequal, kind by kind: some
/// division of the rails among them must explain each. With more than five rails only the sum is checked.
bool conserves_messages(std::span<const Recut> recuts);

}  // namespace meshbed::testbed
