#pragma once
// The transport of one process: its devices and NICs, its listeners, and the connections that are being made.
//
// Opened by the first init() and shared by all communicators. Any thread may call it; connections, once made, belong
// to their callers. connect() and accept() advance their state machines when they are polled, and a connect() that
// waits advances every listener too, so that two processes that only connect still meet. The one thread is the relay
// service's, on nodes that have more than one neighbour or need a relay themselves.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/base/result.h"
#include "plugin/net/clock.h"
#include "plugin/net/config.h"
#include "plugin/net/connection.h"
#include "plugin/net/context.h"
#include "plugin/net/device_memory.h"
#include "plugin/net/discovery.h"
#include "plugin/net/handle.h"
#include "plugin/net/nic.h"
#include "plugin/net/object.h"
#include "plugin/net/roster.h"
#include "plugin/net/sessions.h"
#include "plugin/net/silent_cables.h"
#include "plugin/net/spent_legs.h"
#include "plugin/net/state.h"
#include "plugin/net/tcp_connection.h"
#include "plugin/net/tcp_network.h"

namespace meshbed::net {

class Reaching;
class Service;
class Listener;
class Memory;
class Transport;

inline constexpr const char* kVersionText = "0.1.0";

/// Who connects, from which NIC by choice, and how its packets are marked (-1: as configured).
struct ConnectCall {
  const Context* context = nullptr;
  int dev = 0;
  int traffic_class = -1;
};

class Transport {
 public:
  /// Opens all devices, or none where everything goes over TCP. No usable NIC is no error: devices() is 0 then, and
  /// NCCL looks elsewhere.
  static Result<std::unique_ptr<Transport>> open(const Config& config);
  ~Transport();

  const Config& config() const { return config_; }
  const std::vector<Nic>& nics() const { return nics_; }
  /// The NICs with link state, MTU, GIDs and addresses as they are now.
  std::vector<Nic> current_nics() const;
  /// The same, as they were a moment ago at most: to ask for them is many system calls, and some ask very often.
  std::shared_ptr<const std::vector<Nic>> recent_nics();
  verbs::Device& device_of(const Nic& nic) const { return *devices_[static_cast<std::size_t>(nic.device)]; }
  const Devices& devices() const { return devices_; }
  std::uint64_t node() const { return node_; }
  std::uint32_t process() const { return process_; }
  std::int64_t pid() const { return pid_; }
  GidPreference gid_preference() const;
  /// Our end of a new connection by `nic`.
  LocalEnd local_end(const Nic& nic, const IpPrefix& address, const verbs::GidEntry& gid);
  ConnectionSettings settings_for(int traffic_class) const;
  /// How long one node of a chain is dialled. It may be where the map says no more, and there must be time left to draw
  /// the map anew, and for another chain.
  std::int64_t chain_dial_ms() const;
  /// How long connect() waits for further cables to the same peer.
  std::int64_t joining_ms() const;
  /// Of an end that receives: what it sends is clear-to-sends.
  ConnectionSettings receiving_settings_for(int traffic_class) const;
  TcpNetwork& tcp() { return *tcp_; }
  /// Those that data may go over by TCP; none where it is not wanted.
  std::vector<InterfaceAddress> tcp_interfaces() const;
  /// What a listener on `dev` offers for TCP: where the device is an interface its addresses come first.
  std::vector<PeerAddress> tcp_addresses(int dev) const;
  TcpSettings tcp_settings() const;
  std::uint64_t random();
  /// Relays for others, finds chains for us, takes up connections that lost their leg. nullptr: it could not start.
  Service* service() { return service_.get(); }
  Sessions& sessions() { return sessions_; }
  /// From each of nics(), by this process.
  std::vector<std::uint64_t> in_flight_bytes() const;
  SilentCables& silent_cables() { return silent_cables_; }
  /// Changes whenever a device told of something: a port, a GID.
  std::uint32_t port_events() const { return events_.load(std::memory_order_relaxed); }
  void note_event() { events_.fetch_add(1, std::memory_order_relaxed); }
  /// Waits a little for those who send through this process. False: they do not stop, so it should stay open.
  bool wait_for_others();

  /// Fills `handle` for the other side. Never blocks.
  Result<Listener*> listen(const Context& context, int dev, std::span<std::uint8_t, kHandleBytes> handle);
  void close(Listener* listener);
  /// nullptr: not yet. `handle` keeps a note between two calls.
  Result<Endpoint*> connect(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle);
  /// nullptr: nobody is there yet.
  Result<Endpoint*> accept(Listener& listener);
  void close(Endpoint* connection);

  /// For RDMA connections on their device; the bytes of TCP connections are registered nowhere.
  Result<Memory*> register_memory(Endpoint& connection, const MemoryCall& call);
  /// What can be done with GPU memory, over any of the NICs: a connection may come to stand on each of them.
  const DeviceMemorySupport& device_memory() const { return device_memory_; }

  /// Ends what `context` began and did not finish.
  void abandon(const Context& context);
  void enroll(Context& context);
  void leave(const Context& context);
  /// Connections and listeners that are open.
  std::size_t open_objects() const { return open_objects_.load(); }

  /// What this process is doing; circuits are the service's to add. Any thread; takes 100 ms at most.
  ProcessState state();
  /// While no other thread of this process runs (a debugger, a simulation that stands still): takes no lock, asks no
  /// device, and leaves out what it would need them for. `now_ns`: on now_ns()'s clock.
  ProcessState state_while_frozen(std::int64_t now_ns);

 private:
  explicit Transport(const Config& config);
  struct Pending {
    std::uint64_t token = 0;
    const Context* owner = nullptr;
    std::uint64_t comm = 0;  // its owner's
    std::unique_ptr<Reaching> reaching;
    bool at_work = false;  // in a call of connect()
    std::int64_t asked_ns = 0;
  };
  Result<Reaching*> take_or_begin(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle);
  Pending& pending_of(const Reaching& reaching);
  void forget(const Reaching& reaching);
  void advance_listeners();
  bool look_at_accepts(std::int64_t now_ns, bool last, std::vector<HandshakeState>& states);
  bool look_at_connects(std::int64_t now_ns, bool last, std::vector<HandshakeState>& states);
  static HandshakeState state_of(const Pending& pending, std::int64_t now_ns);
  void enroll(Endpoint& endpoint, const ContextSettings& owner);
  ProcessState identity() const;
  Result<void> check_dev(int dev) const;
  Result<verbs::Registration*> acquire(verbs::Device& device, const MemoryCall& call) const;
  Result<void> find_nics();
  void open_service();
  void log_summary() const;

  Config config_;
  Devices devices_;
  std::vector<Nic> nics_;
  std::unique_ptr<PortLoad[]> loads_;  // one a NIC
  DeviceMemorySupport device_memory_;
  std::unique_ptr<TcpNetwork> tcp_;
  std::uint64_t node_ = 0;
  std::uint32_t process_ = 0;
  std::int64_t pid_ = 0;
  std::string host_;

  std::mutex recent_nics_mutex_;
  std::shared_ptr<const std::vector<Nic>> recent_nics_;
  std::uint32_t recent_nics_events_ = 0;  // port_events(), then
  Deadline recent_nics_age_;
  std::mutex random_mutex_;
  Prng prng_{0};
  SilentCables silent_cables_;
  SpentLegs spent_legs_;
  std::mutex pending_mutex_;
  std::vector<Pending> pending_;
  std::mutex listeners_mutex_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<std::size_t> open_objects_{0};
  Sessions sessions_;
  Roster roster_;
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
  std::atomic<std::uint32_t> events_{0};
  std::unique_ptr<Service> service_;  // last: its thread uses all of the above
};

}  // namespace meshbed::net
