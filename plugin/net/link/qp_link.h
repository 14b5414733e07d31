#pragma once
// A QP link: the RDMA resources of one end of a connection on one cable. A completion queue, a queue pair (or two), the
// memory that the peer writes into, and the names of both ends.
//
// It may have rails: QP links without memory of their own, over other cables to the same peer, which carry stripes of
// long messages. They are lost and replaced together with it.

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/nic.h"
#include "plugin/net/wire/ring.h"
#include "plugin/net/wire/wire.h"
#include "plugin/verbs/completion.h"
#include "plugin/verbs/device.h"
#include "plugin/verbs/queue_pair.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

/// Of a port, by all sending connections of the process.
struct PortLoad {
  std::atomic<std::uint64_t> bytes{0};     // posted to it and not acknowledged yet
  std::atomic<std::uint32_t> qp_links{0};  // that begin on it, rails not counted
};

class RetiredLinks;

/// Our end of a future QP link.
struct LocalEnd {
  verbs::Device* device = nullptr;
  Nic nic;
  IpPrefix address;
  verbs::GidEntry gid;
  std::uint64_t node = 0;
  std::uint32_t psn = 0;
  std::uint16_t service_port = 0;  // WireEnd::service_port
  PortLoad* load = nullptr;        // of the port; the transport's
  RetiredLinks* spent = nullptr;   // the transport's; nullptr: QP links are destroyed at once

  /// Whether the port's present GID table still has our GID at its index.
  bool has_gid_in(const std::vector<verbs::GidEntry>& gids) const;
  /// Our port among `nics`, or the end.
  std::vector<Nic>::const_iterator port_in(const std::vector<Nic>& nics) const;
  /// Whether packets can still leave from there, by `nics`.
  bool stands(const std::vector<Nic>& nics) const;
};

/// Time-outs of queue pairs, marks of their packets, and what their work requests may hold.
struct QpLinkSettings {
  std::uint8_t queue_pair_timeout = 18;
  std::uint8_t queue_pair_retries = 6;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint16_t pkey_index = 0;
  bool inline_data = true;
  bool striped = false;  // the memory has room for the keys of rails
};

/// The QP link that a kind of connection needs.
struct QpLinkShape {
  bool sends = false;  // the data's direction, for the names of the ends
  verbs::QueuePairDepths depths;
  std::optional<verbs::QueuePairDepths> lane{};  // of a second queue pair with the same completion queue
  ibv_comp_channel* channel = nullptr;           // announces completions after completions().arm()
  std::size_t memory_bytes = 0;                  // that the peer writes into
  bool may_be_striped = false;                   // if the settings permit it too
  std::uint32_t memory_entries = kRingEntries;
  bool wants_notice = false;
};

class QpLink {
 public:
  static Result<std::unique_ptr<QpLink>> open(LocalEnd local, const QpLinkSettings& settings, const QpLinkShape& shape);

  /// The description for the other end; its mtu is that of our port.
  WireEnd describe() const;
  /// Connects the queue pairs to the other end by its description. `mtu` is the one that both ends use.
  Result<void> join(const WireEnd& peer, std::uint8_t mtu);
  /// Moves the queue pairs to ERR: everything that is posted is flushed, and nothing more is accepted from the peer.
  void abort();

  verbs::Device& device() const { return *local_.device; }
  const LocalEnd& local() const { return local_; }
  const WireEnd& peer() const { return peer_; }
  verbs::CompletionQueue& completions() { return queue_; }
  const verbs::QueuePair& pair() const { return pair_; }
  /// The second queue pair; only if the shape has one.
  const verbs::QueuePair& lane() const { return *lane_; }
  const verbs::RegisteredBuffer& memory() const { return memory_; }
  std::int64_t joined_ns() const { return joined_ns_; }

  /// Counts bytes of messages that it carried. A message counts on the QP link of its connection, and what came over a
  /// rail is then moved there.
  void carry(std::uint64_t bytes) { carried_bytes_ += static_cast<std::int64_t>(bytes); }
  void move_to(QpLink& rail, std::uint64_t bytes) {
    carried_bytes_ -= static_cast<std::int64_t>(bytes);
    rail.carry(bytes);
  }
  /// A message whose stripes arrived and that was lost nevertheless, with its QP link, may leave less than nothing: 0.
  std::uint64_t carried_bytes() const { return carried_bytes_ > 0 ? static_cast<std::uint64_t>(carried_bytes_) : 0; }

  bool has_rails() const { return has_rails_; }
  /// nullptr: there is none of this number, below kMaxRails.
  QpLink* rail(std::size_t number) const { return rails_[number].get(); }
  /// Adds a rail; an earlier one of this number, which was never used, is retired.
  void lay(std::size_t number, std::unique_ptr<QpLink> rail);
  /// "rocep1s0f0 192.168.100.1 QP 17 -> rocep1s0f1 192.168.100.2 QP 18"
  std::string ends_text() const;

 private:
  QpLink(LocalEnd local, const QpLinkSettings& settings, const QpLinkShape& shape);

  LocalEnd local_;
  QpLinkSettings settings_;
  bool sends_, wants_notice_;
  std::uint32_t memory_entries_;
  WireEnd peer_;
  std::int64_t joined_ns_ = 0;
  std::int64_t carried_bytes_ = 0;
  verbs::RegisteredBuffer memory_;
  verbs::CompletionQueue queue_;
  // After the queue and the memory, so that they go first.
  verbs::QueuePair pair_;
  std::optional<verbs::QueuePair> lane_;
  bool has_rails_ = false;
  std::array<std::unique_ptr<QpLink>, kMaxRails> rails_;
};

}  // namespace meshbed::net
