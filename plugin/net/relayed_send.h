#pragma once
// A sending end without a cable to the receiver: cuts messages into pieces for the first relay of a chain (piece.h).
//
// Pieces go out as the relay's window allows, from whichever call comes by: post(), test(). A request is complete when
// its last piece is in the relay's memory, so that the caller may use its buffer again; bytes on their way to the
// receiver belong to the relays then, and survive close().

#include <array>
#include <memory>
#include <optional>

#include "plugin/net/piece.h"
#include "plugin/net/send.h"
#include "plugin/net/socket.h"

namespace meshbed::net {

class RelayedSend : public SendConnection {
 public:
  static Result<std::unique_ptr<RelayedSend>> create(LocalEnd local, const ConnectionSettings& settings,
                                                     std::uint64_t circuit, std::uint8_t hop_limit);
  /// The control connection to the relay, over which each side learns that the other one ends.
  void attach(Socket control) { control_ = std::move(control); }

 private:
  struct Job {
    Request* request = nullptr;
    const std::uint8_t* data = nullptr;
    std::uint32_t lkey = 0;
    PieceHeader header;  // of the next piece
  };

  using SendConnection::SendConnection;
  void completed(const ibv_wc& completion) override;
  void polled(int count) override;
  void closing() override;
  const char* size_problem(std::size_t) const override { return nullptr; }
  bool has_room(std::size_t) const override { return queued_ - begun_ < jobs_.size(); }
  bool carry(const SendArguments& send, const Place& place, Request& request) override;
  bool carry_refusal(const Place& place) override;

  PieceHeader header_for(const Place& place) const;
  /// Sends what the window allows.
  bool push();
  bool send_piece(Job& job);
  /// What the relay says when it gives up.
  void look_at_control();

  std::uint64_t circuit_ = 0;
  std::uint8_t hop_limit_ = 0;
  verbs::RegisteredBuffer headers_;  // one a slot
  std::optional<PieceWindow> window_;
  // Every request is one job; both count for ever. Below begun_: all pieces are out.
  std::array<Job, RequestPool::kRequests + 1> jobs_;  // and the refusal
  std::uint64_t queued_ = 0, begun_ = 0;
  std::uint32_t posted_ = 0;  // places taken in the send queue
  int empty_polls_ = 0;
  Socket control_;
  MessageReader reader_;
};

}  // namespace meshbed::net
