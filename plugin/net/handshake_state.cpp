// What a connection that is being made waits for, for the state socket.
#include "plugin/base/counted.h"
#include "plugin/base/deadline.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/listener.h"
#include "plugin/net/pending_connect.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
std::string Connecting::waits_for() const {
  const std::string whom = (destination_.onward ? "relay " : "") + to_text(destination_.target.address) + " port " +
                           std::to_string(destination_.target.port) + " over " +
                           process_.nics()[static_cast<std::size_t>(destination_.route.nic)].device_name;
  switch (state_) {
    case State::kDial:
    case State::kDialling:
      return "a TCP connection to " + whom + ", attempt " + std::to_string(attempts_);
    case State::kRoute:
    case State::kRequest:
    case State::kReply:
      return "the reply of " + whom +
             (destination_.onward ? ", which looks for the next one" : ": its process has to call accept()");
    case State::kProof:
      return "the acknowledgement of the adapter of " + whom;
    case State::kKept:
      return "the other cables to " + whom;
    case State::kReady:
    case State::kDone:
      break;
  }
  return "READY to go out to " + whom;
}

HandshakeState PendingConnect::state(std::int64_t now_ns) const {
  HandshakeState state{.connects = true,
                       .nic = transport_.nics()[static_cast<std::size_t>(dev_)].device_name,
                       .age_ms = (now_ns - begun_ns_) / kNsPerMs};
  for (const PeerAddress& address : peer_.addresses) {
    state.peer += (state.peer.empty() ? "" : ", ") + to_text(address.prefix);
  }
  if (tcp_ != nullptr) {
    state.waits_for = "a TCP connection for the data";
  } else if (connecting_ != nullptr) {
    state.waits_for = connecting_->waits_for();
  } else {
    state.waits_for = "a chain of relays to the peer" + (refusal_.empty() ? "" : "; the last one: " + refusal_);
  }
  return state;
}

std::string Listener::waits_for() const {
  if (!finished_.empty()) return "its caller to call accept(): a connection is ready";
  std::string whom;
  for (const auto& client : clients_) {
    if (client->state == State::kRefusing) continue;
    whom += whom.empty() ? "" : ", ";
    whom += client->state == State::kHeld ? "the port with " + to_text(client->local.address) + ", which is down, for "
                                          : "READY of ";
    whom += to_text(client->remote.address);
  }
  if (const std::size_t callers = first_messages_.queue().size(); callers > 0) {
    whom += (whom.empty() ? "" : ", ") + std::string("the request of ") + counted(callers, "caller");
  }
  if (!whom.empty() || taken_ > 0) return whom;
  const std::uint64_t sent_away = dropped_.count() + refused_.count();
  return "a peer with its handle: " +
         (sent_away == 0 ? "none has connected" : counted(sent_away, "caller") + " did not finish a handshake") +
         " at port " + std::to_string(first_messages_.queue().port());
}

HandshakeState Listener::state_while_frozen(std::int64_t now_ns) const {
  HandshakeState state{.nic = transport_.nics()[static_cast<std::size_t>(dev_)].device_name,
                       .age_ms = (now_ns - begun_ns_) / kNsPerMs,
                       .accepted = taken_,
                       .waits_for = waits_for()};
  if (asked_ns_ != 0) state.asked_ms = (now_ns - asked_ns_) / kNsPerMs;
  state.comm = owner_.comm;
  return state;
}

std::optional<HandshakeState> Listener::state(std::int64_t now_ns) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  return state_while_frozen(now_ns);
}

}  // namespace meshbed::net
