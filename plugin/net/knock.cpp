#include "plugin/net/knock.h"

#include "plugin/net/discovery.h"
#include "plugin/net/scout.h"
#include "plugin/net/service.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kPatienceMs = 2500;
/// Questions get lost: asked again after this, then after twice as long.
constexpr std::int64_t kFirstPauseMs = 50;

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

Knock::Knock(Transport& transport, const Leg& leg, std::uint64_t session)
    : scout_(transport.service() != nullptr ? transport.service()->scout() : nullptr),
      session_(session),
      ends_(Deadline::in_ms(kPatienceMs)),
      question_pause_ms_(kFirstPauseMs) {
  if (leg.peer().wants_notice) {
    who_ = "its sender, behind relay " + to_text(leg.peer().address.address) + ",";
    why_ = "nobody says that it is";
  } else {
    who_ = "its sender's process at " + to_text(leg.peer().address.address);
    dial(leg.local(), leg.peer());
  }
}

Knock::~Knock() {
  if (scout_ != nullptr) scout_->end_inquiry(session_);
}

void Knock::dial(const LocalEnd& local, const WireEnd& sender) {
  auto socket = Socket::begin_connect(own_address(local, sender.address.address),
                                      {.address = sender.address.address, .port = sender.service_port});
  if (socket) {
    socket_ = std::move(*socket);
    why_ = "nobody answered within " + std::to_string(kPatienceMs) + " ms";
  } else {
    why_ = socket.error().text;
  }
  writer_.start({.type = WireType::kKnock, .cookie = session_, .end = {}, .reason = ""});
}

Knock::Answer Knock::advance() {
  if (is_found_elsewhere()) return Answer::kThere;
  const Answer answer = ask_over_cable();
  if (answer != Answer::kNotYet) return answer;
  if (!ends_.passed() && (socket_.is_open() || scout_ != nullptr)) return Answer::kNotYet;
  why_ = who_ + " was asked whether it is there: " + why_;
  return Answer::kGone;
}

bool Knock::is_found_elsewhere() {
  if (scout_ == nullptr) return false;
  if (scout_->is_found(session_)) return true;
  if (question_pause_ms_ == kFirstPauseMs || next_question_.passed()) {
    scout_->inquire(session_);
    next_question_ = Deadline::in_ms(question_pause_ms_);
    question_pause_ms_ *= 2;
  }
  return false;
}

Knock::Answer Knock::ask_over_cable() {
  if (!socket_.is_open()) return Answer::kNotYet;
  if (!connected_) {
    auto connected = socket_.finish_connect();
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
  const bool is_ours = (*answer)->cookie == session_;
  if ((*answer)->type == WireType::kThere && is_ours) return Answer::kThere;
  if ((*answer)->type != WireType::kGone || !is_ours) return hang_up("its answer means nothing here");
  why_ = who_ + " was asked whether it is there: it says: " + (*answer)->reason;
  return Answer::kGone;
}

Knock::Answer Knock::hang_up(const std::string& why) {
  why_ = why;
  socket_.close();
  return Answer::kNotYet;
}

}  // namespace meshbed::net
