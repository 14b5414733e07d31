// The rails of a receiving connection: further queue pairs over other cables to the same sender, on which stripes of
// long messages arrive. Each stripe ends in an immediate value of its own, because only the device that wrote the last
// byte can report that it is in memory. So a rail always has a receive posted for every stripe that may be in flight.
#include <algorithm>

#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {

Result<WireEnd> ReceiveConnection::lay_rail(std::size_t number, std::uint32_t sender_qp_link, const LocalEnd& local,
                                            const WireEnd& sender, std::uint8_t mtu) {
  if (impaired() || qp_link().peer().qp_number != sender_qp_link)
    return handshake_error("the connection has left that QP link");
  if (settings().stripes.from_bytes == 0) return handshake_error("nothing is striped here (NCCL_MESH_STRIPE_BYTES=0)");
  if (number >= kMaxRails || (rails_ >> number & 1U) != 0) {
    return handshake_error("there is no room for a rail " + std::to_string(number));
  }
  const auto limit = static_cast<std::uint32_t>(local.device->attributes().max_qp_wr);
  if (limit < kRingEntries) return handshake_error(local.device->name() + " has too short queues for a rail");
  auto rail = QpLink::open(local, settings().qp_link, {.depths = {.sends = 1, .receives = kRingEntries}});
  if (!rail) return rail.error();
  if (auto joined = (*rail)->join(sender, mtu); !joined) return joined.error();
  const WireEnd end = (*rail)->describe();
  qp_link().lay(number, std::move(*rail));
  if (!flushers_.empty()) {
    open_rail_flusher(*qp_link().rail(number));
    resume_flushes();
    if (failed()) return failure();
  }
  if (ledger_ == nullptr) ledger_ = std::make_unique<StripeLedger>();
  stripes_awaited_[number] = 0;
  for (std::uint32_t stripe = 0; stripe < kRingEntries; ++stripe) {
    if (!await_stripe(number)) return failure();
  }
  return end;
}

void ReceiveConnection::use_rail(std::size_t number, std::uint32_t sender_qp_link) {
  if (impaired() || qp_link().peer().qp_number != sender_qp_link || qp_link().rail(number) == nullptr) return;
  rails_ |= 1U << number;
}

bool ReceiveConnection::await_stripe(std::size_t rail) {
  ibv_recv_wr work{};
  if (!post_receive(work, qp_link().rail(rail)->pair())) return false;
  ++stripes_awaited_[rail];
  return true;
}

bool ReceiveConnection::awaits_anything() const {
  return awaited_ > 0 ||
         std::any_of(stripes_awaited_.begin(), stripes_awaited_.end(), [](auto count) { return count > 0; });
}

bool ReceiveConnection::stage_keys(std::span<const ReceivePart> parts, std::uint32_t slot) {
  bool any = false;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    RailKeys& keys = keys_of(slot + static_cast<std::uint32_t>(index));
    keys.rails = 0;
    keys.sequence = sequence_of(next_entry_ + index);
    const ReceivePart& part = parts[index];
    const bool striped = part.memory != nullptr && part.size_bytes >= settings().stripes.from_bytes;
    for (std::size_t rail = 0; striped && rail < kMaxRails; ++rail) {
      if ((rails_ >> rail & 1U) == 0) continue;
      const QpLink& way = *qp_link().rail(rail);
      if (part.memory->is_device() && settings().flushes && !can_flush(way)) continue;
      const verbs::Registration* registration = part.memory->on(way.device());
      if (registration == nullptr) continue;
      keys.rkeys[rail] = registration->rkey();
      keys.rails |= 1U << rail;
    }
    any = any || keys.rails != 0;
  }
  return any;
}

/// Written before the entries and on the same queue pair: when the entries have arrived, the keys have too.
bool ReceiveConnection::announce_keys(std::uint32_t slot, std::size_t parts) {
  return write_to_sender(kRailKeysAt + slot * sizeof(RailKeys), parts * sizeof(RailKeys));
}

std::uint32_t ReceiveConnection::rails_of(const Request& request, std::size_t part) {
  const RailKeys& keys = keys_of(slot_of(request.group) + static_cast<std::uint32_t>(part));
  return ledger_ != nullptr && keys.sequence == sequence_of(request.group + part) ? keys.rails : 0;
}

void ReceiveConnection::rail_completed(std::size_t rail, const ibv_wc& completion) {
  --stripes_awaited_[rail];
  // A stripe is one write where the port takes messages of that length; else these are the bytes of its last one.
  qp_link().move_to(*qp_link().rail(rail), completion.byte_len);
  if (Flusher* flusher = flusher_on(qp_link().rail(rail)->device())) flusher->note_write();
  ledger_->arrived(rail);
  if (!impaired() && !await_stripe(rail)) return;
  complete_what_is_there();
}

void ReceiveConnection::rail_flushed(std::size_t rail, const ibv_wc&) { --stripes_awaited_[rail]; }

void ReceiveConnection::complete_what_is_there() {
  while (Request* request = ledger_->take_complete()) complete(*request);
}

}  // namespace meshbed::net
