#include "plugin/net/transport.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "plugin/base/check.h"
#include "plugin/base/counted.h"
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

namespace {

/// Events tell of most changes; addresses come and go without one.
constexpr std::int64_t kNicsAgeMs = 20;
/// A cable that is there joins within some round trips; one that is not must not hold up a job's start for long.
constexpr std::int64_t kJoiningMs = 2000;
/// So many nodes of chains may be dialled in vain within the connect timeout, each for so long where that has no end.
constexpr std::int64_t kChainDialsMost = 4, kChainDialMs = 2500;

/// nullptr: it goes over TCP.
Connection* as_connection(Endpoint& endpoint) {
  const bool rdma = endpoint.is(ObjectKind::kSend) || endpoint.is(ObjectKind::kReceive);
  return rdma ? &static_cast<Connection&>(endpoint) : nullptr;
}

}  // namespace

Transport::Transport(const Config& config) : config_(config) {}

Transport::~Transport() = default;

Result<std::unique_ptr<Transport>> Transport::open(const Config& config) {
  std::unique_ptr<Transport> transport(new Transport(config));
  if (auto found = transport->find_nics(); !found) return found.error();
  auto interfaces = read_interfaces();
  if (!interfaces) return interfaces.error();
  transport->node_ = node_identity(*interfaces);
  // A given seed is mixed with the node, so that the nodes of a job do not all draw the same numbers.
  const std::int64_t seed = config.number(Variable::kSeed);
  transport->prng_ = Prng(seed == kUnset ? system_seed() : mix64(static_cast<std::uint64_t>(seed)) ^ transport->node_);
  transport->process_ = static_cast<std::uint32_t>(transport->prng_.next());
  transport->pid_ = ::getpid();
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  transport->host_ = host;
  transport->log_summary();
  if (!transport->nics_.empty()) transport->open_service();
  return transport;
}

void Transport::open_service() {
  auto service = Service::open(*this);
  if (!service) {
    // Everything else works; whoever asks for a relay, or lost a leg, is told.
    MESHBED_WARN("no relay and no failover here: %s", service.error().text.c_str());
    return;
  }
  service_ = std::move(*service);
  service_->start();
}

Result<void> Transport::find_nics() {
  if (!config_.flag(Variable::kDisableRdma)) {
    auto devices = verbs::Device::open_all(config_.flag(Variable::kIbRelaxedOrdering));
    if (!devices) return devices.error();
    devices_ = std::move(*devices);
    auto nics = discover(devices_, config_);
    if (!nics) return nics.error();
    nics_ = std::move(*nics);
    device_memory_ = find_device_memory_support(devices_, nics_);
  }
  std::set<std::string> cables;
  for (const Nic& nic : nics_) cables.insert(nic.netdev);
  tcp_ = std::make_unique<TcpNetwork>(config_, std::move(cables));
  if (tcp_->everything()) {
    nics_ = tcp_devices(tcp_->interfaces());
    MESHBED_WARN("NCCL_MESH_DISABLE_RDMA=1: everything goes over TCP, by %s", tcp_->describe().c_str());
  }
  loads_ = std::make_unique<PortLoad[]>(nics_.size());
  return ok();
}

void Transport::log_summary() const {
  std::string text;
  for (const Nic& nic : nics_) {
    text += text.empty() ? "" : "; ";
    text += nic.device_name + ":" + std::to_string(nic.port) + " " + nic.netdev + " " +
            std::to_string(nic.rate_mbps / 1000) + " Gb/s " + (nic.link_up ? "up" : "down");
    for (const IpPrefix& address : nic.addresses) text += " " + to_text(address);
  }
  MESHBED_INFO("Mesh %s: %s: %s", kVersionText, counted(nics_.size(), "NIC").c_str(),
               text.empty() ? "none" : text.c_str());
  const bool by_dma_buf = device_memory_.without_dma_buf.empty(), by_peer = device_memory_.without_peer_memory.empty();
  if (!by_dma_buf && !by_peer) return;
  MESHBED_INFO("GPU memory is registered %s%s%s", by_dma_buf ? "as dma-buf" : "", by_dma_buf && by_peer ? " and " : "",
               by_peer ? "by its address (peer memory)" : "");
}

std::vector<Nic> Transport::current_nics() const {
  std::vector<Nic> nics = nics_;
  const auto interfaces = read_interfaces();
  for (Nic& nic : nics) {
    if (nic.device >= 0) refresh(nic, device_of(nic));
    if (interfaces) nic.addresses = addresses_of(nic, *interfaces, address_preference(config_));
  }
  return nics;
}

std::shared_ptr<const std::vector<Nic>> Transport::recent_nics() {
  const std::lock_guard lock(recent_nics_mutex_);
  const std::uint32_t events = port_events();
  if (recent_nics_ == nullptr || events != recent_nics_events_ || recent_nics_age_.passed()) {
    recent_nics_ = std::make_shared<const std::vector<Nic>>(current_nics());
    recent_nics_events_ = events;
    recent_nics_age_ = Deadline::in_ms(kNicsAgeMs);
  }
  return recent_nics_;
}

std::vector<std::uint64_t> Transport::in_flight_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (std::size_t nic = 0; nic < nics_.size(); ++nic)
    bytes.push_back(loads_[nic].bytes.load(std::memory_order_relaxed));
  return bytes;
}

GidPreference Transport::gid_preference() const {
  return {.roce_v2 = config_.number(Variable::kIbRoceVersion) == 2,
          .forced_index = static_cast<int>(config_.number(Variable::kIbGidIndex)),
          .last_resort = static_cast<int>(config_.number(Variable::kMeshGidIndex))};
}

LocalEnd Transport::local_end(const Nic& nic, const IpPrefix& address, const verbs::GidEntry& gid) {
  const auto ours = std::find_if(nics_.begin(), nics_.end(), [&](const Nic& known) {
    return known.device == nic.device && known.port == nic.port;
  });
  return {.device = &device_of(nic),
          .nic = nic,
          .address = address,
          .gid = gid,
          .node = node_,
          .psn = static_cast<std::uint32_t>(random() & 0xffffffU),
          .service_port = service_ ? service_->port() : std::uint16_t{0},
          .load = ours != nics_.end() ? &loads_[static_cast<std::size_t>(ours - nics_.begin())] : nullptr,
          .spent = &spent_legs_};
}

ConnectionSettings Transport::settings_for(int traffic_class) const {
  const std::int64_t configured = config_.number(Variable::kIbTrafficClass);
  const bool balances = config_.flag(Variable::kRingLoadBalance);
  return {.leg = {.queue_pair_timeout = config_.queue_pair_timeout(),
                  .queue_pair_retries = config_.queue_pair_retries(),
                  .traffic_class = static_cast<std::uint8_t>(traffic_class >= 0 ? traffic_class : configured),
                  .service_level = static_cast<std::uint8_t>(config_.number(Variable::kIbServiceLevel)),
                  .pkey_index = static_cast<std::uint16_t>(config_.number(Variable::kIbPkey)),
                  .inline_data = config_.flag(Variable::kIbUseInline),
                  .striped = config_.number(Variable::kStripeBytes) > 0},
          .stripes = {.from_bytes = static_cast<std::uint64_t>(config_.number(Variable::kStripeBytes)),
                      .hysteresis_bytes =
                          balances ? static_cast<std::uint64_t>(config_.number(Variable::kRingBalanceThreshold))
                                   : UINT64_MAX,
                      .queue_pairs = static_cast<unsigned>(config_.number(Variable::kIbQueuePairs))},
          .operation_timeout_ns = config_.number(Variable::kTimeoutSec) * 1'000'000'000,
          .fatal_on_timeout = config_.flag(Variable::kFatalOnTimeout),
          .failover_ms = config_.number(Variable::kFailoverTimeoutSec) * 1000,
          .flushes = !config_.flag(Variable::kGdrFlushDisable)};
}

std::int64_t Transport::joining_ms() const {
  std::int64_t patience_ms = kJoiningMs;
  // The peer's accept() waits as well, and must not lose patience: it may have kept us for three quarters of it.
  for (const auto& [variable, share] : {std::pair(Variable::kConnectTimeoutSec, 1), {Variable::kAcceptTimeoutSec, 5}}) {
    const std::int64_t timeout_ms = config_.number(variable) * 1000 / share;
    if (timeout_ms > 0) patience_ms = std::min(patience_ms, timeout_ms);
  }
  return patience_ms;
}

std::int64_t Transport::chain_dial_ms() const {
  const std::int64_t share_ms = config_.number(Variable::kConnectTimeoutSec) * 1000 / kChainDialsMost;
  return share_ms > 0 ? share_ms : kChainDialMs;
}

ConnectionSettings Transport::receiving_settings_for(int traffic_class) const {
  const std::int64_t fifo = config_.number(Variable::kIbFifoTrafficClass);
  return settings_for(fifo != kUnset ? static_cast<int>(fifo) : traffic_class);
}

std::vector<InterfaceAddress> Transport::tcp_interfaces() const {
  return tcp_->wanted() ? tcp_->interfaces() : std::vector<InterfaceAddress>{};
}

std::vector<PeerAddress> Transport::tcp_addresses(int dev) const {
  const std::string& netdev = nics_[static_cast<std::size_t>(dev)].netdev;
  std::vector<InterfaceAddress> interfaces = tcp_interfaces();
  std::stable_partition(interfaces.begin(), interfaces.end(),
                        [&](const InterfaceAddress& interface) { return interface.netdev == netdev; });
  std::vector<PeerAddress> addresses;
  for (const InterfaceAddress& interface : interfaces) {
    addresses.push_back({.prefix = interface.prefix, .nic = kTcpNic});
  }
  return addresses;
}

TcpSettings Transport::tcp_settings() const {
  const std::int64_t patience_s = config_.number(Variable::kFailoverTimeoutSec);
  TcpSettings settings{.operation_timeout_ns = config_.number(Variable::kTimeoutSec) * 1'000'000'000,
                       .fatal_on_timeout = config_.flag(Variable::kFatalOnTimeout)};
  if (patience_s > 0) settings.patience_ms = patience_s * 1000;
  return settings;
}

std::uint64_t Transport::random() {
  const std::lock_guard lock(random_mutex_);
  return prng_.next();
}

Result<void> Transport::check_dev(int dev) const {
  if (dev >= 0 && static_cast<std::size_t>(dev) < nics_.size()) return ok();
  if (nics_.empty()) return invalid("there is no device " + std::to_string(dev) + ", for there is none at all");
  return invalid("there is no device " + std::to_string(dev) + ": they are numbered from 0 to " +
                 std::to_string(nics_.size() - 1));
}

bool Transport::wait_for_others() { return !service_ || service_->wait_for_others(); }

Result<Listener*> Transport::listen(const Context& context, int dev, std::span<std::uint8_t, kHandleBytes> handle) {
  if (auto fine = check_dev(dev); !fine) return fine.error();
  tcp_->sweep();
  spent_legs_.sweep();
  auto listener = Listener::create(*this, dev, context.settings);
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

Result<Endpoint*> Transport::connect(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle) {
  if (auto fine = check_dev(call.dev); !fine) return fine.error();
  auto reaching = take_or_begin(call, handle);
  if (!reaching) return reaching.error();
  const auto done_with = [this](Reaching* ended) { forget(*ended); };
  std::unique_ptr<Reaching, decltype(done_with)> at_work(*reaching, done_with);
  auto connection = at_work->advance();
  if (!connection) return connection.error();
  if (*connection) {
    enroll(**connection, call.context->settings);
    if ((*connection)->is(ObjectKind::kSend)) {
      static_cast<SendConnection&>(**connection).heed(call.context->traffic_hint());
    }
    ++open_objects_;
    return connection->release();
  }
  advance_listeners();
  const std::uint64_t token = random() | 1U;
  set_handle_token(handle, token);
  const std::lock_guard lock(pending_mutex_);
  Pending& pending = pending_of(*at_work.release());
  pending.token = token;
  pending.at_work = false;
  return nullptr;
}

/// The connection that the handle's note names, or a new one: nobody else's until connect() is through with it.
Result<Reaching*> Transport::take_or_begin(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle) {
  const std::uint64_t token = handle_token(handle);
  set_handle_token(handle, 0);
  if (token != 0) {
    const std::lock_guard lock(pending_mutex_);
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Pending& entry) { return entry.token == token && !entry.at_work; });
    if (found == pending_.end()) return invalid("connect: the handle names a connection that is not under way here");
    found->at_work = true;
    found->asked_ns = now_ns();
    return found->reaching.get();
  }
  auto decoded = decode_handle(handle);
  if (!decoded) {
    MESHBED_WARN("connect: %s", decoded.error().text.c_str());
    return decoded.error();
  }
  auto begun = Reaching::begin(*this, *decoded, call.dev, call.traffic_class);
  if (!begun) return begun.error();
  const std::lock_guard lock(pending_mutex_);
  pending_.push_back({.owner = call.context,
                      .comm = call.context->settings.comm,
                      .reaching = std::move(*begun),
                      .at_work = true,
                      .asked_ns = now_ns()});
  return pending_.back().reaching.get();
}

/// Under the lock. There is one.
Transport::Pending& Transport::pending_of(const Reaching& reaching) {
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [&](const Pending& entry) { return entry.reaching.get() == &reaching; });
  MESHBED_CHECK(found != pending_.end());
  return *found;
}

void Transport::forget(const Reaching& reaching) {
  std::unique_ptr<Reaching> ended;  // destroyed without the lock
  const std::lock_guard lock(pending_mutex_);
  Pending& pending = pending_of(reaching);
  ended = std::move(pending.reaching);
  std::erase_if(pending_, [](const Pending& entry) { return entry.reaching == nullptr; });
}

void Transport::advance_listeners() {
  const std::unique_lock lock(listeners_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // somebody else does it right now
  for (const auto& listener : listeners_) listener->advance_if_idle();
}

Result<Endpoint*> Transport::accept(Listener& listener) {
  auto connection = listener.take();
  if (!connection) return connection.error();
  if (!*connection) return nullptr;
  enroll(**connection, listener.owner());
  ++open_objects_;
  return connection->release();
}

/// A connection that is made belongs to a communicator.
void Transport::enroll(Endpoint& endpoint, const ContextSettings& owner) {
  if (owner.profiler != nullptr) endpoint.report_events_to(owner.profiler);
  roster_.add(endpoint, owner.comm);
}

void Transport::close(Endpoint* connection) {
  roster_.remove(*connection);
  connection->close();
  delete connection;
  --open_objects_;
}

Result<verbs::Registration*> Transport::acquire(verbs::Device& device, const MemoryCall& call) const {
  const std::string& missing = call.dma_buf ? device_memory_.without_dma_buf : device_memory_.without_peer_memory;
  if (call.kind == MemoryKind::kDevice && !missing.empty()) {
    return Error{.code = ErrorCode::kUnsupported,
                 .scope = Scope::kRequest,
                 .text = std::string("GPU memory cannot be registered ") +
                         (call.dma_buf ? "as dma-buf" : "by its address") + ": " + missing,
                 .os_errno = 0};
  }
  if (!call.dma_buf) return device.registrations().acquire(call.data, call.size_bytes);
  // A connection whose cable dies may go on over another device, where this memory must be registered too.
  const bool keep = devices_.size() > 1 && config_.number(Variable::kFailoverTimeoutSec) > 0;
  return device.registrations().acquire(call.data, call.size_bytes, *call.dma_buf, keep);
}

Result<Memory*> Transport::register_memory(Endpoint& endpoint, const MemoryCall& call) {
  Connection* connection = as_connection(endpoint);
  if (connection == nullptr && call.kind == MemoryKind::kDevice) {
    Error error{.code = ErrorCode::kUnsupported,
                .scope = Scope::kRequest,
                .text =
                    "GPU memory on a connection over TCP, for which the CPU would have to copy it: use "
                    "host memory (NCCL_NET_GDR_LEVEL=LOC)",
                .os_errno = 0};
    MESHBED_WARN("%s", error.text.c_str());
    return error;
  }
  if (connection == nullptr) return new Memory(call.data, call.size_bytes);
  verbs::Device& device = connection->home();
  auto registration = acquire(device, call);
  if (!registration) {
    MESHBED_WARN("%s: %s", device.name().c_str(), registration.error().text.c_str());
    return registration.error();
  }
  if (call.kind == MemoryKind::kDevice) {
    if (auto expected = connection->expect_device_memory(); !expected) {
      MESHBED_WARN("%s", expected.error().text.c_str());
      device.registrations().release(*registration);
      return expected.error();
    }
  }
  return new Memory(device, *registration, call.data, call.size_bytes, call.kind);
}

void Transport::abandon(const Context& context) {
  const std::lock_guard lock(pending_mutex_);
  std::erase_if(pending_, [&](const Pending& entry) { return entry.owner == &context && !entry.at_work; });
}

}  // namespace meshbed::net
