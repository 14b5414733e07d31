// The state of a process, for the state socket.
#include <poll.h>

#include <algorithm>

#include "plugin/base/deadline.h"
#include "plugin/net/listener.h"
#include "plugin/net/pending_connect.h"
#include "plugin/net/service/service_thread.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kLongestStateLookMs = 50;

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

/// Calls of connect() and accept() hold these objects for microseconds, mostly: repeats `look` until it has seen all of
/// them or the time is up, and then takes what it can get.
template <typename Look>
void look_until(const Deadline& enough, const Look& look) {
  while (!look(enough.passed()) && !enough.passed()) ::poll(nullptr, 0, 0);
}

}  // namespace

HandshakeState Transport::state_of(const Pending& pending, std::int64_t now_ns) {
  HandshakeState state = pending.pending_connect->state(now_ns);
  state.asked_ms = (now_ns - pending.asked_ns) / 1'000'000;
  state.comm = pending.comm;
  return state;
}

/// Returns false if other threads are working on some of them.
bool Transport::look_at_accepts(std::int64_t now_ns, bool last, std::vector<HandshakeState>& states) {
  const std::unique_lock lock(listeners_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  std::vector<HandshakeState> seen;
  for (const auto& listener : listeners_) {
    auto state = listener->state(now_ns);
    if (!state && !last) return false;
    if (state) seen.push_back(std::move(*state));
  }
  states.insert(states.end(), seen.begin(), seen.end());
  return true;
}

bool Transport::look_at_connects(std::int64_t now_ns, bool last, std::vector<HandshakeState>& states) {
  const std::lock_guard lock(pending_mutex_);
  const bool all = std::none_of(pending_.begin(), pending_.end(), [](const Pending& one) { return one.at_work; });
  if (!all && !last) return false;
  for (const Pending& pending : pending_) {
    if (!pending.at_work) states.push_back(state_of(pending, now_ns));
  }
  return true;
}

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

bool Transport::has_context_of(std::uint64_t comm) {
  const std::lock_guard lock(contexts_mutex_);
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [comm](const Context* context) { return context->settings.comm == comm; });
}

ProcessState Transport::identity() const {
  ProcessState state;
  state.version = kVersionText;
  state.pid = pid();
  state.host = host();
  state.node = node();
  state.process = number();
  state.service_port = thread_ ? thread_->port() : std::uint16_t{0};
  return state;
}

ProcessState Transport::state() {
  ProcessState state = identity();
  for (const Nic& nic : current_nics()) state.nics.push_back(describe(nic));
  {
    // The lock is held through the steps of handshakes: do not wait for it.
    const std::unique_lock lock(listeners_mutex_, std::try_to_lock);
    if (lock.owns_lock()) state.listeners = static_cast<std::int64_t>(listeners_.size());
  }
  std::size_t registrations = 0;
  for (const auto& device : devices()) registrations += device->registrations().size();
  state.registrations = static_cast<std::int64_t>(registrations);
  state.sessions = static_cast<std::int64_t>(sessions().size());
  {
    const std::lock_guard lock(contexts_mutex_);
    for (Context* context : contexts_) state.communicators.push_back(context->hint());
  }
  const std::int64_t now = now_ns();
  const Deadline enough = Deadline::after_ms_or_never(kLongestStateLookMs);
  look_until(enough, [&](bool last) { return look_at_accepts(now, last, state.handshakes); });
  look_until(enough, [&](bool last) { return look_at_connects(now, last, state.handshakes); });
  state.connections = roster_.look(now_ns());
  return state;
}

void Transport::write_report() {
  if (report_ == nullptr) return;
  ProcessState state = identity();
  for (const Nic& nic : current_nics()) state.nics.push_back(describe(nic));
  state.connections = roster_.look(now_ns());
  if (auto written = report_->write(state); !written) {
    MESHBED_WARN("NCCL_MESH_REPORT: %s", written.error().text.c_str());
    report_.reset();  // one warning is enough
  }
}

ProcessState Transport::state_while_frozen(std::int64_t now_ns) {
  ProcessState state = identity();
  for (const Nic& nic : nics()) state.nics.push_back(describe(nic));
  for (const Context* context : contexts_) state.communicators.push_back(context->hint_while_frozen());
  state.connections = roster_.look_while_frozen(now_ns);
  for (const auto& listener : listeners_) state.handshakes.push_back(listener->state_while_frozen(now_ns));
  for (const Pending& pending : pending_) state.handshakes.push_back(state_of(pending, now_ns));
  if (thread_) state.circuits = thread_->circuits();
  return state;
}

}  // namespace meshbed::net
