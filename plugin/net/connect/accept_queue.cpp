#include "plugin/net/connect/accept_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/connect/crowd.h"

namespace meshbed::net {
namespace {

/// The system has no descriptor or no memory for one more.
bool is_exhausted(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

}  // namespace

Result<void> AcceptQueue::open(bool ipv6, AcceptQueueOptions options) {
  options_ = std::move(options);
  auto socket = Socket::listen_anywhere(ipv6);
  if (!socket) return socket.error();
  socket_ = std::move(*socket);
  auto port = socket_.local_port();
  if (!port) return port.error();
  port_ = *port;
  return ok();
}

Result<void> AcceptQueue::advance(std::vector<Arrival>& arrivals) {
  const Result<void> admitted = admit(arrivals);
  for (auto& caller : callers_) {
    if (hear(*caller, arrivals)) caller.reset();
  }
  std::erase(callers_, nullptr);
  while (is_crowded()) make_room(arrivals);
  return admitted;
}

Result<void> AcceptQueue::admit(std::vector<Arrival>& arrivals) {
  if (deaf_ && !deaf_until_.passed()) return ok();
  deaf_ = false;
  for (std::size_t let_in = 0; let_in < kLetInAtOnce; ++let_in) {
    auto arrived = socket_.accept_client();
    while (!arrived && is_exhausted(arrived.error().os_errno)) {
      // accept(2) says so before it looks whether anybody is there.
      if (!is_knocked_at()) return ok();
      if (callers_.empty()) {
        go_deaf();
        return ok();
      }
      make_room(arrivals);
      arrived = socket_.accept_client();
    }
    if (!arrived) {
      MESHBED_WARN("%s on port %u: %s", options_.name.c_str(), port_, arrived.error().text.c_str());
      return arrived.error();
    }
    if (!*arrived) return ok();
    auto caller = std::make_unique<Caller>();
    caller->socket = std::move((*arrived)->socket);
    caller->local = (*arrived)->local;
    caller->remote = (*arrived)->remote;
    caller->deadline = Deadline::in_ms(options_.patience_s * 1000);
    caller->over_cable =
        options_.is_over_cable && options_.is_over_cable(caller->local.address, caller->remote.address);
    if (caller->over_cable) caller->spared_until = Deadline::in_ms(kSparedMs);
    deafness_told_ = false;
    MESHBED_LOG(LogLevel::kTrace, "client %s port %u came in on %s port %u", to_text(caller->remote.address).c_str(),
                caller->remote.port, to_text(caller->local.address).c_str(), port_);
    callers_.push_back(std::move(caller));
    if (is_crowded()) make_room(arrivals);
  }
  return ok();
}

bool AcceptQueue::is_knocked_at() const {
  pollfd look{.fd = socket_.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, 0) > 0;
}

void AcceptQueue::go_deaf() {
  deaf_ = true;
  deaf_until_ = Deadline::in_ms(kDeafMs);
  if (std::exchange(deafness_told_, true)) return;
  MESHBED_WARN(
      "%s on port %u: nobody can come in before this process has a free descriptor again: raise its limit (ulimit -n)",
      options_.name.c_str(), port_);
}

bool AcceptQueue::is_crowded() const {
  if (callers_.size() <= kCallersMost) return false;
  if (callers_.size() > kCallersOverCablesMost) return true;
  return static_cast<std::size_t>(std::count_if(
             callers_.begin(), callers_.end(), [](const auto& caller) { return !caller->is_spared(); })) > kCallersMost;
}

/// One goes (crowd.h). Who has a whole message waiting is handed on instead: he has said who he is.
void AcceptQueue::make_room(std::vector<Arrival>& arrivals) {
  std::vector<Waiting> waiting;
  for (const auto& caller : callers_) {
    waiting.push_back({.from = caller->remote.address, .spared = caller->is_spared()});
  }
  const auto chosen = who_goes(waiting);
  if (!chosen) return;
  const auto goes = callers_.begin() + static_cast<std::ptrdiff_t>(*chosen);
  if (!hear(**goes, arrivals)) drop(**goes, "more wait here than may, most of them from that address");
  callers_.erase(goes);
}

bool AcceptQueue::hear(Caller& caller, std::vector<Arrival>& arrivals) {
  auto message = caller.reader.read(caller.socket);
  if (!message) {
    const bool visitor = options_.has_visitors && message.error().os_errno == ECONNRESET && caller.reader.untouched();
    drop(caller, message.error().text, !visitor);
    return true;
  }
  if (*message) {
    arrivals.push_back({.socket = std::move(caller.socket),
                        .local = caller.local,
                        .remote = caller.remote,
                        .over_cable = caller.over_cable,
                        .deadline = caller.deadline,
                        .message = std::move(**message)});
    return true;
  }
  if (!caller.deadline.passed()) return false;
  drop(caller, "it did not finish its handshake in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  return true;
}

void AcceptQueue::watch(std::vector<pollfd>& watched) const {
  for (const auto& caller : callers_) {
    watched.push_back({.fd = caller->socket.descriptor(), .events = POLLIN, .revents = 0});
  }
}

void AcceptQueue::drop(const Caller& caller, const std::string& why, bool worth_a_warning) {
  const LogLevel level = worth_a_warning ? warnings_.next() : LogLevel::kTrace;
  MESHBED_LOG(level, "%s: client %s port %u on %s port %u is dropped: %s%s", options_.name.c_str(),
              to_text(caller.remote.address).c_str(), caller.remote.port, to_text(caller.local.address).c_str(), port_,
              why.c_str(), warnings_.so_far("were dropped here").c_str());
}

}  // namespace meshbed::net
