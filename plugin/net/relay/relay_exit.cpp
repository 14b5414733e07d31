#include "plugin/net/relay/relay_exit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace meshbed::net {
namespace {

constexpr std::uint32_t kExitInlineBytes = kMaxGroup * sizeof(std::uint32_t);
/// Room for credits, and for a confirmation of each message in the window or beyond it.
constexpr std::uint32_t kLaneNotices = 4 * kPieceSlots;
/// Places in the send queue that a piece takes at most: payload and sizes.
constexpr std::uint32_t kPlacesOfPiece = 2;
/// One completion for this many pieces, and one for each end of a message that goes to the receiver: slots are returned
/// in groups of four (relay_entry.cpp), and nothing else needs a completion.
constexpr std::uint64_t kExitSignalEvery = 4;
/// A work request's id: the number of pieces, and in the bits above it the places in the send queue that its completion
/// frees.
constexpr unsigned kPlacesShift = 48;
constexpr std::uint64_t kQuestionBit = std::uint64_t{1} << (kPlacesShift - 1);

}  // namespace

Result<std::unique_ptr<RelayExit>> RelayExit::create(LocalEnd local, const ConnectionSettings& settings,
                                                     ibv_comp_channel* channel, const Job& job) {
  QpLinkShape shape{.sends = true,
                    .depths = {.sends = kSendDepth, .receives = kRingEntries, .inline_bytes = kExitInlineBytes},
                    .channel = channel,
                    .memory_bytes = kRelayedRingBytes,
                    .wants_notice = true};
  if (!job.to_receiver) shape.lane = verbs::QueuePairDepths{.sends = 1, .receives = kLaneNotices};
  auto qp_link = QpLink::open(std::move(local), settings.qp_link, shape);
  if (!qp_link) return qp_link.error();
  std::unique_ptr<RelayExit> made(new RelayExit(std::move(*qp_link), settings, job.to_receiver));
  made->window_.reset(ibv_reg_mr(made->device().pd(), job.window, kPieceWindowBytes, 0));
  if (!made->window_) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kDevice,
                 .text = "cannot register a relay's window on " + made->device().name() + ": " + std::strerror(errno),
                 .os_errno = errno};
  }
  made->next_.emplace(made->ring().as<std::uint64_t>() + kCreditsAt / sizeof(std::uint64_t));
  for (std::uint32_t notice = 0; notice < kRingEntries; ++notice) {
    if (!made->post_notice(made->pair())) return made->failure();
  }
  for (std::uint32_t notice = 0; !job.to_receiver && notice < kLaneNotices; ++notice) {
    if (!made->post_notice(made->lane())) return made->failure();
  }
  return made;
}

bool RelayExit::post_notice(const verbs::QueuePair& pair) {
  ibv_recv_wr work{};
  work.wr_id = RequestPool::kControlBit;
  return post_receive(work, pair);
}

void RelayExit::completed(const ibv_wc& completion) {
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    // The notice is about the ring, or the credits after it.
    post_notice(completion.qp_num == pair().number() ? pair() : lane());
    return;
  }
  queued_ -= static_cast<std::uint32_t>(completion.wr_id >> kPlacesShift);
  if ((completion.wr_id & kQuestionBit) != 0) --questions_;
  const std::uint64_t done_pieces = completion.wr_id & (kQuestionBit - 1);
  // In order; 0: the piece is not complete. At the end this includes the pieces without a write.
  advance_to(queued_ == questions_ ? taken_in_ : done_pieces);
}

void RelayExit::advance_to(std::uint64_t pieces) {
  std::uint64_t bytes = 0;
  for (; forwarded_ < pieces; ++forwarded_) bytes += std::exchange(bytes_[forwarded_ % bytes_.size()], 0);
  if (bytes > 0 && qp_link().local().load != nullptr)
    qp_link().local().load->bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

bool RelayExit::can_forward() const {
  return queued_ + kPlacesOfPiece <= kSendDepth && (to_receiver_ || next_->has_room());
}

std::uint64_t RelayExit::room() const {
  const std::uint64_t here = (kSendDepth - queued_) / kPlacesOfPiece;
  return to_receiver_ ? here : std::min(here, next_->room());
}

RelayExit::Announcement RelayExit::next_announcement() {
  auto* announced = ring().as<ClearToSend>();
  const std::uint32_t first = slot_of(taken_);
  if (!has_arrived(announced[first], taken_)) return {};
  const std::uint32_t parts = announced[first].count;
  if (parts < 1 || parts > kMaxGroup) {
    refuse("announced a receive of " + std::to_string(parts) + " parts");
    return {};
  }
  for (std::uint32_t part = 1; part < parts; ++part) {
    if (!has_arrived(announced[first + part], taken_ + part)) return {};
  }
  return {.entries = announced + first, .first = first, .parts = parts};
}

bool RelayExit::forward(const PieceHeader& piece) {
  taken_in_ = piece.sequence + 1;
  last_group_ = piece.group;
  bytes_[piece.sequence % bytes_.size()] = piece.payload_bytes;
  if (qp_link().local().load != nullptr)
    qp_link().local().load->bytes.fetch_add(piece.payload_bytes, std::memory_order_relaxed);
  return to_receiver_ ? forward_to_receiver(piece) : forward_to_relay(piece);
}

bool RelayExit::forward_to_relay(const PieceHeader& piece) {
  const std::uint32_t slot = next_->next_slot();
  ibv_sge source{.addr = reinterpret_cast<std::uintptr_t>(&piece),
                 .length = kPieceHeaderBytes + piece.payload_bytes,
                 .lkey = window_->lkey};
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(slot);
  work.wr.rdma.remote_addr = peer().memory_address + slot * std::uint64_t{kPieceStride} + kPieceHeaderAt;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (!post(work, &source, piece.sequence + 1, (piece.sequence + 1) % kExitSignalEvery == 0)) return false;
  next_->took_one();
  return true;
}

bool RelayExit::forward_to_receiver(const PieceHeader& piece) {
  // The group must be announced and not finished: otherwise the ring has other entries there, or none yet.
  const auto* entry = ring().as<ClearToSend>() + slot_of(piece.group) + piece.part;
  if (piece.group + piece.part >= taken_ || entry->sequence != sequence_of(piece.group + piece.part)) {
    return refuse("is the target of a piece, but has no such receive");
  }
  const bool refuses = (piece.flags & kPieceRefuses) != 0;
  if (!refuses && piece.message_bytes > entry->capacity_bytes)
    return refuse("is the target of a piece that is too long");
  const bool ends = (piece.flags & kPieceEndsMessage) != 0;
  const bool alone = piece.parts == 1;
  const bool sizes_follow = (piece.flags & kPieceEndsGroup) != 0;
  sizes_[piece.part] = piece.message_bytes;
  const bool immediate = refuses || (alone && ends);
  if (piece.payload_bytes > 0 || immediate) {
    ibv_sge source{
        .addr = reinterpret_cast<std::uintptr_t>(&piece + 1), .length = piece.payload_bytes, .lkey = window_->lkey};
    ibv_send_wr work{};
    work.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    work.imm_data = htonl(refuses ? kRefusedSize : piece.message_bytes);
    work.wr.rdma.remote_addr = entry->address + piece.offset_bytes;
    work.wr.rdma.rkey = entry->rkey;
    const bool signalled = ends || (piece.sequence + 1) % kExitSignalEvery == 0;
    if (!post(work, &source, sizes_follow ? 0 : piece.sequence + 1, signalled && !sizes_follow)) return false;
  } else if (queued_ == questions_ && !sizes_follow) {
    advance_to(piece.sequence + 1);  // an empty part of a group needs no write
  }
  return !sizes_follow || write_sizes(piece);
}

bool RelayExit::write_sizes(const PieceHeader& header) {
  const std::uint32_t first = slot_of(header.group);
  auto* records = ring().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t) + first;
  std::memcpy(records, sizes_.data(), header.parts * sizeof(std::uint32_t));
  const std::uint64_t offset = kSizesAt + first * sizeof(std::uint32_t);
  ibv_sge source{.addr = ring().address() + offset,
                 .length = static_cast<std::uint32_t>(header.parts * sizeof(std::uint32_t)),
                 .lkey = ring().lkey()};
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(header.parts);
  work.wr.rdma.remote_addr = peer().memory_address + offset;
  work.wr.rdma.rkey = peer().memory_rkey;
  return post(work, &source, header.sequence + 1, true);
}

bool RelayExit::post(ibv_send_wr& work, ibv_sge* source, std::uint64_t done_pieces, bool signalled) {
  ++queued_;
  ++unsignalled_;
  work.wr_id = done_pieces | std::uint64_t{unsignalled_} << kPlacesShift;
  work.sg_list = source;
  work.num_sge = source->length > 0 ? 1 : 0;
  work.send_flags = flag_if(signalled, IBV_SEND_SIGNALED);
  if (signalled) unsignalled_ = 0;
  return post_send(work);
}

void RelayExit::ask_neighbour() {
  if (queued_ + kPlacesOfPiece > kSendDepth) return;  // the writes in flight already serve as a probe
  ++queued_;
  ++questions_;
  post_probe(kQuestionBit | std::uint64_t{++unsignalled_} << kPlacesShift);
  unsignalled_ = 0;
}

bool RelayExit::idle() {
  if (closed_there_) return true;
  if (queued_ > questions_ && queued_ == unsignalled_ + questions_) ask_neighbour();
  return queued_ == questions_;
}

void RelayExit::closed_there(std::uint64_t served) {
  closed_there_ = true;
  if (last_group_ < served) advance_to(taken_in_);
}

bool RelayExit::refuse(const std::string& what) {
  fail({.code = ErrorCode::kRemote,
        .scope = Scope::kQueuePair,
        .text = ends_text() + ": the peer " + what,
        .os_errno = 0});
  return false;
}

}  // namespace meshbed::net
