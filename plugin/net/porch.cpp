#include "plugin/net/porch.h"

#include <algorithm>
#include <bit>
#include <cerrno>

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
  return admitted;
}

Result<void> Porch::admit(std::vector<Arrival>& arrivals) {
  for (;;) {
    auto arrived = socket_.accept_client();
    if (!arrived) {
      if (!is_exhausted(arrived.error().os_errno) || callers_.empty()) {
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
    MESHBED_LOG(LogLevel::kTrace, "client %s port %u came in on %s port %u", to_text(caller->remote.address).c_str(),
                caller->remote.port, to_text(caller->local.address).c_str(), port_);
    callers_.push_back(std::move(caller));
    if (callers_.size() > kCallersMost) make_room(arrivals);
  }
}

/// Who has a whole message waiting is handed on instead: he has said who he is.
void Porch::make_room(std::vector<Arrival>& arrivals) {
  auto goes = callers_.begin();
  std::ptrdiff_t most = 0;
  for (auto one = callers_.begin(); one != callers_.end(); ++one) {
    const std::ptrdiff_t count = std::count_if(
        one, callers_.end(), [&](const auto& other) { return other->remote.address == (*one)->remote.address; });
    if (count <= most) continue;
    most = count;
    goes = one;
  }
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
