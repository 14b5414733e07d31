#include "plugin/net/transport.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "plugin/base/check.h"
#include "plugin/base/counted.h"
#include "plugin/base/deadline.h"
#include "plugin/base/descriptor_shortage.h"
#include "plugin/base/log.h"
#include "plugin/net/listener.h"
#include "plugin/net/pending_connect.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"
#include "plugin/net/rdma/send.h"
#include "plugin/net/service/service_thread.h"

namespace meshbed::net {
namespace {

Error invalid(std::string text) {
  Error error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

/// nullptr for a TCP connection.
Connection* as_connection(Endpoint& endpoint) {
  const bool rdma = endpoint.is(ObjectKind::kSend) || endpoint.is(ObjectKind::kReceive);
  return rdma ? &static_cast<Connection&>(endpoint) : nullptr;
}

}  // namespace

Transport::Transport(const Config& config) : ProcessLinks(config, silent_cables_) {}

Transport::~Transport() = default;

Result<std::unique_ptr<Transport>> Transport::open(const Config& config, unsigned number) {
  if (const int shortage = descriptor_shortage()) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kJob,
                 .text = std::string("init: ") + std::strerror(shortage) +
                         ": this process has no free descriptor for devices and sockets: raise its limit (ulimit -n)",
                 .os_errno = shortage};
  }
  std::unique_ptr<Transport> transport(new Transport(config));
  if (auto found = transport->find_nics(); !found) return found.error();
  if (auto found = transport->find_interfaces(); !found) return found.error();
  transport->count_loads();
  if (auto known = transport->learn_who_it_is(); !known) return known.error();
  transport->log_summary();
  if (const std::string& name = config.text(Variable::kReport); !name.empty()) {
    transport->report_ = std::make_unique<JobReport>(report_path(
        {.name = name, .folder = config.results_folder(), .host = transport->host(), .pid = transport->pid()}, number));
  }
  if (!transport->nics().empty()) transport->open_service();
  return transport;
}

void Transport::open_service() {
  auto service = ServiceThread::open(
      *this, *tcp_, {.state = [this] { return state(); }, .drop_abandoned = [this] { return drop_abandoned(); }});
  if (!service) {
    // Everything else works; errors about relays and lost QP links mention it.
    MESHBED_WARN("no relay and no failover here: %s", service.error().text.c_str());
    return;
  }
  thread_ = std::move(*service);
  begin_service(*thread_, thread_->port());
  thread_->start();
  tcp_->announce_closed_to([this] { thread_->wake(); });
}

Result<void> Transport::find_interfaces() {
  std::set<std::string> cables;
  for (const Nic& nic : nics()) cables.insert(nic.netdev);
  tcp_ = std::make_unique<TcpNetwork>(config(), std::move(cables));
  if (!tcp_->everything()) return ok();
  const auto usable = tcp_->interfaces();
  if (!usable) return usable.error();
  use_instead(tcp_devices(*usable));
  if (nics().empty()) {
    // NCCL then uses another net plugin.
    MESHBED_WARN("NCCL_MESH_DISABLE_RDMA=1, and for TCP there is %s", tcp_->describe().c_str());
  } else {
    MESHBED_INFO("NCCL_MESH_DISABLE_RDMA=1: everything goes over TCP, by %s", tcp_->describe().c_str());
  }
  return ok();
}

void Transport::log_summary() const {
  std::string text;
  for (const Nic& nic : nics()) {
    text += text.empty() ? "" : "; ";
    text += nic.device_name + ":" + std::to_string(nic.port) + " " + nic.netdev + " " +
            std::to_string(nic.rate_mbps / 1000) + " Gb/s " + (nic.link_up ? "up" : "down");
    for (const IpPrefix& address : nic.addresses) text += " " + to_text(address);
  }
  MESHBED_INFO("Mesh %s: %s: %s", kVersionText, counted(nics().size(), "NIC").c_str(),
               text.empty() ? "none" : text.c_str());
  const bool by_dma_buf = device_memory().without_dma_buf.empty(),
             by_peer = device_memory().without_peer_memory.empty();
  if (!by_dma_buf && !by_peer) return;
  MESHBED_INFO("GPU memory is registered %s%s%s", by_dma_buf ? "as dma-buf" : "", by_dma_buf && by_peer ? " and " : "",
               by_peer ? "by its address (peer memory)" : "");
}

Result<std::vector<InterfaceAddress>> Transport::tcp_interfaces() const {
  if (!tcp_->wanted()) return std::vector<InterfaceAddress>{};
  return tcp_->interfaces();
}

std::vector<PeerAddress> Transport::tcp_addresses(int dev) const {
  const std::string& netdev = nics()[static_cast<std::size_t>(dev)].netdev;
  // Listener::create has listed them, and reports a failure.
  const auto listed = tcp_interfaces();
  std::vector<InterfaceAddress> interfaces = listed ? *listed : std::vector<InterfaceAddress>{};
  std::stable_partition(interfaces.begin(), interfaces.end(),
                        [&](const InterfaceAddress& interface) { return interface.netdev == netdev; });
  std::vector<PeerAddress> addresses;
  for (const InterfaceAddress& interface : interfaces) {
    addresses.push_back({.prefix = interface.prefix, .nic = kTcpNic});
  }
  return addresses;
}

Result<void> Transport::check_dev(int dev) const {
  if (dev >= 0 && static_cast<std::size_t>(dev) < nics().size()) return ok();
  if (nics().empty()) return invalid("there is no device " + std::to_string(dev) + ", for there is none at all");
  return invalid("there is no device " + std::to_string(dev) + ": they are numbered from 0 to " +
                 std::to_string(nics().size() - 1));
}

bool Transport::wait_for_others() {
  if (thread_) thread_->leave();
  tcp_->wait_for_peers();
  return !thread_ || thread_->wait_for_others();
}

void Transport::come_back() {
  if (thread_) thread_->come_back();
}

Result<Listener*> Transport::listen(const Context& context, int dev, std::span<std::uint8_t, kHandleBytes> handle) {
  if (auto fine = check_dev(dev); !fine) return fine.error();
  tcp_->sweep();
  retired_links().sweep();
  drop_abandoned();
  auto listener = Listener::create(*this, dev, context.settings);
  if (!listener) {
    MESHBED_WARN("listen on %s: %s", nics()[static_cast<std::size_t>(dev)].device_name.c_str(),
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
  // Under the lock no thread advances it; clients in a handshake see their connection closed.
  const std::lock_guard lock(listeners_mutex_);
  const auto found = std::find_if(listeners_.begin(), listeners_.end(),
                                  [&](const auto& candidate) { return candidate.get() == listener; });
  if (found == listeners_.end()) return;
  listeners_.erase(found);
  --open_objects_;
}

Result<Endpoint*> Transport::connect(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle) {
  if (auto fine = check_dev(call.dev); !fine) return fine.error();
  auto pending_connect = take_or_begin(call, handle);
  drop_abandoned();
  if (!pending_connect) return pending_connect.error();
  const auto done_with = [this](PendingConnect* ended) { forget(*ended); };
  std::unique_ptr<PendingConnect, decltype(done_with)> at_work(*pending_connect, done_with);
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

/// The connection that the handle's token names, or a new one. Only this call uses it until connect() returns.
Result<PendingConnect*> Transport::take_or_begin(const ConnectCall& call,
                                                 std::span<std::uint8_t, kHandleBytes> handle) {
  const std::uint64_t token = handle_token(handle);
  set_handle_token(handle, 0);
  if (token != 0) {
    const std::lock_guard lock(pending_mutex_);
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Pending& entry) { return entry.token == token && !entry.at_work; });
    if (found == pending_.end())
      return invalid(
          "connect: the handle names a connection that is not under way here (any more: connect() must be "
          "called again within NCCL_MESH_CONNECT_TIMEOUT_SEC)");
    found->at_work = true;
    found->asked_ns = now_ns();
    return found->pending_connect.get();
  }
  auto decoded = decode_handle(handle);
  if (!decoded) {
    MESHBED_WARN("connect: %s", decoded.error().text.c_str());
    return decoded.error();
  }
  auto begun = PendingConnect::begin(*this, *decoded, call.dev, call.traffic_class);
  if (!begun) return begun.error();
  const std::lock_guard lock(pending_mutex_);
  pending_.push_back({.owner = call.context,
                      .comm = call.context->settings.comm,
                      .pending_connect = std::move(*begun),
                      .at_work = true,
                      .asked_ns = now_ns()});
  return pending_.back().pending_connect.get();
}

/// Under the lock. The entry must exist.
Transport::Pending& Transport::pending_of(const PendingConnect& pending_connect) {
  const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& entry) {
    return entry.pending_connect.get() == &pending_connect;
  });
  MESHBED_CHECK(found != pending_.end());
  return *found;
}

void Transport::forget(const PendingConnect& pending_connect) {
  std::unique_ptr<PendingConnect> ended;  // destroyed without the lock
  const std::lock_guard lock(pending_mutex_);
  Pending& pending = pending_of(pending_connect);
  ended = std::move(pending.pending_connect);
  std::erase_if(pending_, [](const Pending& entry) { return entry.pending_connect == nullptr; });
}

void Transport::advance_listeners() {
  const std::unique_lock lock(listeners_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread is doing it
  for (const auto& listener : listeners_) listener->advance_if_idle();
}

Result<Endpoint*> Transport::accept(Listener& listener) {
  drop_abandoned();
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
  if (report_ != nullptr) report_->begin(endpoint);
}

void Transport::close(Endpoint* connection) {
  roster_.remove(*connection);
  if (report_ != nullptr) report_->end(*connection);
  connection->close();
  remains_.bury(connection);
  // NCCL calls no finalize() before net API v11: the last connection that it closes may be the end.
  if (--open_objects_ == 0) write_report();
}

Result<verbs::Registration*> Transport::acquire(verbs::Device& device, const MemoryCall& call) const {
  const std::string& missing = call.dma_buf ? device_memory().without_dma_buf : device_memory().without_peer_memory;
  if (call.kind == MemoryKind::kDevice && !missing.empty()) {
    return Error{.code = ErrorCode::kUnsupported,
                 .scope = Scope::kRequest,
                 .text = std::string("GPU memory cannot be registered ") +
                         (call.dma_buf ? "as dma-buf" : "by its address") + ": " + missing,
                 .os_errno = 0};
  }
  if (!call.dma_buf) return device.registrations().acquire(call.data, call.size_bytes);
  // A connection whose cable fails may go on over another device, on which this memory must be registered too.
  const bool keep = devices().size() > 1 && config().number(Variable::kFailoverTimeoutSec) > 0;
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

void Transport::drop_abandoned() {
  const std::int64_t limit_ns = config().number(Variable::kConnectTimeoutSec) * 1000 * kNsPerMs;
  if (limit_ns == 0) return;
  std::vector<std::unique_ptr<PendingConnect>> dropped;  // destroyed without the lock
  {
    const std::lock_guard lock(pending_mutex_);
    if (pending_.empty()) return;
    const std::int64_t now = now_ns();
    for (Pending& entry : pending_) {
      if (entry.at_work || now - entry.asked_ns < limit_ns / 2) continue;
      if (entry.missed_ns < entry.asked_ns) entry.missed_ns = now;
      // If the whole process stood still, its caller still gets time to call again.
      if (now - entry.asked_ns < limit_ns || now - entry.missed_ns < limit_ns / 8) continue;
      dropped.push_back(std::move(entry.pending_connect));
    }
    std::erase_if(pending_, [](const Pending& entry) { return entry.pending_connect == nullptr; });
  }
  if (dropped.empty()) return;
  MESHBED_WARN("connect: %s given up: not called again for %lld ms (NCCL_MESH_CONNECT_TIMEOUT_SEC)",
               counted(dropped.size(), "handshake").c_str(), static_cast<long long>(limit_ns / kNsPerMs));
}

void Transport::abandon(const Context& context) {
  const std::lock_guard lock(pending_mutex_);
  std::erase_if(pending_, [&](const Pending& entry) { return entry.owner == &context && !entry.at_work; });
}

}  // namespace meshbed::net
