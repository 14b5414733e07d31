#include "plugin/net/transport.h"

#include <sys/random.h>

#include <algorithm>
#include <string>

#include "plugin/base/log.h"
#include "plugin/net/clock.h"
#include "plugin/net/listener.h"
#include "plugin/net/memory.h"
#include "plugin/net/reaching.h"
#include "plugin/net/receive.h"
#include "plugin/net/send.h"
#include "plugin/net/service.h"

namespace meshbed::net {
namespace {

Error invalid(std::string text) {
  Error error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

/// A seed that differs between processes where the user gave none.
std::uint64_t system_seed() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof seed)) return seed;
  return mix64(static_cast<std::uint64_t>(now_ns()) ^ reinterpret_cast<std::uintptr_t>(&seed));
}

}  // namespace

Transport::Transport(const Config& config) : config_(config) {}

Transport::~Transport() = default;

Result<std::unique_ptr<Transport>> Transport::open(const Config& config) {
  std::unique_ptr<Transport> transport(new Transport(config));
  auto devices = verbs::Device::open_all(config.flag(Variable::kIbRelaxedOrdering));
  if (!devices) return devices.error();
  transport->devices_ = std::move(*devices);
  auto nics = discover(transport->devices_, config);
  if (!nics) return nics.error();
  transport->nics_ = std::move(*nics);
  auto interfaces = read_interfaces();
  if (!interfaces) return interfaces.error();
  transport->node_ = node_identity(*interfaces);
  // A given seed is mixed with the node, so that the nodes of a job do not all draw the same numbers.
  const std::int64_t seed = config.number(Variable::kSeed);
  transport->prng_ = Prng(seed == kUnset ? system_seed() : mix64(static_cast<std::uint64_t>(seed)) ^ transport->node_);
  transport->process_ = static_cast<std::uint32_t>(transport->prng_.next());
  transport->log_summary();
  if (transport->nics_.empty()) return transport;
  auto service = Service::open(*transport);
  if (service) {
    transport->service_ = std::move(*service);
    transport->service_->start();
  } else {
    // Everything else works; whoever asks for a relay, or lost a leg, is told.
    MESHBED_WARN("no relay and no failover here: %s", service.error().text.c_str());
  }
  return transport;
}

void Transport::log_summary() const {
  std::string text;
  for (const Nic& nic : nics_) {
    text += text.empty() ? "" : "; ";
    text += nic.device_name + ":" + std::to_string(nic.port) + " " + nic.netdev + " " +
            std::to_string(nic.rate_mbps / 1000) + " Gb/s " + (nic.link_up ? "up" : "down");
    for (const IpPrefix& address : nic.addresses) text += " " + to_text(address);
  }
  MESHBED_INFO("Mesh %s: %zu NICs: %s", kVersionText, nics_.size(), text.empty() ? "none" : text.c_str());
}

std::vector<Nic> Transport::current_nics() const {
  std::vector<Nic> nics = nics_;
  const auto interfaces = read_interfaces();
  for (Nic& nic : nics) {
    refresh(nic, device_of(nic));
    if (interfaces) nic.addresses = addresses_of(nic, *interfaces);
  }
  return nics;
}

GidPreference Transport::gid_preference() const {
  return {.roce_v2 = config_.number(Variable::kIbRoceVersion) == 2,
          .forced_index = static_cast<int>(config_.number(Variable::kIbGidIndex)),
          .last_resort = static_cast<int>(config_.number(Variable::kMeshGidIndex))};
}

LocalEnd Transport::local_end(const Nic& nic, const IpPrefix& address, const verbs::GidEntry& gid) {
  return {.device = &device_of(nic),
          .nic = nic,
          .address = address,
          .gid = gid,
          .node = node_,
          .psn = static_cast<std::uint32_t>(random() & 0xffffffU),
          .service_port = service_ ? service_->port() : std::uint16_t{0}};
}

ConnectionSettings Transport::settings_for(int traffic_class) const {
  const std::int64_t configured = config_.number(Variable::kIbTrafficClass);
  return {.leg = {.queue_pair_timeout = config_.queue_pair_timeout(),
                  .queue_pair_retries = config_.queue_pair_retries(),
                  .traffic_class = static_cast<std::uint8_t>(traffic_class >= 0 ? traffic_class : configured),
                  .service_level = static_cast<std::uint8_t>(config_.number(Variable::kIbServiceLevel))},
          .operation_timeout_ns = config_.number(Variable::kTimeoutSec) * 1'000'000'000,
          .fatal_on_timeout = config_.flag(Variable::kFatalOnTimeout),
          .failover_ms = config_.number(Variable::kFailoverTimeoutSec) * 1000};
}

std::uint64_t Transport::random() {
  const std::lock_guard lock(random_mutex_);
  return prng_.next();
}

Result<void> Transport::check_dev(int dev) const {
  if (dev >= 0 && static_cast<std::size_t>(dev) < nics_.size()) return ok();
  return invalid("there is no device " + std::to_string(dev) + ", only " + std::to_string(nics_.size()));
}

bool Transport::wait_for_others() { return !service_ || service_->wait_for_others(); }

Result<Listener*> Transport::listen(const Context& context, int dev, std::span<std::uint8_t, kHandleBytes> handle) {
  if (auto fine = check_dev(dev); !fine) return fine.error();
  auto listener = Listener::create(*this, dev, context.traffic_class);
  if (!listener) {
    MESHBED_WARN("listen on %s: %s", nics_[static_cast<std::size_t>(dev)].device_name.c_str(),
                 listener.error().text.c_str());
    return listener.error();
  }
  encode_handle((*listener)->handle(), handle);
  ++open_objects_;
  const std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(std::move(*listener));
  return listeners_.back().get();
}

void Transport::close(Listener* listener) {
  // Under the lock nobody advances it; clients that were still shaking hands see their connection closed.
  const std::lock_guard lock(listeners_mutex_);
  const auto found = std::find_if(listeners_.begin(), listeners_.end(),
                                  [&](const auto& candidate) { return candidate.get() == listener; });
  if (found == listeners_.end()) return;
  listeners_.erase(found);
  --open_objects_;
}

Result<SendConnection*> Transport::connect(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle) {
  if (auto fine = check_dev(call.dev); !fine) return fine.error();
  auto reaching = take_or_begin(call, handle);
  if (!reaching) return reaching.error();
  auto connection = (*reaching)->advance();
  if (!connection) return connection.error();
  if (*connection) {
    ++open_objects_;
    return connection->release();
  }
  advance_listeners();
  const std::uint64_t token = random() | 1U;
  set_handle_token(handle, token);
  const std::lock_guard lock(pending_mutex_);
  pending_.push_back({.token = token, .owner = call.context, .reaching = std::move(*reaching)});
  return nullptr;
}

/// The connection that the handle's note names, taken out of the table, or a new one.
Result<std::unique_ptr<Reaching>> Transport::take_or_begin(const ConnectCall& call,
                                                           std::span<std::uint8_t, kHandleBytes> handle) {
  const std::uint64_t token = handle_token(handle);
  set_handle_token(handle, 0);
  if (token != 0) {
    const std::lock_guard lock(pending_mutex_);
    const auto found =
        std::find_if(pending_.begin(), pending_.end(), [&](const Pending& entry) { return entry.token == token; });
    if (found == pending_.end()) return invalid("connect: the handle names a connection that is not under way here");
    auto reaching = std::move(found->reaching);
    pending_.erase(found);
    return reaching;
  }
  auto decoded = decode_handle(handle);
  if (!decoded) {
    MESHBED_WARN("connect: %s", decoded.error().text.c_str());
    return decoded.error();
  }
  return Reaching::begin(*this, *decoded, call.dev, call.traffic_class);
}

void Transport::advance_listeners() {
  const std::unique_lock lock(listeners_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // somebody else does it right now
  for (const auto& listener : listeners_) listener->advance_if_idle();
}

Result<ReceiveConnection*> Transport::accept(Listener& listener) {
  auto connection = listener.take();
  if (!connection) return connection.error();
  if (!*connection) return nullptr;
  ++open_objects_;
  return connection->release();
}

void Transport::close(Connection* connection) {
  connection->close();
  delete connection;
  --open_objects_;
}

Result<Memory*> Transport::register_memory(const Connection& connection, void* data, std::size_t size_bytes) {
  verbs::Device& device = connection.home();
  auto registration = device.registrations().acquire(data, size_bytes);
  if (!registration) {
    MESHBED_WARN("%s: %s", device.name().c_str(), registration.error().text.c_str());
    return registration.error();
  }
  return new Memory(device, *registration, data, size_bytes);
}

void Transport::abandon(const Context& context) {
  const std::lock_guard lock(pending_mutex_);
  pending_.erase(
      std::remove_if(pending_.begin(), pending_.end(), [&](const Pending& entry) { return entry.owner == &context; }),
      pending_.end());
}

}  // namespace meshbed::net
