#pragma once
// What NCCL's hints (setNetAttr) mean for striping. A hint contains the protocols that a communicator uses at present,
// the number of peers that it exchanges data with at the same time, and the number of flows to each. Striping is for
// few long messages, which would leave cables idle. Two hints keep a connection's messages on its own cable:
// clang-format off
//   protocol LL alone      latency counts, and a striped message is complete only with the last of its stripes
//   many peers or flows    more of them at a time than cables to this peer: they fill the cables by themselves, if each
//                          cable has a connection that begins on it. If NCCL has put all of its flows on one port,
//                          messages are striped nevertheless, to use the others.
// clang-format on

#include <atomic>
#include <cstdint>

#include "plugin/net/process/state.h"

namespace meshbed::net {

/// The hints of one communicator. Written by setNetAttr, read by its sending connections; any thread.
class TrafficHint {
 public:
  void note(const CommunicatorState& said) {
    constexpr std::int64_t kOnlyLl = 1;  // bit NCCL_PROTO_LL
    only_ll_.store(said.proto == kOnlyLl, std::memory_order_relaxed);
    most_peers_.store(said.send.peers_max, std::memory_order_relaxed);
    most_flows_.store(said.send.flows_max, std::memory_order_relaxed);
  }

  bool only_ll() const { return only_ll_.load(std::memory_order_relaxed); }
  /// Whether there are more peers, or flows to each, than `cables`.
  bool is_many(std::int64_t cables) const {
    return most_peers_.load(std::memory_order_relaxed) > cables || most_flows_.load(std::memory_order_relaxed) > cables;
  }

 private:
  std::atomic<bool> only_ll_{false};
  std::atomic<std::int64_t> most_peers_{kUnknown}, most_flows_{kUnknown};
};

}  // namespace meshbed::net
