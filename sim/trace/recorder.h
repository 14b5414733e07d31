#pragma once
// Recorder: sees each message once, as it completes; keeps the digest, what each pair of ports carried, the first
// message that breaks a promise, and (where asked) writes one line of messages.csv for each.
//
// Owned by the caller that runs a simulation; must outlive the World's run. Does not block and keeps no message.

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "sim/trace/digest.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::sim {

/// One direction between two ranks over one pair of ports.
struct PairKey {
  int source_rank = -1, destination_rank = -1;
  models::PortRef source, destination;
  auto operator<=>(const PairKey&) const = default;
};

struct PairUsage {
  std::uint64_t messages = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t wire_bytes = 0;
};

/// What the proofs read about the messages of a run.
struct MessageTotals {
  std::uint64_t messages = 0;
  std::uint64_t succeeded = 0;      // IBV_WC_SUCCESS at the requester
  std::uint64_t payload_bytes = 0;  // of all
  std::uint64_t retransmitted = 0;  // took more than one try
  std::uint64_t unmatched = 0;      // succeeded, and was not executed exactly once at the responder
  std::string first_unmatched;      // names it
};

class Recorder : public MessageSink {
 public:
  /// `trace_path`: where messages.csv goes; empty: nowhere. Throws std::runtime_error where it cannot be opened.
  Recorder(const models::Cluster& cluster, const std::string& trace_path);

  void message(const MessageRecord& record) override;
  /// `sink` gets each record as well, with its destination rank as soon as the connection has shown it. It must live as
  /// long.
  void also_to(MessageSink& sink) { also_to_ = &sink; }
  /// Ends messages.csv; throws std::runtime_error where it could not be written in full.
  void close();

  Digest& digest() { return digest_; }
  const MessageTotals& totals() const { return totals_; }
  const std::map<PairKey, PairUsage>& pairs() const { return pairs_; }
  /// What pairs have carried since this was called before.
  std::map<PairKey, PairUsage> take_carried() {
    ++takes_;
    return std::exchange(carried_, {});
  }
  /// Queue pair connections that carried anything.
  std::uint64_t connections() const { return connections_.size(); }

 private:
  using QueuePairId = std::pair<models::PortRef, std::uint32_t>;
  /// What was found for a queue pair's message before: the next one mostly goes the same way.
  struct Flow {
    models::PortRef source, destination;
    std::uint32_t destination_qp = 0;
    // In connections_: the rank at the other end, once any message of the connection has contained it. A queue pair
    // that is gone before its last message is acknowledged no longer has its owner's rank.
    int* destination_rank = nullptr;
    PairUsage* usage = nullptr;  // in pairs_, for usage_rank
    int usage_rank = -1;
    PairUsage* carried = nullptr;  // in carried_, for usage_rank, as long as nothing was taken since
    std::uint64_t carried_at = 0;  // takes_
    std::string ends;              // ports and GIDs: "node0/rocep1s0f0,node1/rocep1s0f0,::ffff:192.168.100.1,..."
  };
  Flow& flow_of(const MessageRecord& record);
  void write_line(const MessageRecord& record, const std::string& ends);

  const models::Cluster& cluster_;
  std::string trace_path_;
  std::ofstream trace_;
  MessageSink* also_to_ = nullptr;
  Digest digest_;
  MessageTotals totals_;
  std::map<PairKey, PairUsage> pairs_, carried_;  // carried_: since the last take
  std::uint64_t takes_ = 1;
  std::map<std::pair<QueuePairId, QueuePairId>, std::pair<int, int>> connections_;  // ranks of its ends; -1: unknown
  std::unordered_map<std::uint32_t, Flow> flows_;  // by the source's queue pair number, unique in a World
};

/// "node0/rocep1s0f0"; "nowhere" where the cluster has no such port (a message that never found its responder).
std::string endpoint_name(const models::Cluster& cluster, const models::PortRef& port);
/// "rank 0 node0/a -> rank 1 node1/b, message 7 of QP 0x12": names one message in reports and proofs.
std::string message_name(const models::Cluster& cluster, const MessageRecord& record);

}  // namespace meshbed::sim
