#include "plugin/base/accept_queue.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugin/base/crowd.h"
#include "plugin/base/log.h"

namespace meshbed {
namespace {

/// The system has no descriptor or no memory for one more.
bool is_exhausted(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

Error accept_error(int error_number) {
  return {.code = ErrorCode::kSystem,
          .scope = Scope::kQueuePair,
          .text = std::string("cannot accept control connections: ") + std::strerror(error_number),
          .os_errno = error_number};
}

}  // namespace

Result<void> AcceptQueue::open(Descriptor listening, AcceptQueueOptions options) {
  options_ = std::move(options);
  listening_ = std::move(listening);
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(listening_.number(), reinterpret_cast<sockaddr*>(&name), &length) != 0) return accept_error(errno);
  const auto address = from_sockaddr(reinterpret_cast<const sockaddr*>(&name));
  if (!address) return accept_error(EAFNOSUPPORT);
  port_ = address->port;
  return ok();
}

void AcceptQueue::close() {
  listening_.close();
  clients_.clear();
  paused_ = false;
}

Result<void> AcceptQueue::advance(std::vector<Introduced>& introduced) {
  const Result<void> accepted = listening_.is_open() ? accept_clients(introduced) : ok();
  for (auto& client : clients_) {
    if (serve(*client, introduced)) client.reset();
  }
  std::erase(clients_, nullptr);
  while (is_crowded()) make_room(introduced);
  return accepted;
}

/// nullptr: none is there.
Result<std::unique_ptr<AcceptQueue::Client>> AcceptQueue::accept_one() const {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  const int number =
      ::accept4(listening_.number(), reinterpret_cast<sockaddr*>(&name), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (number < 0) {
    // A client that gave up while it waited (ECONNABORTED) is none; the next look finds the others.
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) {
      return std::unique_ptr<Client>();
    }
    return accept_error(errno);
  }
  auto client = std::make_unique<Client>();
  client->descriptor = Descriptor(number);
  client->remote = from_sockaddr(reinterpret_cast<const sockaddr*>(&name)).value_or(SocketAddress{});
  length = sizeof name;
  if (::getsockname(number, reinterpret_cast<sockaddr*>(&name), &length) != 0) return std::unique_ptr<Client>();
  client->local = from_sockaddr(reinterpret_cast<const sockaddr*>(&name)).value_or(SocketAddress{});
  return client;
}

Result<void> AcceptQueue::accept_clients(std::vector<Introduced>& introduced) {
  if (paused_ && !paused_until_.passed()) return ok();
  paused_ = false;
  for (std::size_t count = 0; count < options_.accepted_at_once; ++count) {
    auto accepted = accept_one();
    while (!accepted && is_exhausted(accepted.error().os_errno)) {
      // accept(2) reports this before it looks for a connection.
      if (!has_pending_connection()) return ok();
      if (clients_.empty()) {
        pause();
        return ok();
      }
      make_room(introduced);
      accepted = accept_one();
    }
    if (!accepted) {
      MESHBED_WARN("%s on port %u: %s", options_.name.c_str(), port_, accepted.error().text.c_str());
      return accepted.error();
    }
    if (*accepted == nullptr) return ok();
    auto& client = *accepted;
    client->deadline = Deadline::after_ms_or_never(options_.patience_ms);
    client->introduction = options_.make_introduction();
    client->over_cable =
        options_.is_over_cable && options_.is_over_cable(client->local.address, client->remote.address);
    if (client->over_cable) client->spared_until = Deadline::after_ms_or_never(kSparedMs);
    pause_logged_ = false;
    MESHBED_LOG(LogLevel::kTrace, "client %s port %u came in on %s port %u", to_text(client->remote.address).c_str(),
                client->remote.port, to_text(client->local.address).c_str(), port_);
    clients_.push_back(std::move(client));
    if (is_crowded()) make_room(introduced);
  }
  return ok();
}

bool AcceptQueue::has_pending_connection() const {
  pollfd look{.fd = listening_.number(), .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, 0) > 0;
}

void AcceptQueue::pause() {
  paused_ = true;
  paused_until_ = Deadline::after_ms_or_never(kPauseMs);
  if (std::exchange(pause_logged_, true)) return;
  MESHBED_WARN(
      "%s on port %u: Too many open files: no client can connect before this process has a free descriptor again: "
      "raise its limit (ulimit -n)",
      options_.name.c_str(), port_);
}

bool AcceptQueue::is_crowded() const {
  if (clients_.size() <= options_.clients_max) return false;
  if (clients_.size() > std::max(options_.clients_max, kClientsOverCablesMax)) return true;
  return static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), [](const auto& client) {
           return !client->is_spared();
         })) > options_.clients_max;
}

/// One leaves (crowd.h). A client whose introduction has arrived is handed on instead.
void AcceptQueue::make_room(std::vector<Introduced>& introduced) {
  std::vector<Waiting> waiting;
  for (const auto& client : clients_) {
    waiting.push_back({.from = client->remote.address, .spared = client->is_spared()});
  }
  const auto chosen = select_victim(waiting);
  if (!chosen) return;
  const auto victim = clients_.begin() + static_cast<std::ptrdiff_t>(*chosen);
  if (!serve(**victim, introduced)) drop(**victim, "more wait here than may, most of them from that address");
  clients_.erase(victim);
}

bool AcceptQueue::serve(Client& client, std::vector<Introduced>& introduced) {
  const auto advanced = client.introduction->advance(client.descriptor.number());
  if (!advanced) {
    const bool visitor =
        options_.has_visitors && advanced.error().os_errno == ECONNRESET && client.introduction->untouched();
    drop(client, advanced.error().text, !visitor);
    return true;
  }
  if (*advanced) {
    introduced.push_back({.descriptor = std::move(client.descriptor),
                          .local = client.local,
                          .remote = client.remote,
                          .over_cable = client.over_cable,
                          .deadline = client.deadline,
                          .introduction = std::move(client.introduction)});
    return true;
  }
  if (!client.deadline.passed()) return false;
  drop(client, "it did not finish its handshake in time" +
                   (options_.patience_name.empty() ? "" : " (" + options_.patience_name + ")"));
  return true;
}

Deadline AcceptQueue::next_deadline() const {
  Deadline first = paused_ ? paused_until_ : Deadline::never();
  for (const auto& client : clients_) {
    if (client->deadline < first) first = client->deadline;
  }
  return first;
}

void AcceptQueue::watch(std::vector<pollfd>& watched) const {
  for (const auto& client : clients_) {
    watched.push_back({.fd = client->descriptor.number(), .events = POLLIN, .revents = 0});
  }
}

void AcceptQueue::drop(const Client& client, const std::string& why, bool worth_a_warning) {
  const LogLevel level = worth_a_warning ? warnings_.next() : LogLevel::kTrace;
  MESHBED_LOG(level, "%s: client %s port %u on %s port %u is dropped: %s%s", options_.name.c_str(),
              to_text(client.remote.address).c_str(), client.remote.port, to_text(client.local.address).c_str(), port_,
              why.c_str(), warnings_.so_far("were dropped here").c_str());
}

}  // namespace meshbed
