#include "plugin/net/rdma/relayed_send_path.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/process/memory.h"

namespace meshbed::net {
namespace {

/// Empty polls between two reads of the control connection, so that the cost of the system call is negligible.
constexpr int kPollsBetweenLooks = 32;
/// More than the window: a credit may come back before our own completion is polled.
constexpr std::uint32_t kRelayedSendDepth = 2 * kPieceSlots;

}  // namespace

QpLinkShape RelayedSendPath::shape_on(const verbs::Device&) {
  return {.sends = true,
          .depths = {.sends = kRelayedSendDepth, .receives = 1, .send_pieces = 2},
          .lane = verbs::QueuePairDepths{.sends = 1, .receives = 1},
          .memory_bytes = kRelayedRingBytes};
}

RelayedSendPath::RelayedSendPath(SendConnection& connection, const CircuitStart& circuit)
    : SendPath(connection),
      circuit_(circuit),
      window_(ring().as<std::uint64_t>() + kCreditsAt / sizeof(std::uint64_t)),
      load_(qp_link().local().load) {}

Result<std::unique_ptr<RelayedSendPath>> RelayedSendPath::create(SendConnection& connection,
                                                                 const CircuitStart& circuit) {
  std::unique_ptr<RelayedSendPath> send_path(new RelayedSendPath(connection, circuit));
  auto headers = verbs::RegisteredBuffer::create(send_path->qp_link().device().pd(), kPieceSlots * sizeof(PieceHeader));
  if (!headers) return headers.error();
  send_path->headers_ = std::move(*headers);
  return send_path;
}

PieceHeader RelayedSendPath::header_for(const GroupSlot& place) const {
  return {.magic = kPieceMagic,
          .hop_limit = circuit_.hop_limit,
          .circuit = circuit_.number,
          .group = place.group,
          .part = static_cast<std::uint8_t>(place.part),
          .parts = static_cast<std::uint8_t>(place.parts)};
}

bool RelayedSendPath::carry(const SendArguments& send, const GroupSlot& place, Request& request) {
  Job& job = jobs_[queued_++ % jobs_.size()];
  job.request = &request;
  job.data = static_cast<const std::uint8_t*>(send.data);
  job.lkey = send.memory != nullptr && send.size_bytes > 0 ? send.memory->on(qp_link().device())->lkey() : 0;
  job.header = header_for(place);
  job.header.message_bytes = static_cast<std::uint32_t>(send.size_bytes);
  if (place.parts > 1 && place.last) job.header.flags |= kPieceEndsGroup;
  request.closes = place.parts == 1 || place.last ? place.group + place.parts : 0;
  in_flight_bytes_ += send.size_bytes;
  if (load_ != nullptr) load_->bytes.fetch_add(send.size_bytes, std::memory_order_relaxed);
  return push();
}

bool RelayedSendPath::carry_known(const GroupSlot& place, std::uint32_t size_bytes) {
  Job& job = jobs_[queued_++ % jobs_.size()];
  job.request = nullptr;
  job.header = header_for(place);
  // A piece after its message's last byte: the last relay takes the size from it and writes nothing.
  job.header.message_bytes = job.header.offset_bytes = size_bytes;
  job.header.flags = kPieceEndsMessage;
  return push();
}

bool RelayedSendPath::carry_refusal(const GroupSlot& place) {
  Job& job = jobs_[queued_++ % jobs_.size()];
  job.request = nullptr;
  job.header = header_for(place);
  job.header.flags = kPieceRefuses | kPieceEndsMessage;
  return push();
}

bool RelayedSendPath::push() {
  while (begun_ < queued_ && window_.has_room() && posted_ < kRelayedSendDepth) {
    if (!send_piece(jobs_[begun_ % jobs_.size()])) return false;
  }
  return true;
}

bool RelayedSendPath::send_piece(Job& job) {
  PieceHeader& header = job.header;
  const std::uint32_t slot = window_.next_slot();
  header.sequence = window_.sent();
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
  work.wr_id = RequestPool::kControlBit | (window_.sent() + 1);
  work.sg_list = parts;
  work.num_sge = header.payload_bytes > 0 ? 2 : 1;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(slot);
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer().memory_address + slot * std::uint64_t{kPieceStride} + kPieceHeaderAt;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (!post_send(work)) return false;
  ++posted_;
  window_.took_one();
  header.offset_bytes += header.payload_bytes;
  if (!last) return true;
  job.end_sequence = window_.sent();
  ++begun_;
  return true;
}

void RelayedSendPath::completed(const ibv_wc& completion) {
  --posted_;
  acknowledged_ = std::max(acknowledged_, completion.wr_id & ~RequestPool::kControlBit);
}

void RelayedSendPath::take_confirmations() {
  // A delivered piece may still be unacknowledged here if its acknowledgement was lost: then the adapter reads the
  // memory again.
  const std::uint64_t delivered = std::min(load_counter(ring().as<std::uint8_t>(), kDeliveredAt), acknowledged_);
  for (; done_ < begun_ && jobs_[done_ % jobs_.size()].end_sequence <= delivered; ++done_) {
    const Job& job = jobs_[done_ % jobs_.size()];
    if (job.request == nullptr) continue;
    in_flight_bytes_ -= job.header.message_bytes;
    if (load_ != nullptr) load_->bytes.fetch_sub(job.header.message_bytes, std::memory_order_relaxed);
    confirm(job.request->closes);
    finish(*job.request);
  }
}

void RelayedSendPath::qp_link_lost() {
  const std::uint64_t bytes = std::exchange(in_flight_bytes_, 0);
  if (load_ != nullptr) load_->bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

void RelayedSendPath::polled(int count) {
  if (impaired()) return;
  take_confirmations();
  push();
  empty_polls_ = count > 0 ? 0 : empty_polls_ + 1;
  if (empty_polls_ % kPollsBetweenLooks == kPollsBetweenLooks - 1) look_at_control();
}

void RelayedSendPath::look_at_control() {
  auto message = reader_.read(control_);
  if (message && !*message) return;
  std::string text = message ? (*message)->reason : message.error().text;
  lose({.code = ErrorCode::kRemote,
        .scope = Scope::kQueuePair,
        .text = qp_link().ends_text() + ": the relay gave up: " + text,
        .os_errno = 0});
}

void RelayedSendPath::describe(ConnectionState& state) {
  state.way = "relayed through " + circuit_.relays;
  const std::string relay = "relay " + to_text(peer().address.address) + " (" + peer().nic + ")";
  if (begun_ < queued_) {
    state.waits_for =
        "credits of " + relay + ": " + std::to_string(kPieceSlots - window_.room()) + " pieces are with it";
  } else if (done_ < queued_) {
    state.waits_for = "the confirmation by " + relay + " that " + state.peer + " has the message";
  }
}

void RelayedSendPath::probe() {
  if (posted_ < kRelayedSendDepth && post_probe(RequestPool::kControlBit)) ++posted_;
}

void RelayedSendPath::closing() {
  if (!control_.is_open()) return;
  // The relay still delivers the pieces that it has taken; END carries their number.
  MessageWriter writer;
  writer.start({.type = WireType::kEnd, .cookie = circuit_.number, .end = {}, .reason = "", .pieces = window_.sent()});
  if (auto written = writer.write(control_); !written || !*written) {
    MESHBED_LOG(LogLevel::kTrace, "%s: END could not be sent to the relay", qp_link().ends_text().c_str());
  }
}

}  // namespace meshbed::net
