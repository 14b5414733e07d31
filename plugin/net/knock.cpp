#include "plugin/net/knock.h"

#include "plugin/net/discovery.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kPatienceMs = 2500;

/// Ours on the cable to `peer`, as it is now: it may be another one than when the connection came to stand.
IpAddress own_address(const LocalEnd& local, const IpAddress& peer) {
  const auto interfaces = read_interfaces();
  if (!interfaces) return local.address.address;
  IpAddress own = local.address.address;
  for (const InterfaceAddress& interface : *interfaces) {
    if (interface.netdev != local.nic.netdev) continue;
    if (interface.prefix.address == local.address.address) return local.address.address;
    if (contains(interface.prefix, peer)) own = interface.prefix.address;
  }
  return own;
}

}  // namespace

Knock::Knock(const LocalEnd& local, const WireEnd& sender, std::uint64_t session)
    : session_(session), sender_(to_text(sender.address.address)), ends_(Deadline::in_ms(kPatienceMs)) {
  auto socket = Socket::begin_connect(own_address(local, sender.address.address),
                                      {.address = sender.address.address, .port = sender.service_port});
  if (socket) {
    socket_ = std::move(*socket);
  } else {
    why_ = socket.error().text;
  }
  writer_.start({.type = WireType::kKnock, .cookie = session, .end = {}, .reason = ""});
}

Knock::Answer Knock::advance() {
  if (!socket_.is_open()) return gone(why_);
  if (ends_.passed()) return gone("nobody answered within " + std::to_string(kPatienceMs) + " ms");
  if (!connected_) {
    auto connected = socket_.finish_connect();
    if (!connected) return gone(connected.error().text);
    connected_ = *connected;
  }
  if (connected_ && !asked_) {
    auto asked = writer_.write(socket_);
    if (!asked) return gone(asked.error().text);
    asked_ = *asked;
  }
  if (!asked_) return Answer::kNotYet;
  auto answer = reader_.read(socket_);
  if (!answer) return gone(answer.error().text);
  if (!*answer) return Answer::kNotYet;
  if ((*answer)->type == WireType::kThere && (*answer)->cookie == session_) return Answer::kThere;
  return gone((*answer)->type == WireType::kGone ? "it says: " + (*answer)->reason : "its answer means nothing here");
}

Knock::Answer Knock::gone(const std::string& why) {
  why_ = "its sender's process at " + sender_ + " was asked whether it is there: " + why;
  socket_.close();
  return Answer::kGone;
}

}  // namespace meshbed::net
