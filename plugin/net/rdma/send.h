#pragma once
// The sending end. A send waits until the first clear-to-send group in the ring has a part with its tag; then the send
// path carries it. Groups are served strictly in order.
//
// A lost QP link is replaced (send_recovery.h): everything that was sent and that the receiver has not served is sent
// again, in the same order, before anything new.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/link/connection.h"
#include "plugin/net/rdma/send_path.h"
#include "plugin/net/rdma/send_recovery.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

class SendConnection : public Connection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kSend;
  /// With a cable to the receiver.
  static Result<std::unique_ptr<SendConnection>> create(LocalEnd local, const ConnectionSettings& settings);
  /// Through relays; attach() follows when the handshake is over.
  static Result<std::unique_ptr<SendConnection>> create(LocalEnd local, const ConnectionSettings& settings,
                                                        const CircuitStart& circuit);
  void attach(Socket control);
  /// Receives the receiver's addresses and cables while the connection is made.
  SendRecovery& recovery() { return recovery_; }
  /// NCCL's hints on the traffic of the communicator.
  void heed(std::shared_ptr<const TrafficHint> hint) { hint_ = std::move(hint); }

  /// nullptr: not now (no clear-to-send, or no free request); call again. A message longer than the matching receive is
  /// an error for both ends: bytes are never cut off silently.
  Result<Request*> post(const SendArguments& send);

 private:
  friend class SendPath;
  friend class SendRecovery;
  SendConnection(std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings)
      : Connection(kKind, std::move(qp_link), settings) {}
  void completed(const ibv_wc& completion) override { send_path_->completed(completion); }
  void rail_completed(std::size_t rail, const ibv_wc& completion) override {
    send_path_->rail_completed(rail, completion);
  }
  void polled(int count) override;
  void closing() override { send_path_->closing(); }
  bool can_resume() const override { return recovery_.can_resume(); }
  void ended() override { recovery_.ended(); }
  void qp_link_lost() override { send_path_->qp_link_lost(); }
  void way_lost(const QpLink& lost) override { recovery_.way_lost(lost); }
  void resume() override { recovery_.resume(); }
  std::string obstacle() const override { return recovery_.obstacle(); }
  void probe() override { send_path_->probe(); }
  bool is_relayed() const override { return send_path_->is_relayed(); }
  void describe(ConnectionState& state) override;
  RequestState describe(const Request& request) override;
  std::uint64_t next_group() const override { return group_ + kMaxGroup; }  // posting ends the silence

  /// The QP link's memory: the peer writes clear-to-sends into it, and we stage the sizes of messages.
  const verbs::RegisteredBuffer& ring() { return qp_link().memory(); }
  /// The part of the group in turn that waits for `tag`; nullptr: none, or the group has not arrived.
  const ClearToSend* find_slot(int tag);
  /// As find_slot(), and nullptr also while sends are held back.
  const ClearToSend* ready_slot(int tag);
  bool see_group();
  /// The number of parts of the group that begins with this entry, if all have arrived in the ring; 0: not yet. An
  /// error: failed().
  std::uint32_t parts_arrived(std::uint64_t group);
  /// The sizes of a group's parts as they were sent, staged for the write that ends the group.
  std::uint32_t* size_records(std::uint64_t group) {
    return ring().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t) + slot_of(group);
  }
  ClearToSend* first_slot(std::uint64_t group) { return ring().as<ClearToSend>() + slot_of(group); }
  GroupSlot place_of(const ClearToSend& slot);
  void finish_part(std::uint32_t part);
  /// nullptr, or what is wrong with it.
  const char* problem_with(const SendArguments& send);
  [[gnu::cold, gnu::noinline]] Error refuse(const SendArguments& send, const char* problem);
  [[gnu::cold, gnu::noinline]] Result<Request*> refuse_oversized(const SendArguments& send, const GroupSlot& place);

  // --- for the state socket (send_state.cpp) ---
  struct Refused {
    int tag = 0;
    std::size_t size_bytes = 0;
  };
  std::string refused_text(const std::string& peer);

  std::unique_ptr<SendPath> send_path_;
  std::shared_ptr<const TrafficHint> hint_;
  std::uint64_t group_ = 0;        // first entry of the group that is being served
  std::uint32_t group_parts_ = 0;  // 0: not known yet
  std::uint32_t matched_ = 0;      // bit per part
  std::uint32_t matched_parts_ = 0;
  bool group_seen_ = false;         // all its entries are in the ring
  std::uint64_t confirmed_ = 0;     // the entries below are served, by the adapter's completions
  std::optional<Refused> refused_;  // the last send for which post() returned nullptr
  SendRecovery recovery_{*this};
};

}  // namespace meshbed::net
