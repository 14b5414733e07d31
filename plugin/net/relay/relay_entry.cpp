#include "plugin/net/relay/relay_entry.h"

#include <arpa/inet.h>

#include <cstring>
#include <utility>

namespace meshbed::net {
namespace {

/// Every so many writes one is signalled, so that the send queue drains.
constexpr std::uint32_t kEntrySignalEvery = 16;
constexpr std::uint32_t kEntryInlineBytes = kMaxGroup * sizeof(std::uint32_t);
constexpr std::uint64_t kTellEvery = kPieceSlots / 4;

}  // namespace

Result<std::unique_ptr<RelayEntry>> RelayEntry::create(LocalEnd local, const ConnectionSettings& settings,
                                                       ibv_comp_channel* channel, std::uint64_t circuit) {
  const QpLinkShape shape{
      .depths = {.sends = kSendDepth, .receives = kPieceSlots, .inline_bytes = kEntryInlineBytes},
      .lane = verbs::QueuePairDepths{.sends = kSendDepth, .receives = 1, .inline_bytes = kEntryInlineBytes},
      .channel = channel,
      .memory_bytes = kPieceWindowBytes,
      .memory_entries = kPieceSlots};
  auto qp_link = QpLink::open(std::move(local), settings.qp_link, shape);
  if (!qp_link) return qp_link.error();
  std::unique_ptr<RelayEntry> entry(new RelayEntry(std::move(*qp_link), settings, circuit));
  auto staging = verbs::RegisteredBuffer::create(entry->device().pd(), kRelayedRingBytes);
  if (!staging) return staging.error();
  entry->staging_ = std::move(*staging);
  for (std::size_t slot = 1; slot < kPieceSlots; ++slot) entry->receives_[slot - 1].next = &entry->receives_[slot];
  if (!entry->post_receives(kPieceSlots)) return entry->failure();
  return entry;
}

bool RelayEntry::post_receives(std::uint64_t count) {
  ibv_recv_wr& last = receives_[count - 1];
  ibv_recv_wr* const after_last = std::exchange(last.next, nullptr);
  const bool posted = post_receive(receives_.front());
  last.next = after_last;
  return posted;
}

PieceHeader& RelayEntry::piece(std::uint64_t number) {
  const std::uint64_t slot = number % kPieceSlots;
  return *reinterpret_cast<PieceHeader*>(qp_link().memory().as<std::uint8_t>() + slot * kPieceStride + kPieceHeaderAt);
}

void RelayEntry::completed(const ibv_wc& completion) {
  if ((completion.wr_id & RequestPool::kControlBit) != 0) {
    ReturnPath& way = completion.qp_num == lane().number() ? credits_ : announcements_;
    way.queued -= static_cast<std::uint32_t>(completion.wr_id & 0xffffU);
    return;
  }
  // Pieces arrive in order, so the immediate value only confirms the count.
  const char* problem = ntohl(completion.imm_data) != arrived_ % kPieceSlots || arrived_ - released_ >= kPieceSlots
                            ? "a piece in the wrong slot"
                            : problem_of(piece(arrived_), circuit_, arrived_);
  if (problem != nullptr) {
    fail({.code = ErrorCode::kRemote,
          .scope = Scope::kQueuePair,
          .text = ends_text() + ": the peer sent " + problem,
          .os_errno = 0});
    return;
  }
  ++arrived_;
}

void RelayEntry::release_up_to(std::uint64_t pieces) {
  if (pieces > released_) {
    if (!post_receives(pieces - released_)) return;
    released_ = pieces;
  }
  // Credits are written for every quarter of the window exactly, so that every run has the same number of writes; the
  // sender, which keeps three quarters, does not run out of credits because of it.
  while (released_ - told_ >= kTellEvery && credits_.has_room()) {
    auto* credits = staging_.as<std::uint64_t>() + kCreditsAt / sizeof(std::uint64_t);
    *credits = told_ + kTellEvery;
    const ibv_sge source{
        .addr = staging_.address() + kCreditsAt, .length = sizeof(std::uint64_t), .lkey = staging_.lkey()};
    if (!write_back(credits_, kCreditsAt, source)) return;
    told_ += kTellEvery;
  }
}

bool RelayEntry::announce(const ClearToSend* entries, std::uint32_t first, std::uint32_t parts) {
  const std::uint64_t offset = first * sizeof(ClearToSend);
  const auto bytes = static_cast<std::uint32_t>(parts * sizeof(ClearToSend));
  std::memcpy(staging_.as<std::uint8_t>() + offset, entries, bytes);
  return write_back(announcements_, offset,
                    {.addr = staging_.address() + offset, .length = bytes, .lkey = staging_.lkey()});
}

bool RelayEntry::confirm(std::uint64_t pieces) {
  *reinterpret_cast<std::uint64_t*>(staging_.as<std::uint8_t>() + kDeliveredAt) = pieces;
  return write_back(credits_, kDeliveredAt,
                    {.addr = staging_.address() + kDeliveredAt, .length = sizeof pieces, .lkey = staging_.lkey()});
}

/// Uses the queue pair of announcements, whose order does not matter to the peer.
void RelayEntry::ask_neighbour() {
  if (!announcements_.has_room()) return;
  ++announcements_.queued;
  post_probe(RequestPool::kControlBit | ++announcements_.unsignalled);
  announcements_.unsignalled = 0;
}

bool RelayEntry::write_back(ReturnPath& way, std::uint64_t offset, const ibv_sge& source) {
  ibv_sge copy = source;
  ibv_send_wr work{};
  ++way.queued;
  const bool signalled = ++way.unsignalled == kEntrySignalEvery;
  work.wr_id = RequestPool::kControlBit | way.unsignalled;
  work.sg_list = &copy;
  work.num_sge = 1;
  work.opcode = peer().wants_notice ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  work.send_flags =
      flag_if(signalled, IBV_SEND_SIGNALED) | flag_if(source.length <= pair().inline_bytes(), IBV_SEND_INLINE);
  work.wr.rdma.remote_addr = peer().memory_address + offset;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (signalled) way.unsignalled = 0;
  return post_send(work, &way == &credits_ ? lane() : pair());
}

}  // namespace meshbed::net
