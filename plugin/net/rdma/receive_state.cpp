// The state of a receiving connection, for the state socket.
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {

void ReceiveConnection::describe(ConnectionState& state) {
  const std::string neighbour = to_text(peer().address.address) + " (" + peer().nic + ")";
  state.peer = state.relayed ? "the sender behind relay " + neighbour : neighbour;
  state.way = state.relayed ? "relayed through " + to_text(peer().address.address) : "cable";
  if (state.outstanding.empty()) return;
  std::string tags;
  for (const int tag : state.outstanding.front().tags) tags += (tags.empty() ? "" : ", ") + std::to_string(tag);
  state.waits_for = "a message with tag " + tags + " of " + state.peer;
}

RequestState ReceiveConnection::describe(const Request& request) {
  RequestState state;
  const ClearToSend* entries = ring().as<ClearToSend>() + slot_of(request.group);
  for (std::size_t part = 0; part < request.parts; ++part) {
    state.tags.push_back(entries[part].tag);
    state.size_bytes += entries[part].capacity_bytes;
  }
  return state;
}

}  // namespace meshbed::net
