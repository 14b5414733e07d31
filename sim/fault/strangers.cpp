#include "sim/fault/strangers.h"

#include <poll.h>

#include <algorithm>

#include "sim/host/host_state.h"
#include "sim/host/socket/tcp_socket.h"

namespace meshbed::sim {
namespace {

/// How often they look for ports, and at what has become of their connections. Shorter than a handshake of the ranks
/// takes, so that no listener is over before they have found it.
constexpr Picoseconds kLookEvery = 10 * kPicosecondsPerMicrosecond;
/// A stranger that was dropped connects again after this time.
constexpr Picoseconds kComeAgainAfter = kPicosecondsPerMillisecond;

constexpr char kWord = 'M';

}  // namespace

Strangers::Strangers(World& world, const StrangerOptions& options) : world_(world), options_(options) {}

Strangers::~Strangers() = default;

void Strangers::begin() {
  if (process_ == nullptr) process_ = &world_.add_process(-1, options_.from, "strangers");
  if (!std::exchange(active_, true)) look();
}

void Strangers::end() {
  active_ = false;
  crowds_.clear();
}

void Strangers::look_due(void* self, std::uint64_t) { static_cast<Strangers*>(self)->look(); }

void Strangers::look() {
  if (!active_) return;
  const std::vector<std::uint16_t> ports = host().tcp.listening_ports(options_.target);
  std::erase_if(crowds_,
                [&](const auto& entry) { return !std::binary_search(ports.begin(), ports.end(), entry.first); });
  for (const std::uint16_t port : ports) {
    Crowd& crowd = crowds_[port];
    for (Caller& caller : crowd.callers) speak(caller);
    std::erase_if(crowd.callers, [](const Caller& caller) {
      const bool thrown_out = (caller.socket->events() & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
      return thrown_out && !caller.socket->connecting();
    });
    if (world_.now() < crowd.calls_at) continue;
    const bool missing = crowd.callers.size() < static_cast<std::size_t>(options_.connections);
    if (missing) crowd.calls_at = world_.now() + kComeAgainAfter;
    while (crowd.callers.size() < static_cast<std::size_t>(options_.connections)) call(port, crowd);
  }
  world_.after(kLookEvery, options_.from, &Strangers::look_due, this, 0);
}

void Strangers::call(std::uint16_t port, Crowd& crowd) {
  const models::IpAddress address = world_.cluster().at(options_.target).management->address.address;
  const int family = address.family == models::Family::kIpv4 ? AF_INET : AF_INET6;
  auto socket = std::make_shared<TcpSocket>(*process_, family);
  socket->from_stranger = true;
  // Where it comes to nothing the socket is fresh again, and gives way to the next one.
  socket->connect({.address = address, .port = port});
  ++host().counters.stranger_connections;
  crowd.callers.push_back({.socket = std::move(socket), .speaks_at = world_.now() + options_.byte_every});
}

void Strangers::speak(Caller& caller) {
  if (options_.byte_every == 0 || world_.now() < caller.speaks_at || !caller.socket->connected()) return;
  caller.speaks_at = world_.now() + options_.byte_every;
  if (caller.socket->try_write(&kWord, sizeof kWord) == sizeof kWord) ++host().counters.stranger_bytes;
}

}  // namespace meshbed::sim
