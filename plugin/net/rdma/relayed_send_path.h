#pragma once
// The send path without a cable to the receiver: cuts messages into pieces for the first relay of a chain (piece.h).
//
// Pieces are sent as the relay's window allows, from any call: post() or test(). A request completes when the relays
// have confirmed, each to the previous one, that its last piece is with the receiver. Until then the caller does not
// get its buffer back, so that it can be sent from again if a relay is lost.

#include <array>
#include <memory>
#include <string>

#include "plugin/net/rdma/send_path.h"
#include "plugin/net/relay/circuit_start.h"
#include "plugin/net/wire/neighbour_map.h"
#include "plugin/net/wire/piece.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class RelayedSendPath : public SendPath {
 public:
  static QpLinkShape shape_on(const verbs::Device& device);
  static Result<std::unique_ptr<RelayedSendPath>> create(SendConnection& connection, const CircuitStart& circuit);
  /// The control connection to the relay, by which each side detects the end of the other.
  void attach(Socket control) { control_ = std::move(control); }
  const CircuitStart& circuit() const { return circuit_; }
  ~RelayedSendPath() override { qp_link_lost(); }

  const char* size_problem(std::size_t) const override { return nullptr; }
  bool has_room(std::size_t) const override { return queued_ - done_ < kJobs - kMaxGroup; }
  bool carry(const SendArguments& send, const GroupSlot& place, Request& request) override;
  bool carry_known(const GroupSlot& place, std::uint32_t size_bytes) override;
  bool carry_refusal(const GroupSlot& place) override;
  void completed(const ibv_wc& completion) override;
  void polled(int count) override;
  void closing() override;
  void qp_link_lost() override;
  void retire() override { control_.close(); }
  void probe() override;
  bool settled() override { return done_ == queued_; }
  bool is_relayed() const override { return true; }
  void describe(ConnectionState& state) override;

 private:
  struct Job {
    Request* request = nullptr;
    const std::uint8_t* data = nullptr;
    std::uint32_t lkey = 0;
    PieceHeader header;              // of the next piece
    std::uint64_t end_sequence = 0;  // pieces up to the last one of this job
  };
  /// One for each request, one for the refusal, and the known parts of one group.
  static constexpr std::size_t kJobs = RequestPool::kRequests + 1 + kMaxGroup;

  RelayedSendPath(SendConnection& connection, const CircuitStart& circuit);
  PieceHeader header_for(const GroupSlot& place) const;
  /// Sends as many pieces as the window allows.
  bool push();
  bool send_piece(Job& job);
  /// Completes the jobs whose pieces are all with the receiver.
  void take_confirmations();
  /// Reads the control connection for the relay's REFUSE.
  void look_at_control();

  CircuitStart circuit_;
  verbs::RegisteredBuffer headers_;  // one a slot
  PieceWindow window_;
  // All count for ever. Below begun_: all pieces are out; below done_: they are with the receiver.
  std::array<Job, kJobs> jobs_;
  std::uint64_t queued_ = 0, begun_ = 0, done_ = 0;
  std::uint64_t acknowledged_ = 0;  // pieces whose memory our adapter no longer reads; probes do not count
  std::uint32_t posted_ = 0;        // places taken in the send queue
  int empty_polls_ = 0;
  PortLoad* load_;                     // of the port; nullptr: not counted
  std::uint64_t in_flight_bytes_ = 0;  // our part of it: messages that are not with the receiver
  Socket control_;
  MessageReader reader_;
};

}  // namespace meshbed::net
