#include "plugin/net/connect/service_call.h"

namespace meshbed::net {

IpPrefix own_address(const std::vector<InterfaceAddress>& interfaces, const LocalEnd& local, const IpAddress& peer) {
  IpPrefix own = local.address;
  for (const InterfaceAddress& interface : interfaces) {
    if (interface.netdev != local.nic.netdev) continue;
    if (interface.prefix.address == local.address.address) return local.address;
    if (contains(interface.prefix, peer)) own = interface.prefix;
  }
  return own;
}

ServiceCall::ServiceCall(const IpAddress& own, const WireEnd& peer, const WireMessage& question)
    : cookie_(question.cookie), ends_(Deadline::after_ms_or_never(kPatienceMs)) {
  auto socket = begin_connect(own, {.address = peer.address.address, .port = peer.service_port});
  if (socket) {
    socket_ = std::move(*socket);
    why_ = "no reply within " + std::to_string(kPatienceMs) + " ms";
  } else {
    why_ = socket.error().text;
  }
  writer_.start(question);
}

ServiceCall::Answer ServiceCall::advance() {
  if (!socket_.is_open() || ends_.passed()) return Answer::kNone;
  if (!connected_) {
    auto connected = finish_connect(socket_);
    if (!connected) return hang_up(connected.error().text);
    connected_ = *connected;
  }
  if (connected_ && !asked_) {
    auto asked = writer_.write(socket_);
    if (!asked) return hang_up(asked.error().text);
    asked_ = *asked;
  }
  if (!asked_) return Answer::kNotYet;
  auto answer = reader_.read(socket_);
  if (!answer) return hang_up(answer.error().text);
  if (!*answer) return Answer::kNotYet;
  const bool is_ours = (*answer)->cookie == cookie_;
  if ((*answer)->type == WireType::kThere && is_ours) return Answer::kThere;
  if ((*answer)->type != WireType::kGone || !is_ours) return hang_up("its reply does not match the request");
  why_ = "it replied: " + (*answer)->reason;
  return Answer::kGone;
}

ServiceCall::Answer ServiceCall::hang_up(const std::string& why) {
  why_ = why;
  socket_.close();
  return Answer::kNone;
}

}  // namespace meshbed::net
