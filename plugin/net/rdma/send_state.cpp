// The state of a sending connection for the state socket: above all, what it waits for.
#include <algorithm>
#include <utility>

#include "plugin/base/counted.h"
#include "plugin/net/rdma/send.h"

namespace meshbed::net {

std::string SendRecovery::receiver_text() const {
  const WireEnd& peer = connection_.peer();
  const bool through_relay = origin_ && !origin_->peer.addresses.empty() && peer.node != origin_->peer.node;
  if (!through_relay) {
    return to_text(peer.address.address) + " (" + peer.nic + ")";
  }
  return to_text(origin_->peer.addresses.front().prefix.address);
}

std::string SendRecovery::waits_for(const std::string& receiver) const {
  if (going_home_) return "what is under way here, before it goes back to its first cable";
  if (!held_back_) return "";
  return "clear-to-sends of " + receiver + " on the new way: " + std::to_string(replays_.size() - replayed_) +
         " messages go once more";
}

/// What the last refused send waits for. If its clear-to-send has arrived meanwhile, it waits for its caller's next
/// try.
std::string SendConnection::refused_text(const std::string& peer) {
  const std::string tag = std::to_string(refused_->tag);
  ClearToSend* first = first_slot(group_);
  const bool is_here = has_arrived(first[0], group_);
  std::string tags;
  for (std::uint32_t part = 0; is_here && part < std::min<std::uint32_t>(first[0].count, kMaxGroup); ++part) {
    if ((matched_ >> part & 1U) != 0 || !has_arrived(first[part], group_ + part)) continue;
    if (first[part].tag == refused_->tag) return "its own caller: the receive with tag " + tag + " is announced";
    tags += (tags.empty() ? "" : ", ") + std::to_string(first[part].tag);
  }
  if (is_here) return "a receive with tag " + tag + " of " + peer + ", whose next receive has tag " + tags;
  return "clear-to-send of " + peer + " for a message of " + counted(refused_->size_bytes, "byte") + " with tag " + tag;
}

void SendConnection::describe(ConnectionState& state) {
  state.peer = recovery_.receiver_text();
  if (const std::uint64_t receiver = recovery_.receiver_node(); receiver != 0) state.peer_node = receiver;
  send_path_->describe(state);
  if (std::string way = recovery_.waits_for(state.peer); !way.empty()) {
    state.waits_for = std::move(way);
  } else if (refused_ && state.waits_for.empty()) {
    state.waits_for = refused_text(state.peer);
  }
}

RequestState SendConnection::describe(const Request& request) {
  RequestState state{.tags = {}, .size_bytes = request.sizes[0]};
  // If its entry was overwritten, the receiver has the message, and only the acknowledgement is missing.
  ClearToSend* entry = first_slot(request.group) + request.part;
  if (has_arrived(*entry, request.group + request.part)) state.tags.push_back(entry->tag);
  return state;
}

}  // namespace meshbed::net
