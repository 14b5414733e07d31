// How a long message is striped over the QP link and its rails.
#include <algorithm>
#include <bit>

#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/direct_send_path.h"
#include "plugin/net/rdma/striping.h"

namespace meshbed::net {

static_assert(kMaxRails < kMostPaths);

void DirectSendPath::rail_laid(std::size_t number) {
  if (rails_ == nullptr) rails_ = std::make_unique<Rails>();
  auto rail = std::make_unique<Rail>();
  QpLink& way = *qp_link().rail(number);
  open_way(*rail, way, rail_shape_on(way.device()).depths.sends);
  rails_->rail[number] = std::move(rail);
  rails_->laid |= 1U << number;
}

const RailKeys& DirectSendPath::keys_of(const GroupSlot& place) {
  return *(ring().as<RailKeys>() + kRailKeysAt / sizeof(RailKeys) + slot_of(place.group) + place.part);
}

std::uint32_t DirectSendPath::rails_for(const SendArguments& send, const GroupSlot& place) {
  if (rails_ == nullptr || send.size_bytes < stripes_.from_bytes || send.memory == nullptr) return 0;
  const RailKeys& keys = keys_of(place);
  // All rails that the receiver named, or none, so that it knows which ones to wait for.
  if (keys.sequence != sequence_of(place.group + place.part) || (keys.rails & ~rails_->laid) != 0) return 0;
  // At least one line of 128 bytes for each queue pair.
  if (send.size_bytes < kStripeAlignBytes * (1 + static_cast<std::size_t>(std::popcount(keys.rails)))) return 0;
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if ((keys.rails >> number & 1U) == 0) continue;
    if (send.memory->on(rails_->rail[number]->qp_link->device()) == nullptr) return 0;
  }
  return reason_to_stay(keys.rails) == nullptr ? keys.rails : 0;
}

const char* DirectSendPath::reason_to_stay(std::uint32_t rails) {
  const TrafficHint* hint = this->hint();
  if (hint == nullptr) return nullptr;
  if (hint->only_ll()) return "NCCL uses LL only";
  std::array<const PortLoad*, kMostPaths> ports{own_.qp_link->local().load};
  std::size_t cables = 1;
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if ((rails >> number & 1U) == 0) continue;
    const PortLoad* port = rails_->rail[number]->qp_link->local().load;
    // Several queue pairs on one cable are one cable.
    if (port == nullptr || std::find(ports.begin(), ports.begin() + cables, port) != ports.begin() + cables) continue;
    if (port->qp_links.load(std::memory_order_relaxed) == 0) return nullptr;
    ports[cables++] = port;
  }
  return cables > 1 && hint->is_many(static_cast<std::int64_t>(cables)) ? "NCCL reports more peers or flows than cables"
                                                                        : nullptr;
}

bool DirectSendPath::write_stripes(const SendArguments& send, const GroupSlot& place, std::uint32_t rails,
                                   Request& request) {
  const RailKeys& keys = keys_of(place);
  std::array<Stripe, kMostPaths> stripes;
  std::array<PathLoad, kMostPaths> loads;
  std::size_t count = 0;
  const auto add = [&](StripePath& way, std::uint32_t rkey) {
    const LocalEnd& local = way.qp_link->local();
    loads[count] = {.rate_mbps = local.nic.rate_mbps,
                    .in_flight_bytes = local.load != nullptr ? local.load->bytes.load(std::memory_order_relaxed) : 0};
    stripes[count++] = {.way = &way, .rkey = rkey, .ends_in_immediate = true};
  };
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if ((rails >> number & 1U) != 0) add(*rails_->rail[number], keys.rkeys[number]);
  }
  add(own_, place.entry->rkey);

  std::array<std::uint64_t, kMostPaths> shares{};
  split_message(send.size_bytes, std::span(loads).first(count), stripes_.hysteresis_bytes,
                std::span(shares).first(count));
  const bool alone = place.parts == 1;
  const std::uint32_t record = request.sizes[0] | kStripedSize;
  std::uint64_t at = 0;
  for (std::size_t index = 0; index < count; ++index) {
    Stripe& stripe = stripes[index];
    stripe.begin = at;
    stripe.end = at += shares[index];
    if (stripe.way == &own_) {
      stripe.ends_in_immediate = alone;
      stripe.signalled = alone || !place.last;
      stripe.immediate = record;
      // A part of a group needs no empty write here: its group's sizes follow.
      if (!alone && stripe.begin == stripe.end) continue;
    }
    if (!write(send, place, stripe, request)) return false;
  }
  // Goes out with the other sizes of its group.
  auto* records = ring().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t) + slot_of(place.group);
  if (!alone) records[place.part] = record;
  return true;
}

void DirectSendPath::rail_completed(std::size_t number, const ibv_wc& completion) {
  Rail& rail = *rails_->rail[number];
  const Rail::Sent& sent = rail.sent[rail.first_sent++ % rail.sent.size()];
  rail.queued -= sent.places;
  rail.take_load(sent.bytes);
  own_.qp_link->move_to(*rail.qp_link, sent.bytes);
  if (Request* request = find(completion.wr_id)) one_has_come(*request);
}

void DirectSendPath::complete_in_order() {
  for (; rails_->completed < rails_->ordered; ++rails_->completed) {
    Request& oldest = *rails_->order[rails_->completed % rails_->order.size()];
    if (oldest.pending > 0) return;
    confirm(oldest.closes);
    finish(oldest);
  }
}

}  // namespace meshbed::net
