#pragma once
// The transport of one process: its devices and NICs, its listeners, and the connections that are being made.
//
// Opened by the first init() and shared by all communicators. Any thread may call it; connections, once made, belong
// to their callers. connect() and accept() advance their state machines when they are polled, and a waiting connect()
// advances every listener too, so that two processes that both only connect still complete. The only thread is the
// service's (service/service_thread.h).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/link/connection.h"
#include "plugin/net/link/context.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/link/roster.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/process/object.h"
#include "plugin/net/process/state.h"
#include "plugin/net/recover/silent_cables.h"
#include "plugin/net/report/job_report.h"
#include "plugin/net/tcp/tcp_connection.h"
#include "plugin/net/tcp/tcp_network.h"
#include "plugin/net/wire/handle.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

class PendingConnect;
class ServiceThread;
class Listener;
class Transport;

inline constexpr const char* kVersionText = "0.1.0";

/// The context that connects, its preferred NIC, and how its packets are marked (-1: as configured).
struct ConnectCall {
  const Context* context = nullptr;
  int dev = 0;
  int traffic_class = -1;
};

/// Memory that a user registers.
struct MemoryCall {
  void* data = nullptr;
  std::size_t size_bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  std::optional<verbs::DmaBuf> dma_buf{};  // the buffer that `data` belongs to
};

class Transport final : public ProcessLinks {
 public:
  /// Opens all devices, or none if everything goes over TCP. No usable NIC is no error: devices() is 0 then, and NCCL
  /// uses another net plugin.
  /// `number`: how many transports this process has opened, this one included, for the name of its report.
  static Result<std::unique_ptr<Transport>> open(const Config& config, unsigned number = 1);
  ~Transport() override;

  TcpNetwork& tcp() { return *tcp_; }
  /// The interfaces that data may use over TCP; none if TCP is not enabled.
  Result<std::vector<InterfaceAddress>> tcp_interfaces() const;
  /// The TCP addresses that a listener on `dev` offers; if the device is an interface, its addresses come first.
  std::vector<PeerAddress> tcp_addresses(int dev) const;
  /// Call it before the end: broadcasts that this process leaves, and waits a little for peers that send to or through
  /// it, or may connect through it. Returns false if they do not stop, so that it should stay open.
  bool wait_for_others();
  /// The transport stayed open and is used again.
  void come_back();

  /// Fills `handle` for the other side. Never blocks.
  Result<Listener*> listen(const Context& context, int dev, std::span<std::uint8_t, kHandleBytes> handle);
  void close(Listener* listener);
  /// nullptr: not yet. `handle` keeps a note between two calls.
  Result<Endpoint*> connect(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle);
  /// nullptr: no peer has connected yet.
  Result<Endpoint*> accept(Listener& listener);
  void close(Endpoint* connection);

  /// RDMA connections register it on their device; TCP connections register nothing.
  Result<Memory*> register_memory(Endpoint& connection, const MemoryCall& call);
  /// Ends the handshakes that `context` began and did not finish.
  void abandon(const Context& context);
  /// Drops the handshakes that their callers have abandoned: connect() was not called for them for as long as a whole
  /// handshake may take (NCCL_MESH_CONNECT_TIMEOUT_SEC). Called at each call and whenever the service is awake; a timer
  /// of its own would wake every job that connects.
  void drop_abandoned();
  void enroll(Context& context);
  void leave(const Context& context);
  bool has_context_of(std::uint64_t comm) override;
  /// Connections and listeners that are open.
  std::size_t open_objects() const { return open_objects_.load(); }

  /// The state of this process, without circuits, which the service adds. Any thread; takes 100 ms at most.
  ProcessState state();
  /// Writes the report that NCCL_MESH_REPORT names; without it, does nothing. A failure is one warning.
  void write_report();
  /// For use while no other thread of this process runs (in a debugger or a paused simulation): takes no lock, queries
  /// no device, and leaves out what would need them. `now_ns`: on now_ns()'s clock.
  ProcessState state_while_frozen(std::int64_t now_ns);

 private:
  explicit Transport(const Config& config);
  struct Pending {
    std::uint64_t token = 0;
    const Context* owner = nullptr;
    std::uint64_t comm = 0;  // its owner's
    std::unique_ptr<PendingConnect> pending_connect;
    bool at_work = false;        // in a call of connect()
    std::int64_t asked_ns = 0;   // time of the last call
    std::int64_t missed_ns = 0;  // when the absence of its caller was first noticed; 0: it was not
  };
  Result<PendingConnect*> take_or_begin(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle);
  Pending& pending_of(const PendingConnect& pending_connect);
  void forget(const PendingConnect& pending_connect);
  void advance_listeners();
  bool look_at_accepts(std::int64_t now_ns, bool last, std::vector<HandshakeState>& states);
  bool look_at_connects(std::int64_t now_ns, bool last, std::vector<HandshakeState>& states);
  static HandshakeState state_of(const Pending& pending, std::int64_t now_ns);
  void enroll(Endpoint& endpoint, const ContextSettings& owner);
  ProcessState identity() const;
  Result<void> check_dev(int dev) const;
  Result<verbs::Registration*> acquire(verbs::Device& device, const MemoryCall& call) const;
  Result<void> find_interfaces();
  void open_service();
  void log_summary() const;

  SilentCables silent_cables_;
  std::unique_ptr<TcpNetwork> tcp_;
  Remains remains_;  // of connections
  std::mutex pending_mutex_;
  std::vector<Pending> pending_;
  std::mutex listeners_mutex_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<std::size_t> open_objects_{0};
  Roster roster_;
  std::unique_ptr<JobReport> report_;  // nullptr: none is wanted
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
  std::unique_ptr<ServiceThread> thread_;  // last: its thread uses all of the above
};

}  // namespace meshbed::net
