#include "plugin/net/porch.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "plugin/base/log.h"

namespace meshbed::net {
namespace {

constexpr std::uint64_t kToldOneByOne = 4;

/// The system has no descriptor or no memory for one more.
bool is_exhausted(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

}  // namespace

Result<void> Porch::open(bool ipv6, PorchOptions options) {
  options_ = std::move(options);
  auto socket = Socket::listen_anywhere(ipv6);
  if (!socket) return socket.error();
  socket_ = std::move(*socket);
  auto port = socket_.local_port();
  if (!port) return port.error();
  port_ = *port;
  return ok();
}

Result<void> Porch::advance(std::vector<Arrival>& arrivals) {
  const Result<void> admitted = admit(arrivals);
  for (auto& caller : callers_) {
    if (hear(*caller, arrivals)) caller.reset();
  }
  std::erase(callers_, nullptr);
  while (is_crowded()) make_room(arrivals);
  return admitted;
}

Result<void> Porch::admit(std::vector<Arrival>& arrivals) {
  if (deaf_ && !deaf_until_.passed()) return ok();
  deaf_ = false;
  for (;;) {
    auto arrived = socket_.accept_client();
    if (!arrived) {
      if (is_exhausted(arrived.error().os_errno) && callers_.empty()) {
        go_deaf();
        return ok();
      }
      if (!is_exhausted(arrived.error().os_errno)) {
        MESHBED_WARN("%s on port %u: %s", options_.name.c_str(), port_, arrived.error().text.c_str());
        return arrived.error();
      }
      make_room(arrivals);
      continue;
    }
    if (!*arrived) return ok();
    auto caller = std::make_unique<Caller>();
    caller->socket = std::move((*arrived)->socket);
    caller->local = (*arrived)->local;
    caller->remote = (*arrived)->remote;
    caller->deadline = Deadline::in_ms(options_.patience_s * 1000);
    caller->over_cable = options_.is_cable && options_.is_cable(caller->local.address);
    if (caller->over_cable) caller->spared_until = Deadline::in_ms(kSparedMs);
    deafness_told_ = false;
    MESHBED_LOG(LogLevel::kTrace, "client %s port %u came in on %s port %u", to_text(caller->remote.address).c_str(),
                caller->remote.port, to_text(caller->local.address).c_str(), port_);
    callers_.push_back(std::move(caller));
    if (is_crowded()) make_room(arrivals);
  }
}

void Porch::go_deaf() {
  deaf_ = true;
  deaf_until_ = Deadline::in_ms(kDeafMs);
  if (std::exchange(deafness_told_, true)) return;
  MESHBED_WARN(
      "%s on port %u: nobody can come in before this process has a free descriptor again: raise its limit (ulimit -n)",
      options_.name.c_str(), port_);
}

bool Porch::is_crowded() const {
  if (callers_.size() <= kCallersMost) return false;
  if (callers_.size() > kCallersOverCablesMost) return true;
  return static_cast<std::size_t>(std::count_if(
             callers_.begin(), callers_.end(), [](const auto& caller) { return !caller->is_spared(); })) > kCallersMost;
}

/// One goes: of those who are not spared, where there are any. Who has a whole message waiting is handed on instead: he
/// has said who he is.
void Porch::make_room(std::vector<Arrival>& arrivals) {
  struct Crowd {
    std::size_t first = 0;  // of its callers: the one who has waited longest
    std::size_t callers = 0;
  };
  std::vector<Crowd> crowds;  // one an address; of those who are spared where all are
  for (const bool spared : {false, true}) {
    if (!crowds.empty()) break;
    for (std::size_t index = 0; index < callers_.size(); ++index) {
      if (callers_[index]->is_spared() != spared) continue;
      auto crowd = std::find_if(crowds.begin(), crowds.end(), [&](const Crowd& other) {
        return callers_[other.first]->remote.address == callers_[index]->remote.address;
      });
      if (crowd == crowds.end()) crowd = crowds.insert(crowds.end(), {.first = index, .callers = 0});
      ++crowd->callers;
    }
  }
  const auto largest = std::max_element(
      crowds.begin(), crowds.end(), [](const Crowd& one, const Crowd& other) { return one.callers < other.callers; });
  const auto goes = callers_.begin() + static_cast<std::ptrdiff_t>(largest->first);
  if (!hear(**goes, arrivals)) drop(**goes, "more wait here than may, most of them from that address");
  callers_.erase(goes);
}

bool Porch::hear(Caller& caller, std::vector<Arrival>& arrivals) {
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
                        .deadline = caller.deadline,
                        .message = std::move(**message)});
    return true;
  }
  if (!caller.deadline.passed()) return false;
  drop(caller, "it did not finish its handshake in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  return true;
}

void Porch::watch(std::vector<pollfd>& watched) const {
  for (const auto& caller : callers_) {
    watched.push_back({.fd = caller->socket.descriptor(), .events = POLLIN, .revents = 0});
  }
}

void Porch::drop(const Caller& caller, const std::string& why, bool worth_a_warning) {
  if (worth_a_warning) ++dropped_;
  const bool told = worth_a_warning && (dropped_ <= kToldOneByOne || std::has_single_bit(dropped_));
  const std::string all = dropped_ > kToldOneByOne ? "; " + std::to_string(dropped_) + " were dropped here so far" : "";
  MESHBED_LOG(told ? LogLevel::kWarn : LogLevel::kTrace, "%s: client %s port %u on %s port %u is dropped: %s%s",
              options_.name.c_str(), to_text(caller.remote.address).c_str(), caller.remote.port,
              to_text(caller.local.address).c_str(), port_, why.c_str(), all.c_str());
}

}  // namespace meshbed::net
