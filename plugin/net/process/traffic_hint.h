#pragma once
// What NCCL's hints (setNetAttr) mean for striping. NCCL says which protocols a communicator uses just now, how many
// peers it exchanges data with at the same time, and over how many flows each; striping is for the opposite case, few
// long messages that would leave cables idle. Two hints keep a connection's messages on its own cable:
//   protocol LL alone      latency counts, and the message is there when the last of its stripes is
//   many peers or flows    more of them at a time than there are cables to this peer: they fill the cables by
//                          themselves, if each cable has a connection that begins on it. NCCL may as well have put all
//                          of its flows on one port; then striping is what uses the others.

#include <atomic>
#include <cstdint>

#include "plugin/net/process/state.h"

namespace meshbed::net {

/// A communicator's. Written by setNetAttr, read by its sending connections; any thread.
class TrafficHint {
 public:
  void note(const CommunicatorState& said) {
    constexpr std::int64_t kOnlyLl = 1;  // bit NCCL_PROTO_LL
    only_ll_.store(said.proto == kOnlyLl, std::memory_order_relaxed);
    most_peers_.store(said.send.peers_max, std::memory_order_relaxed);
    most_flows_.store(said.send.flows_max, std::memory_order_relaxed);
  }

  bool only_ll() const { return only_ll_.load(std::memory_order_relaxed); }
  /// More peers, or flows to each, than so many cables.
  bool is_many(std::int64_t cables) const {
    return most_peers_.load(std::memory_order_relaxed) > cables || most_flows_.load(std::memory_order_relaxed) > cables;
  }

 private:
  std::atomic<bool> only_ll_{false};
  std::atomic<std::int64_t> most_peers_{kUnknown}, most_flows_{kUnknown};
};

}  // namespace meshbed::net
