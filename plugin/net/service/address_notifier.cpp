#include "plugin/net/service/address_notifier.h"

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/process/discovery.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kMovePauseMs = 250;
/// About the time of all retries of a queue pair (7.5 s): after it the senders have noticed.
constexpr std::int64_t kPatienceMs = 8000;
/// Each call needs a descriptor; the others follow when some have been answered.
constexpr std::size_t kCallsAtOnce = 32;

}  // namespace

void AddressNotifier::look() {
  calls_.clear();  // they may contain an outdated address
  ends_ = Deadline::after_ms_or_never(kPatienceMs);
  tell_all();
}

void AddressNotifier::tell_all() {
  const std::vector<Nic> nics = process_.current_nics();
  std::vector<ReceivingEnd> ends;
  process_.sessions().for_each([&](ReceiveConnection& connection) { connection.list_ends(nics, ends); });
  const auto interfaces = read_interfaces();
  std::map<Key, IpAddress> told;
  looks_again_ = false;
  next_look_ = Deadline::after_ms_or_never(kMovePauseMs);
  for (ReceivingEnd& end : ends) {
    const Key key(end.session, end.local.nic.device, end.own.qp_number);
    const auto known = told_.find(key);
    if (interfaces) end.own.address = own_address(*interfaces, end.local, end.sender.address.address);
    const IpAddress& now = end.own.address.address;
    if (known != told_.end()) told.insert(*known);
    // An end that has its old address back is also reported to a sender that was sent another one.
    if (known != told_.end() ? known->second == now : end.stands) continue;
    looks_again_ = true;
    const bool is_called = std::any_of(calls_.begin(), calls_.end(), [&](const Call& call) { return call.key == key; });
    if (is_called || calls_.size() >= kCallsAtOnce) continue;
    const WireMessage moved{.type = WireType::kMoved, .cookie = end.session, .end = end.own, .reason = ""};
    calls_.push_back({.key = key, .address = now, .call = std::make_unique<ServiceCall>(now, end.sender, moved)});
  }
  told_ = std::move(told);
}

void AddressNotifier::advance() {
  const std::size_t before = calls_.size();
  std::erase_if(calls_, [this](const Call& one) {
    const ServiceCall::Answer answer = one.call->advance();
    if (answer == ServiceCall::Answer::kNotYet) return false;
    // A sender without this session may be about to have it.
    if (answer == ServiceCall::Answer::kThere) {
      told_[one.key] = one.address;
    } else {
      MESHBED_LOG(LogLevel::kTrace, "our new address has not reached a sender yet: %s", one.call->why().c_str());
    }
    return true;
  });
  const bool has_room = before == kCallsAtOnce && calls_.size() < before;
  if (!looks_again_ || !(has_room || next_look_.passed())) return;
  if (ends_.passed()) {
    looks_again_ = false;
  } else {
    tell_all();
  }
}

void AddressNotifier::watch(std::vector<pollfd>& watched) const {
  for (const Call& one : calls_) {
    watched.push_back({.fd = one.call->descriptor(),
                       .events = static_cast<short>(one.call->writes() ? POLLOUT : POLLIN),
                       .revents = 0});
  }
}

}  // namespace meshbed::net
