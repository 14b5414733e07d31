#include "plugin/net/send.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>

#include "plugin/base/log.h"
#include "plugin/net/memory.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kSendDepth = 2 * kRingEntries;
/// A group's sizes, and messages as short: the adapter gets them with the work request and need not fetch them.
constexpr std::uint32_t kInlineBytes = kMaxGroup * sizeof(std::uint32_t);
/// Writes are cut at multiples of a page, so that 128-byte lines stay whole.
constexpr std::size_t kChunkAlignBytes = 4096;

}  // namespace

SendConnection::SendConnection(LocalEnd local, const ConnectionSettings& settings)
    : Connection(kKind, std::move(local), settings) {}

Result<std::unique_ptr<SendConnection>> SendConnection::create(LocalEnd local, const ConnectionSettings& settings) {
  std::unique_ptr<SendConnection> send(new SendConnection(std::move(local), settings));
  const auto limit = static_cast<std::uint32_t>(send->device().attributes().max_qp_wr);
  send->depth_ = std::min(kSendDepth, limit);
  const std::size_t port_limit = std::min<std::size_t>(send->local().nic.max_message_bytes, kMaxMessageBytes);
  send->chunk_bytes_ = std::max(port_limit / kChunkAlignBytes * kChunkAlignBytes, kChunkAlignBytes);
  auto ring = verbs::RegisteredBuffer::create(send->device().pd(), kRingBytes);
  if (!ring) return ring.error();
  send->ring_ = std::move(*ring);
  if (auto opened = send->open({.sends = send->depth_, .receives = 1, .inline_bytes = kInlineBytes}); !opened) {
    return opened.error();
  }
  return send;
}

void SendConnection::describe_memory(WireEnd& end) const {
  end.memory_address = ring_.address();
  end.memory_rkey = ring_.rkey();
}

Result<Request*> SendConnection::post(const SendArguments& send) {
  if (failed()) return failure();
  const ClearToSend* slot = pool_.empty() ? nullptr : find_slot(send.tag);
  if (slot == nullptr) {
    // The one look that may yield: completions free requests, and time passes until the peer's clear-to-send comes.
    poll();
    if (failed()) return failure();
    slot = pool_.empty() ? nullptr : find_slot(send.tag);
    if (slot == nullptr) return failed() ? Result<Request*>(failure()) : Result<Request*>(nullptr);
  }
  if (auto fine = check_arguments(send); !fine) return fine.error();
  if (send.size_bytes > slot->capacity_bytes) return refuse_oversized(send, *slot);
  if (queued_ + chunks_of(send.size_bytes) + 1 > depth_) {
    poll();
    return failed() ? Result<Request*>(failure()) : Result<Request*>(nullptr);
  }
  // There is a receive, a free request and room in the send queue: from here on the send happens.

  Request& request = take_request();
  request.sizes[0] = static_cast<std::uint32_t>(send.size_bytes);
  request.work_requests = 0;
  if (send.memory != nullptr) {
    send.memory->hold();
    request.memory = send.memory;
  }
  const auto part = static_cast<std::uint32_t>(slot - first_slot());
  ring_.as<std::uint32_t>()[kSizesAt / sizeof(std::uint32_t) + slot_of(group_) + part] = request.sizes[0];
  bool posted = write_message(send, *slot, request);
  if (posted && group_parts_ > 1 && on_last_part()) posted = write_sizes(request);
  if (!posted) return failure();
  queued_ += request.work_requests;
  if (request.work_requests == 0) finish(request, 0);  // an empty part of a group: nothing goes out for it
  finish_part(part);
  return &request;
}

const ClearToSend* SendConnection::find_slot(int tag) {
  ClearToSend* first = first_slot();
  if (group_parts_ == 0) {
    if (!has_arrived(first[0], group_)) return nullptr;
    const std::uint32_t count = first[0].count;
    if (count < 1 || count > kMaxGroup) {
      fail({.code = ErrorCode::kRemote,
            .scope = Scope::kQueuePair,
            .text = ends_text() + ": the peer announced a receive of " + std::to_string(count) + " parts",
            .os_errno = 0});
      return nullptr;
    }
    for (std::uint32_t part = 1; part < count; ++part) {
      if (!has_arrived(first[part], group_ + part)) return nullptr;
    }
    group_parts_ = count;
    matched_ = 0;
  }
  for (std::uint32_t part = 0; part < group_parts_; ++part) {
    if ((matched_ >> part & 1U) == 0 && first[part].tag == tag) return &first[part];
  }
  return nullptr;
}

Result<void> SendConnection::check_arguments(const SendArguments& send) {
  const char* problem = nullptr;
  if (send.size_bytes > kMaxMessageBytes) {
    problem = "is longer than 1 GiB, the largest message";
  } else if (send.size_bytes > 0 && send.memory == nullptr) {
    problem = "has no registered memory";
  } else if (send.size_bytes > 0 && send.memory->device() != &device()) {
    problem = "has memory that is registered on another device";
  } else if (send.size_bytes > 0 && !send.memory->covers(send.data, send.size_bytes)) {
    problem = "leaves its registered memory";
  } else if (chunks_of(send.size_bytes) + 1 > depth_) {
    problem = "needs more work requests than the device's queue has";
  } else {
    return ok();
  }
  Error error{.code = ErrorCode::kInvalidArgument,
              .scope = Scope::kRequest,
              .text = ends_text() + ": a send of " + std::to_string(send.size_bytes) + " bytes " + problem,
              .os_errno = 0};
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

Result<Request*> SendConnection::refuse_oversized(const SendArguments& send, const ClearToSend& slot) {
  std::string text = ends_text() + ": a send of " + std::to_string(send.size_bytes) + " bytes meets a receive of " +
                     std::to_string(slot.capacity_bytes) + " bytes (tag " + std::to_string(send.tag) +
                     "): nothing is cut off, the connection ends here";
  // The peer must not wait for ever: its receive fails when this arrives, so the queue pair stays up until close().
  if (!write_refusal()) return failure();
  return keep_failure(
      {.code = ErrorCode::kInvalidArgument, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0});
}

std::uint32_t SendConnection::chunks_of(std::size_t size_bytes) const {
  return static_cast<std::uint32_t>((size_bytes + chunk_bytes_ - 1) / chunk_bytes_);
}

bool SendConnection::write_message(const SendArguments& send, const ClearToSend& slot, Request& request) {
  const bool alone = group_parts_ == 1;
  std::size_t done = 0;
  // A group of one sends at least its immediate value; an empty part of a larger group sends nothing.
  while (done < send.size_bytes || (alone && request.work_requests == 0)) {
    const std::size_t length = std::min(chunk_bytes_, send.size_bytes - done);
    const bool final_chunk = done + length == send.size_bytes;
    ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(send.data) + done,
                  .length = static_cast<std::uint32_t>(length),
                  .lkey = send.memory != nullptr ? send.memory->lkey() : 0};
    ibv_send_wr work{};
    work.wr_id = request.work_id();
    work.sg_list = &piece;
    work.num_sge = length > 0 ? 1 : 0;
    work.opcode = alone && final_chunk ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    work.imm_data = htonl(request.sizes[0]);
    // Signalled where it is the request's last work request; a larger group's last part is followed by the sizes.
    work.send_flags = flag_if(final_chunk && (alone || !on_last_part()), IBV_SEND_SIGNALED) |
                      flag_if(length > 0 && length <= pair().inline_bytes(), IBV_SEND_INLINE);
    work.wr.rdma.remote_addr = slot.address + done;
    work.wr.rdma.rkey = slot.rkey;
    if (!post_send(work)) return false;
    ++request.work_requests;
    done += length;
  }
  return true;
}

bool SendConnection::write_sizes(Request& request) {
  const std::uint32_t offset = slot_of(group_) * static_cast<std::uint32_t>(sizeof(std::uint32_t));
  const auto bytes = static_cast<std::uint32_t>(group_parts_ * sizeof(std::uint32_t));
  ibv_sge sizes{.addr = ring_.address() + kSizesAt + offset, .length = bytes, .lkey = ring_.lkey()};
  ibv_send_wr work{};
  work.wr_id = request.work_id();
  work.sg_list = &sizes;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(group_parts_);
  work.send_flags = IBV_SEND_SIGNALED | flag_if(bytes <= pair().inline_bytes(), IBV_SEND_INLINE);
  work.wr.rdma.remote_addr = peer().memory_address + kSizesAt + offset;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (!post_send(work)) return false;
  ++request.work_requests;
  return true;
}

/// An immediate value instead of a message: kRefusedSize.
bool SendConnection::write_refusal() {
  ibv_send_wr work{};
  work.wr_id = RequestPool::kControlBit;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(kRefusedSize);
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer().memory_address;
  work.wr.rdma.rkey = peer().memory_rkey;
  return post_send(work);
}

ClearToSend* SendConnection::first_slot() const { return ring_.as<ClearToSend>() + slot_of(group_); }

bool SendConnection::on_last_part() const { return std::popcount(matched_) + 1 == static_cast<int>(group_parts_); }

void SendConnection::finish_part(std::uint32_t part) {
  matched_ |= 1U << part;
  if (std::popcount(matched_) < static_cast<int>(group_parts_)) return;
  group_ += group_parts_;
  group_parts_ = 0;
}

void SendConnection::completed(const ibv_wc& completion) {
  Request* request = pool_.find(completion.wr_id);
  if (request == nullptr) return;  // the refusal above, or a request that ended with the connection
  queued_ -= request->work_requests;
  finish(*request, request->sizes[0]);
}

}  // namespace meshbed::net
