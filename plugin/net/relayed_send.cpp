#include "plugin/net/relayed_send.h"

#include <arpa/inet.h>

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/memory.h"

namespace meshbed::net {
namespace {

/// Empty polls between two looks at the control connection: a system call for so many polls costs nothing.
constexpr int kPollsBetweenLooks = 32;
/// More than the window: a credit may come back before our own completion is polled.
constexpr std::uint32_t kSendDepth = 2 * kPieceSlots;

}  // namespace

Result<std::unique_ptr<RelayedSend>> RelayedSend::create(LocalEnd local, const ConnectionSettings& settings,
                                                         std::uint64_t circuit, std::uint8_t hop_limit) {
  const LegShape shape{.sends = true,
                       .depths = {.sends = kSendDepth, .receives = 1, .send_pieces = 2},
                       .lane = verbs::QueuePairDepths{.sends = 1, .receives = 1},
                       .memory_bytes = kRelayedRingBytes};
  auto leg = Leg::open(std::move(local), settings.leg, shape);
  if (!leg) return leg.error();
  std::unique_ptr<RelayedSend> send(new RelayedSend(std::move(*leg), settings));
  send->circuit_ = circuit;
  send->hop_limit_ = hop_limit;
  send->window_.emplace(send->ring().as<std::uint64_t>() + kCreditsAt / sizeof(std::uint64_t));
  auto headers = verbs::RegisteredBuffer::create(send->device().pd(), kPieceSlots * sizeof(PieceHeader));
  if (!headers) return headers.error();
  send->headers_ = std::move(*headers);
  return send;
}

PieceHeader RelayedSend::header_for(const Place& place) const {
  return {.magic = kPieceMagic,
          .hop_limit = hop_limit_,
          .circuit = circuit_,
          .group = place.group,
          .part = static_cast<std::uint8_t>(place.part),
          .parts = static_cast<std::uint8_t>(place.parts)};
}

bool RelayedSend::carry(const SendArguments& send, const Place& place, Request& request) {
  Job& job = jobs_[queued_++ % jobs_.size()];
  job.request = &request;
  job.data = static_cast<const std::uint8_t*>(send.data);
  job.lkey = send.memory != nullptr ? send.memory->on(device())->lkey() : 0;
  job.header = header_for(place);
  job.header.message_bytes = static_cast<std::uint32_t>(send.size_bytes);
  if (place.parts > 1 && place.last) job.header.flags |= kPieceEndsGroup;
  return push();
}

bool RelayedSend::carry_refusal(const Place& place) {
  Job& job = jobs_[queued_++ % jobs_.size()];
  job.request = nullptr;
  job.header = header_for(place);
  job.header.flags = kPieceRefuses;
  return push();
}

bool RelayedSend::push() {
  while (begun_ < queued_ && window_->has_room() && posted_ < kSendDepth) {
    if (!send_piece(jobs_[begun_ % jobs_.size()])) return false;
  }
  return true;
}

bool RelayedSend::send_piece(Job& job) {
  PieceHeader& header = job.header;
  const std::uint32_t slot = window_->next_slot();
  header.sequence = window_->sent();
  header.payload_bytes = std::min(kPieceBytes, header.message_bytes - header.offset_bytes);
  const bool last = header.offset_bytes + header.payload_bytes == header.message_bytes;
  if (last && job.request != nullptr) header.flags |= kPieceEndsMessage;
  PieceHeader sent = header;
  if (!last) sent.flags &= static_cast<std::uint16_t>(~kPieceEndsGroup);
  headers_.as<PieceHeader>()[slot] = sent;

  ibv_sge parts[2] = {
      {.addr = headers_.address() + slot * sizeof(PieceHeader), .length = sizeof(PieceHeader), .lkey = headers_.lkey()},
      {.addr = reinterpret_cast<std::uintptr_t>(job.data) + header.offset_bytes,
       .length = header.payload_bytes,
       .lkey = job.lkey}};
  ibv_send_wr work{};
  // Completions come in order; only a request's last piece says which one it was.
  work.wr_id = last && job.request != nullptr ? job.request->work_id() : RequestPool::kControlBit;
  work.sg_list = parts;
  work.num_sge = header.payload_bytes > 0 ? 2 : 1;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(slot);
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer().memory_address + slot * std::uint64_t{kPieceStride} + kPieceHeaderAt;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (!post_send(work)) return false;
  ++posted_;
  window_->took_one();
  header.offset_bytes += header.payload_bytes;
  if (last) ++begun_;
  return true;
}

void RelayedSend::completed(const ibv_wc& completion) {
  --posted_;
  Request* request = pool_.find(completion.wr_id);
  if (request != nullptr) finish(*request, request->sizes[0]);  // else: a piece in the middle, or the refusal
}

void RelayedSend::polled(int count) {
  if (impaired()) return;
  push();
  empty_polls_ = count > 0 ? 0 : empty_polls_ + 1;
  if (empty_polls_ % kPollsBetweenLooks == kPollsBetweenLooks - 1) look_at_control();
}

void RelayedSend::look_at_control() {
  auto message = reader_.read(control_);
  if (message && !*message) return;
  std::string text = message ? (*message)->reason : message.error().text;
  fail({.code = ErrorCode::kRemote,
        .scope = Scope::kQueuePair,
        .text = ends_text() + ": the relay gave up: " + text,
        .os_errno = 0});
}

void RelayedSend::closing() {
  if (failed() || !control_.is_open()) return;
  // What the relay has taken it still delivers; this says how much that is.
  MessageWriter writer;
  writer.start({.type = WireType::kEnd, .cookie = circuit_, .end = {}, .reason = "", .pieces = window_->sent()});
  if (auto written = writer.write(control_); !written || !*written) {
    MESHBED_LOG(LogLevel::kTrace, "%s: the relay could not be told of the end", ends_text().c_str());
  }
}

}  // namespace meshbed::net
