#include "plugin/net/move_desk.h"

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/receive.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kPauseMs = 250;
/// All retries of a queue pair take as long (7.5 s): then the senders know.
constexpr std::int64_t kPatienceMs = 8000;

}  // namespace

void MoveDesk::look() {
  told_.clear();
  ends_ = Deadline::in_ms(kPatienceMs);
  tell_all();
}

void MoveDesk::tell_all() {
  const std::vector<Nic> nics = transport_.current_nics();
  std::vector<MovedEnd> ends;
  transport_.sessions().for_each([&](ReceiveConnection& connection) { connection.list_moved_ends(nics, ends); });
  looks_again_ = !ends.empty();
  next_look_ = Deadline::in_ms(kPauseMs);
  for (MovedEnd& end : ends) {
    const Key key(end.session, end.local.nic.device, end.own.qp_number);
    const bool is_told = std::find(told_.begin(), told_.end(), key) != told_.end();
    const bool is_called = std::any_of(calls_.begin(), calls_.end(), [&](const Call& call) { return call.key == key; });
    if (is_told || is_called) continue;
    end.own.address = own_address(end.local, end.sender.address.address);
    calls_.push_back({.key = key,
                      .call = std::make_unique<ServiceCall>(
                          end.local, end.sender,
                          WireMessage{.type = WireType::kMoved, .cookie = end.session, .end = end.own, .reason = ""})});
  }
}

void MoveDesk::advance() {
  std::erase_if(calls_, [this](const Call& one) {
    const ServiceCall::Answer answer = one.call->advance();
    if (answer == ServiceCall::Answer::kNotYet) return false;
    if (answer == ServiceCall::Answer::kNone) {
      MESHBED_LOG(LogLevel::kTrace, "a sender is not told yet of our new address: %s", one.call->why().c_str());
    } else {
      told_.push_back(one.key);
    }
    return true;
  });
  if (!looks_again_ || !next_look_.passed()) return;
  if (ends_.passed()) {
    looks_again_ = false;
  } else {
    tell_all();
  }
}

void MoveDesk::watch(std::vector<pollfd>& watched) const {
  for (const Call& one : calls_) {
    watched.push_back({.fd = one.call->descriptor(),
                       .events = static_cast<short>(one.call->writes() ? POLLOUT : POLLIN),
                       .revents = 0});
  }
}

}  // namespace meshbed::net
