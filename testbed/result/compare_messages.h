#pragma once
// Two runs' messages joined: what each of both did over the wire, held against the other.
//
// Where no connection broke, two ranks' connections must carry the same messages in the same order, over the same NICs
// and GIDs. Where one broke on the way (a cable was pulled in the middle of a transfer), it is chance at which message,
// how often the peers asked each other again, and over which cable they went on; there the runs are held to what the
// plugin promises instead: each message arrives, and arrives once.
//
// Clear-to-sends are counted entry by entry: a receiver writes those together that its sender does not wait for yet,
// and how many these are is the moment's.
//
// Where a connection stripes its messages over several cables it gives less to the one that has more under way, which
// is the moment's; there the pieces may be cut otherwise, but as many of them go over each cable, and as many bytes
// over all together.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "testbed/result/trace_file.h"

namespace meshbed::testbed {

struct TracedRun {
  std::string name;  // "sim"
  std::vector<TracedMessage> messages;
  std::set<std::string> cut_ports;  // "node0/rocep1s0f0": a fault took their link or their address
};

struct MessageComparison {
  std::vector<std::string> differences;  // one line each; of two streams the first diverging message
  std::size_t in_order = 0;              // messages that were compared one by one
  std::size_t cut_otherwise = 0;         // of them: pieces of striped messages with another length
  std::vector<std::string> by_arrival;   // pairs of ranks that were compared by what arrived, and what that was
};

/// Two connections of one pair of ports match where both directions carry the same messages in the same order; which of
/// several parallel connections was made first does not matter. Two ranks that do not match so, but lost a connection
/// in either run (a message between them failed, or a fault cut a port that they used), are compared by the messages
/// that arrived (RDMA_WRITE_WITH_IMM: each ends one message of the net table, and is sent again where it was not
/// served). Of one that failed at its sender nobody knows whether it arrived: the acknowledgement may be what was lost.
MessageComparison compare_messages(const TracedRun& one, const TracedRun& other);

}  // namespace meshbed::testbed
