#include "plugin/net/rdma/direct_send_path.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "plugin/net/link/connection.h"
#include "plugin/net/process/memory.h"

namespace meshbed::net {
namespace {

/// A group's sizes, and messages of at most this length, are posted inline: the adapter need not fetch them.
constexpr std::uint32_t kDirectInlineBytes = kMaxGroup * sizeof(std::uint32_t);
/// Writes are cut at multiples of a page, so that 128-byte lines stay whole.
constexpr std::size_t kChunkAlignBytes = 4096;

std::size_t chunk_bytes_on(const Nic& nic) {
  const std::size_t port_limit = std::min<std::size_t>(nic.max_message_bytes, kMaxMessageBytes);
  return std::max(port_limit / kChunkAlignBytes * kChunkAlignBytes, kChunkAlignBytes);
}

}  // namespace

QpLinkShape DirectSendPath::shape_on(const verbs::Device& device) {
  QpLinkShape shape = rail_shape_on(device);
  shape.memory_bytes = kRingBytes;
  shape.may_be_striped = true;
  return shape;
}

QpLinkShape DirectSendPath::rail_shape_on(const verbs::Device& device) {
  const auto limit = static_cast<std::uint32_t>(device.attributes().max_qp_wr);
  return {.sends = true,
          .depths = {.sends = std::min(kSendDepth, limit), .receives = 1, .inline_bytes = kDirectInlineBytes}};
}

DirectSendPath::DirectSendPath(SendConnection& connection, const StripeSettings& stripes)
    : SendPath(connection), stripes_(stripes) {
  open_way(own_, qp_link(), shape_on(qp_link().device()).depths.sends);
  if (own_.qp_link->local().load != nullptr)
    own_.qp_link->local().load->qp_links.fetch_add(1, std::memory_order_relaxed);
  counts_ = own_.qp_link->local().load != nullptr;
}

void DirectSendPath::forget_loads() {
  if (std::exchange(counts_, false)) own_.qp_link->local().load->qp_links.fetch_sub(1, std::memory_order_relaxed);
  own_.take_load(own_.in_flight_bytes);
  for (std::size_t rail = 0; rails_ != nullptr && rail < kMaxRails; ++rail) {
    if (rails_->rail[rail]) rails_->rail[rail]->take_load(rails_->rail[rail]->in_flight_bytes);
  }
}

void DirectSendPath::open_way(StripePath& way, QpLink& qp_link, std::uint32_t depth) {
  way.qp_link = &qp_link;
  way.depth = depth;
  way.chunk_bytes = chunk_bytes_on(qp_link.local().nic);
}

void DirectSendPath::StripePath::add_load(std::uint64_t bytes) {
  in_flight_bytes += bytes;
  if (qp_link->local().load != nullptr) qp_link->local().load->bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void DirectSendPath::StripePath::take_load(std::uint64_t bytes) {
  if (bytes == 0) return;                    // its QP link may be gone
  bytes = std::min(bytes, in_flight_bytes);  // less after forget_loads()
  in_flight_bytes -= bytes;
  if (qp_link->local().load != nullptr) qp_link->local().load->bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

const char* DirectSendPath::size_problem(std::size_t size_bytes) const {
  return chunks_of(own_, size_bytes) + 1 > own_.depth ? "needs more work requests than the device's queue has"
                                                      : nullptr;
}

bool DirectSendPath::may_be_rail(const LocalEnd& local) {
  const QpLinkShape shape = rail_shape_on(*local.device);
  return shape.depths.sends >= kRingEntries && kMaxMessageBytes / chunk_bytes_on(local.nic) + 2 <= shape.depths.sends;
}

bool DirectSendPath::has_room(std::size_t size_bytes) const {
  const auto fits = [&](const StripePath& way) { return way.queued + chunks_of(way, size_bytes) + 1 <= way.depth; };
  if (rails_ == nullptr || size_bytes < stripes_.from_bytes) return fits(own_) && has_room_in_order();
  return fits(own_) && has_room_in_order() &&
         std::all_of(rails_->rail.begin(), rails_->rail.end(), [&](const auto& rail) { return !rail || fits(*rail); });
}

/// Signals the request's last work request on this queue pair. Inlined so that the compiler removes the Stripe of a
/// message that is not striped.
[[gnu::always_inline]] inline bool DirectSendPath::write_pieces(const SendArguments& send, const GroupSlot& place,
                                                                const Stripe& stripe, Request& request) {
  StripePath& way = *stripe.way;
  const std::uint32_t lkey =
      send.memory != nullptr && send.size_bytes > 0 ? send.memory->on(way.qp_link->device())->lkey() : 0;
  // The CPU copies inline data, and must not access GPU addresses.
  const bool may_be_inline = send.memory != nullptr && !send.memory->is_device();
  std::uint32_t places = 0;
  for (std::uint64_t at = stripe.begin; at < stripe.end || places == 0; ++places) {
    const std::uint64_t length = std::min<std::uint64_t>(way.chunk_bytes, stripe.end - at);
    const bool final_chunk = at + length == stripe.end;
    ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(send.data) + at,
                  .length = static_cast<std::uint32_t>(length),
                  .lkey = lkey};
    const bool goes_inline = may_be_inline && length > 0 && length <= way.qp_link->pair().inline_bytes();
    ibv_send_wr work = verbs::write_request(
        {.id = request.work_id(),
         .opcode = stripe.ends_in_immediate && final_chunk ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
         .flags = flag_if(final_chunk && stripe.signalled, IBV_SEND_SIGNALED) | flag_if(goes_inline, IBV_SEND_INLINE),
         .piece = length > 0 ? &piece : nullptr,
         .immediate = htonl(stripe.immediate),
         .remote_address = place.entry->address + at,
         .rkey = stripe.rkey});
    if (!post_send(work, *way.qp_link)) return false;
    at += length;
  }
  if (&way == &own_) {
    request.work_requests = static_cast<std::uint16_t>(request.work_requests + places);
    request.own_way_bytes = static_cast<std::uint32_t>(stripe.end - stripe.begin);
    return true;
  }
  auto& rail = static_cast<Rail&>(way);
  const auto bytes = static_cast<std::uint32_t>(stripe.end - stripe.begin);
  rail.sent[rail.next_sent++ % rail.sent.size()] = {.bytes = bytes, .places = places};
  rail.queued += places;
  rail.add_load(bytes);
  ++request.pending;
  return true;
}

bool DirectSendPath::write(const SendArguments& send, const GroupSlot& place, const Stripe& stripe, Request& request) {
  return write_pieces(send, place, stripe, request);
}

/// The whole message over the QP link itself.
bool DirectSendPath::write_message(const SendArguments& send, const GroupSlot& place, Request& request) {
  const bool alone = place.parts == 1;
  // A group of one sends at least its immediate value; an empty part of a larger group sends nothing.
  if (send.size_bytes == 0 && !alone) return true;
  return write_pieces(send, place,
                      {.way = &own_,
                       .begin = 0,
                       .end = send.size_bytes,
                       .rkey = place.entry->rkey,
                       .ends_in_immediate = alone,
                       // A larger group's last part is followed by the sizes.
                       .signalled = alone || !place.last,
                       .immediate = request.sizes[0]},
                      request);
}

bool DirectSendPath::carry(const SendArguments& send, const GroupSlot& place, Request& request) {
  request.closes = place.parts == 1 || place.last ? place.group + place.parts : 0;
  request.pending = 0;
  request.own_way_bytes = 0;
  request.in_order = rails_ != nullptr;
  if (request.in_order) rails_->order[rails_->ordered++ % rails_->order.size()] = &request;
  const std::uint32_t rails = rails_for(send, place);
  bool posted = rails != 0 ? write_stripes(send, place, rails, request) : write_message(send, place, request);
  if (posted && place.parts > 1 && place.last) posted = write_sizes(place, request);
  if (!posted) return false;
  own_.queued += request.work_requests;
  if (request.work_requests > 0) ++request.pending;
  own_.add_load(request.own_way_bytes);
  // An empty part of a group needs no write.
  if (request.pending == 0) complete(request);
  return true;
}

bool DirectSendPath::write_sizes(const GroupSlot& place, Request& request) {
  const std::uint32_t offset = slot_of(place.group) * static_cast<std::uint32_t>(sizeof(std::uint32_t));
  const auto bytes = static_cast<std::uint32_t>(place.parts * sizeof(std::uint32_t));
  ibv_sge sizes{.addr = ring().address() + kSizesAt + offset, .length = bytes, .lkey = ring().lkey()};
  ibv_send_wr work = verbs::write_request(
      {.id = request.work_id(),
       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
       .flags = IBV_SEND_SIGNALED | flag_if(bytes <= qp_link().pair().inline_bytes(), IBV_SEND_INLINE),
       .piece = &sizes,
       .immediate = htonl(place.parts),
       .remote_address = peer().memory_address + kSizesAt + offset,
       .rkey = peer().memory_rkey});
  if (!post_send(work)) return false;
  ++request.work_requests;
  return true;
}

/// An immediate value instead of a message: kRefusedSize.
bool DirectSendPath::carry_refusal(const GroupSlot&) {
  ibv_send_wr work = verbs::write_request({.id = RequestPool::kControlBit,
                                           .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                           .flags = IBV_SEND_SIGNALED,
                                           .immediate = htonl(kRefusedSize),
                                           .remote_address = peer().memory_address,
                                           .rkey = peer().memory_rkey});
  return post_send(work);
}

void DirectSendPath::completed(const ibv_wc& completion) {
  if (completion.wr_id == kProbeId) {
    probing_ = false;
    --own_.queued;
    return;
  }
  Request* request = find(completion.wr_id);
  if (request == nullptr) return;  // the refusal above, or a request that ended with the connection
  own_.queued -= request->work_requests;
  own_.take_load(request->own_way_bytes);
  one_has_come(*request);
}

void DirectSendPath::one_has_come(Request& request) {
  if (--request.pending == 0) complete(request);
}

/// All work requests of the send are acknowledged.
void DirectSendPath::complete(Request& request) {
  if (request.in_order) {
    complete_in_order();
    return;
  }
  confirm(request.closes);
  finish(request);
}

void DirectSendPath::describe(ConnectionState& state) {
  const int rails = rails_ != nullptr ? std::popcount(rails_->laid) : 0;
  state.way = "cable";
  if (rails > 0) {
    const char* reason = reason_to_stay(rails_->laid);
    state.way += reason != nullptr ? std::string(", not striped: ") + reason
                                   : ", striped over " + std::to_string(rails) + " more";
  }
  // A probe only tests the path; the connection does not wait for it.
  const bool writes = own_.queued > (probing_ ? 1U : 0U);
  if (writes) state.waits_for = "the acknowledgement of the adapter of " + state.peer;
  for (std::size_t number = 0; rails > 0 && number < kMaxRails; ++number) {
    const Rail* rail = rails_->rail[number].get();
    if (rail == nullptr || rail->queued == 0 || writes) continue;
    state.waits_for = "the acknowledgement of a stripe by " + rail->qp_link->peer().nic + " of " + state.peer;
  }
}

void DirectSendPath::probe() {
  if (probing_ || !has_room(0)) return;
  if (!post_probe(kProbeId)) return;
  probing_ = true;
  ++own_.queued;
}

}  // namespace meshbed::net
