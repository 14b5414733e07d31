// What a process says of itself to whoever looks from outside.
#include <algorithm>

#include "plugin/net/clock.h"
#include "plugin/net/listener.h"
#include "plugin/net/service.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

NicState describe(const Nic& nic) {
  NicState state{.name = nic.device_name,
                 .netdev = nic.netdev,
                 .pci_path = nic.pci_path,
                 .port = nic.port,
                 .link_up = nic.link_up,
                 .rate_mbps = nic.rate_mbps,
                 .guid = nic.guid,
                 .rail = nic.rail,
                 .plane = nic.plane};
  for (const IpPrefix& address : nic.addresses) state.addresses.push_back(to_text(address));
  for (const verbs::GidEntry& gid : nic.gids) {
    state.gids.push_back(std::to_string(gid.index) + " " + verbs::to_text(gid.gid) + " " + verbs::to_text(gid.type));
  }
  return state;
}

}  // namespace

Context::Context(Transport& transport, const ContextSettings& settings)
    : Object(kKind), transport(transport), settings(settings) {
  transport.enroll(*this);
}

Context::~Context() { transport.leave(*this); }

void Transport::enroll(Context& context) {
  const std::lock_guard lock(contexts_mutex_);
  contexts_.push_back(&context);
}

void Transport::leave(const Context& context) {
  const std::lock_guard lock(contexts_mutex_);
  std::erase(contexts_, &context);
}

ProcessState Transport::identity() const {
  ProcessState state;
  state.version = kVersionText;
  state.pid = pid_;
  state.host = host_;
  state.node = node_;
  state.process = process_;
  state.service_port = service_ ? service_->port() : std::uint16_t{0};
  return state;
}

ProcessState Transport::state() {
  ProcessState state = identity();
  for (const Nic& nic : current_nics()) state.nics.push_back(describe(nic));
  {
    // Held through the steps of handshakes: not worth waiting for.
    const std::unique_lock lock(listeners_mutex_, std::try_to_lock);
    if (lock.owns_lock()) state.listeners = static_cast<std::int64_t>(listeners_.size());
  }
  std::size_t registrations = 0;
  for (const auto& device : devices_) registrations += device->registrations().size();
  state.registrations = static_cast<std::int64_t>(registrations);
  state.sessions = static_cast<std::int64_t>(sessions_.size());
  {
    const std::lock_guard lock(contexts_mutex_);
    for (Context* context : contexts_) state.communicators.push_back(context->hint());
  }
  state.connections = roster_.look(now_ns());
  return state;
}

ProcessState Transport::state_while_frozen(std::int64_t now_ns) {
  ProcessState state = identity();
  for (const Nic& nic : nics_) state.nics.push_back(describe(nic));
  for (const Context* context : contexts_) state.communicators.push_back(context->hint_while_frozen());
  state.connections = roster_.look_while_frozen(now_ns);
  if (service_) state.circuits = service_->circuits();
  return state;
}

}  // namespace meshbed::net
