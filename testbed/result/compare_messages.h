#pragma once
// Compares the messages that two runs sent over the wire.
//
// Where no connection broke, two ranks' connections must carry the same messages in the same order, over the same NICs
// and GIDs. If one broke (a cable was unplugged during a transfer), timing decides at which message it broke, how
// often the peers queried each other, and which cable they used afterwards. Then the runs are checked for the plugin's
// guarantee instead: each message arrives exactly once.
//
// Clear-to-sends are counted entry by entry: a receiver combines those that its sender does not wait for yet, and their
// number depends on timing.
//
// A connection that stripes its messages over several cables gives a smaller part to a busier cable, which depends on
// timing. There the pieces may have other lengths, but their number on each cable and the total number of bytes must be
// equal.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "testbed/result/trace_file.h"

namespace meshbed::testbed {

struct TracedRun {
  std::string name;  // "sim"
  std::vector<TracedMessage> messages;
  std::set<std::string> cut_ports;  // "node0/rocep1s0f0": a fault removed their link or their address
};

struct MessageComparison {
  std::vector<std::string> differences;  // one line each; of two streams the first diverging message
  std::size_t in_order = 0;              // messages that were compared one by one
  std::size_t cut_otherwise = 0;         // of them: pieces of striped messages with another length
  std::vector<std::string> by_arrival;   // pairs of ranks that were compared by arrived messages, with the result
};

/// Two connections of one pair of ports match where both directions carry the same messages in the same order; which of
/// several parallel connections was made first does not matter. Two ranks that do not match so, but lost a connection
/// in either run (a message between them failed, or a fault cut a port that they used), are compared by the messages
/// that arrived (RDMA_WRITE_WITH_IMM: each ends one message of the net table, and is sent again if it was not
/// served). A message that failed at its sender may have arrived: possibly only the acknowledgement was lost.
MessageComparison compare_messages(const TracedRun& one, const TracedRun& other);

}  // namespace meshbed::testbed
