#pragma once
// The send path over a cable to the receiver: RDMA writes into the memory that the clear-to-send names.
//
//   group of one  the last (usually only) write carries the size as immediate value
//   larger group  each part is written as it comes; the last one is followed by a write of all sizes with an immediate
//
// Messages longer than the port's limit are cut into several writes. Every send has exactly one signalled work request
// on each queue pair, so the send queues drain by themselves. Cost of a send: one acquire load, one ibv_post_send, one
// ibv_poll_cq.
//
// If the connection has rails beside its QP link, long messages are striped (striping.h): each rail carries its stripe
// and an immediate value. Sends then complete in order, so that the completed sends are those the receiver has served.

#include <array>
#include <memory>

#include "plugin/net/link/connection.h"
#include "plugin/net/rdma/send_path.h"

namespace meshbed::net {

class DirectSendPath : public SendPath {
 public:
  static QpLinkShape shape_on(const verbs::Device& device);
  /// Queue sizes of a rail.
  static QpLinkShape rail_shape_on(const verbs::Device& device);
  /// Whether the longest message fits into a rail's queue.
  static bool may_be_rail(const LocalEnd& local);
  DirectSendPath(SendConnection& connection, const StripeSettings& stripes);
  ~DirectSendPath() override { forget_loads(); }

  const char* size_problem(std::size_t size_bytes) const override;
  bool has_room(std::size_t size_bytes) const override;
  bool carry(const SendArguments& send, const GroupSlot& place, Request& request) override;
  bool carry_known(const GroupSlot&, std::uint32_t) override { return true; }  // the sizes of a group are staged
  bool carry_refusal(const GroupSlot& place) override;
  void completed(const ibv_wc& completion) override;
  void rail_completed(std::size_t rail, const ibv_wc& completion) override;
  bool takes_rails() const override { return stripes_.from_bytes > 0; }
  void rail_laid(std::size_t rail) override;
  bool settled() override { return own_.queued == 0 && (rails_ == nullptr || rails_->ordered == rails_->completed); }
  void qp_link_lost() override { forget_loads(); }
  void probe() override;
  void describe(ConnectionState& state) override;

 private:
  static constexpr std::uint64_t kProbeId = RequestPool::kControlBit | 1U;  // the refusal has 0
  static constexpr std::uint32_t kSendDepth = 2 * kRingEntries;

  /// One queue pair with its work in flight.
  struct StripePath {
    QpLink* qp_link = nullptr;
    std::uint32_t depth = 0;
    std::size_t chunk_bytes = 0;
    std::uint32_t queued = 0;           // places taken in the send queue
    std::uint64_t in_flight_bytes = 0;  // our part of the port's load

    void add_load(std::uint64_t bytes);
    void take_load(std::uint64_t bytes);
  };
  /// The part of one message that goes over one queue pair.
  struct Stripe {
    StripePath* way = nullptr;
    std::uint64_t begin = 0, end = 0;
    std::uint32_t rkey = 0;
    bool ends_in_immediate = false;
    bool signalled = true;
    std::uint32_t immediate = 0;
  };
  struct Rail : StripePath {
    // The size of each signalled write, oldest first; they complete in order.
    struct Sent {
      std::uint32_t bytes = 0, places = 0;
    };
    std::array<Sent, kSendDepth> sent{};
    std::uint64_t first_sent = 0, next_sent = 0;
  };
  struct Rails {
    std::uint32_t laid = 0;  // bit per rail
    std::array<std::unique_ptr<Rail>, kMaxRails> rail;
    std::array<Request*, RequestPool::kRequests> order{};
    std::uint64_t ordered = 0, completed = 0;  // count for ever
  };

  bool has_room_in_order() const {
    return rails_ == nullptr || rails_->ordered - rails_->completed < rails_->order.size();
  }
  void open_way(StripePath& way, QpLink& qp_link, std::uint32_t depth);
  static std::uint32_t chunks_of(const StripePath& way, std::size_t size_bytes) {
    // Nearly always one; a division costs more than the rest of has_room().
    if (size_bytes <= way.chunk_bytes) return size_bytes > 0 ? 1 : 0;
    return static_cast<std::uint32_t>((size_bytes + way.chunk_bytes - 1) / way.chunk_bytes);
  }
  bool write_message(const SendArguments& send, const GroupSlot& place, Request& request);
  bool write(const SendArguments& send, const GroupSlot& place, const Stripe& stripe, Request& request);
  bool write_pieces(const SendArguments& send, const GroupSlot& place, const Stripe& stripe, Request& request);
  bool write_sizes(const GroupSlot& place, Request& request);
  /// Removes this connection's bytes from the loads of its ports.
  void forget_loads();
  void one_has_come(Request& request);
  void complete(Request& request);

  // --- stripes (striped_send_path.cpp) ---
  /// Bit per rail that the message goes over; 0: it is not striped.
  std::uint32_t rails_for(const SendArguments& send, const GroupSlot& place);
  /// Why NCCL's hints keep long messages on the QP link's own cable; nullptr: they do not.
  const char* reason_to_stay(std::uint32_t rails);
  bool write_stripes(const SendArguments& send, const GroupSlot& place, std::uint32_t rails, Request& request);
  const RailKeys& keys_of(const GroupSlot& place);
  void complete_in_order();

  StripeSettings stripes_;
  StripePath own_;
  std::unique_ptr<Rails> rails_;
  bool probing_ = false;
  bool counts_ = false;  // counted among its port's QP links
};

}  // namespace meshbed::net
