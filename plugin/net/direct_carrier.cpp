#include "plugin/net/direct_carrier.h"

#include <arpa/inet.h>

#include <algorithm>

#include "plugin/net/connection.h"
#include "plugin/net/memory.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kSendDepth = 2 * kRingEntries;
/// A group's sizes, and messages as short: the adapter gets them with the work request and need not fetch them.
constexpr std::uint32_t kInlineBytes = kMaxGroup * sizeof(std::uint32_t);
/// Writes are cut at multiples of a page, so that 128-byte lines stay whole.
constexpr std::size_t kChunkAlignBytes = 4096;

}  // namespace

LegShape DirectCarrier::shape_on(const verbs::Device& device) {
  const auto limit = static_cast<std::uint32_t>(device.attributes().max_qp_wr);
  return {.sends = true,
          .depths = {.sends = std::min(kSendDepth, limit), .receives = 1, .inline_bytes = kInlineBytes},
          .memory_bytes = kRingBytes};
}

DirectCarrier::DirectCarrier(SendConnection& connection)
    : Carrier(connection), depth_(shape_on(leg().device()).depths.sends) {
  const std::size_t port_limit = std::min<std::size_t>(leg().local().nic.max_message_bytes, kMaxMessageBytes);
  chunk_bytes_ = std::max(port_limit / kChunkAlignBytes * kChunkAlignBytes, kChunkAlignBytes);
}

std::uint32_t DirectCarrier::chunks_of(std::size_t size_bytes) const {
  return static_cast<std::uint32_t>((size_bytes + chunk_bytes_ - 1) / chunk_bytes_);
}

const char* DirectCarrier::size_problem(std::size_t size_bytes) const {
  return chunks_of(size_bytes) + 1 > depth_ ? "needs more work requests than the device's queue has" : nullptr;
}

bool DirectCarrier::has_room(std::size_t size_bytes) const { return queued_ + chunks_of(size_bytes) + 1 <= depth_; }

bool DirectCarrier::carry(const SendArguments& send, const Place& place, Request& request) {
  request.closes = place.parts == 1 || place.last ? place.group + place.parts : 0;
  bool posted = write_message(send, place, request);
  if (posted && place.parts > 1 && place.last) posted = write_sizes(place, request);
  if (!posted) return false;
  queued_ += request.work_requests;
  if (request.work_requests == 0) finish(request);  // an empty part of a group: nothing goes out for it
  return true;
}

bool DirectCarrier::write_message(const SendArguments& send, const Place& place, Request& request) {
  const bool alone = place.parts == 1;
  std::size_t done = 0;
  // A group of one sends at least its immediate value; an empty part of a larger group sends nothing.
  while (done < send.size_bytes || (alone && request.work_requests == 0)) {
    const std::size_t length = std::min(chunk_bytes_, send.size_bytes - done);
    const bool final_chunk = done + length == send.size_bytes;
    ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(send.data) + done,
                  .length = static_cast<std::uint32_t>(length),
                  .lkey = send.memory != nullptr ? send.memory->on(leg().device())->lkey() : 0};
    ibv_send_wr work{};
    work.wr_id = request.work_id();
    work.sg_list = &piece;
    work.num_sge = length > 0 ? 1 : 0;
    work.opcode = alone && final_chunk ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    work.imm_data = htonl(request.sizes[0]);
    // Signalled where it is the request's last work request; a larger group's last part is followed by the sizes.
    work.send_flags = flag_if(final_chunk && (alone || !place.last), IBV_SEND_SIGNALED) |
                      flag_if(length > 0 && length <= leg().pair().inline_bytes(), IBV_SEND_INLINE);
    work.wr.rdma.remote_addr = place.entry->address + done;
    work.wr.rdma.rkey = place.entry->rkey;
    if (!post_send(work)) return false;
    ++request.work_requests;
    done += length;
  }
  return true;
}

bool DirectCarrier::write_sizes(const Place& place, Request& request) {
  const std::uint32_t offset = slot_of(place.group) * static_cast<std::uint32_t>(sizeof(std::uint32_t));
  const auto bytes = static_cast<std::uint32_t>(place.parts * sizeof(std::uint32_t));
  ibv_sge sizes{.addr = ring().address() + kSizesAt + offset, .length = bytes, .lkey = ring().lkey()};
  ibv_send_wr work{};
  work.wr_id = request.work_id();
  work.sg_list = &sizes;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(place.parts);
  work.send_flags = IBV_SEND_SIGNALED | flag_if(bytes <= leg().pair().inline_bytes(), IBV_SEND_INLINE);
  work.wr.rdma.remote_addr = peer().memory_address + kSizesAt + offset;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (!post_send(work)) return false;
  ++request.work_requests;
  return true;
}

/// An immediate value instead of a message: kRefusedSize.
bool DirectCarrier::carry_refusal(const Place&) {
  ibv_send_wr work{};
  work.wr_id = RequestPool::kControlBit;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = htonl(kRefusedSize);
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer().memory_address;
  work.wr.rdma.rkey = peer().memory_rkey;
  return post_send(work);
}

void DirectCarrier::completed(const ibv_wc& completion) {
  if (completion.wr_id == kProbeId) {
    probing_ = false;
    --queued_;
    return;
  }
  Request* request = find(completion.wr_id);
  if (request == nullptr) return;  // the refusal above, or a request that ended with the connection
  queued_ -= request->work_requests;
  confirm(request->closes);
  finish(*request);
}

void DirectCarrier::probe() {
  if (probing_ || !has_room(0)) return;
  if (!post_probe(kProbeId)) return;
  probing_ = true;
  ++queued_;
}

}  // namespace meshbed::net
