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
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/base/result.h"
#include "plugin/net/config.h"
#include "plugin/net/connection.h"
#include "plugin/net/discovery.h"
#include "plugin/net/handle.h"
#include "plugin/net/nic.h"
#include "plugin/net/object.h"
#include "plugin/net/sessions.h"

namespace meshbed::net {

class Reaching;
class Service;
class Listener;
class Memory;
class ReceiveConnection;
class SendConnection;
class Transport;

inline constexpr const char* kVersionText = "0.1.0";

/// One user of the transport, with its own traffic class: a communicator (v11, v12) or the process (v8 to v10).
class Context : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kContext;
  Context(Transport& transport, int traffic_class)
      : Object(kKind), transport(transport), traffic_class(traffic_class) {}

  Transport& transport;
  int traffic_class;  // -1: that of the configuration
};

/// Who connects, from which NIC by choice, and how its packets are marked (-1: as configured).
struct ConnectCall {
  const Context* context = nullptr;
  int dev = 0;
  int traffic_class = -1;
};

class Transport {
 public:
  /// Opens all devices. No usable NIC is no error: devices() is 0 then, and NCCL looks elsewhere.
  static Result<std::unique_ptr<Transport>> open(const Config& config);
  ~Transport();

  const Config& config() const { return config_; }
  const std::vector<Nic>& nics() const { return nics_; }
  /// The NICs with link state, MTU, GIDs and addresses as they are now.
  std::vector<Nic> current_nics() const;
  verbs::Device& device_of(const Nic& nic) const { return *devices_[static_cast<std::size_t>(nic.device)]; }
  const Devices& devices() const { return devices_; }
  std::uint64_t node() const { return node_; }
  std::uint32_t process() const { return process_; }
  GidPreference gid_preference() const;
  /// Our end of a new connection by `nic`.
  LocalEnd local_end(const Nic& nic, const IpPrefix& address, const verbs::GidEntry& gid);
  ConnectionSettings settings_for(int traffic_class) const;
  std::uint64_t random();
  /// Relays for others, finds chains for us, takes up connections that lost their leg. nullptr: it could not start.
  Service* service() { return service_.get(); }
  Sessions& sessions() { return sessions_; }
  /// Changes whenever a device told of something: a port, a GID.
  std::uint32_t port_events() const { return events_.load(std::memory_order_relaxed); }
  void note_event() { events_.fetch_add(1, std::memory_order_relaxed); }
  /// Waits a little for those who send through this process. False: they do not stop, so it should stay open.
  bool wait_for_others();

  /// Fills `handle` for the other side. Never blocks.
  Result<Listener*> listen(const Context& context, int dev, std::span<std::uint8_t, kHandleBytes> handle);
  void close(Listener* listener);
  /// nullptr: not yet. `handle` keeps a note between two calls.
  Result<SendConnection*> connect(const ConnectCall& call, std::span<std::uint8_t, kHandleBytes> handle);
  /// nullptr: nobody is there yet.
  Result<ReceiveConnection*> accept(Listener& listener);
  void close(Connection* connection);

  Result<Memory*> register_memory(const Connection& connection, void* data, std::size_t size_bytes);

  /// Ends what `context` began and did not finish.
  void abandon(const Context& context);
  /// Connections and listeners that are open.
  std::size_t open_objects() const { return open_objects_.load(); }

 private:
  explicit Transport(const Config& config);
  struct Pending {
    std::uint64_t token = 0;
    const Context* owner = nullptr;
    std::unique_ptr<Reaching> reaching;
  };
  Result<std::unique_ptr<Reaching>> take_or_begin(const ConnectCall& call,
                                                  std::span<std::uint8_t, kHandleBytes> handle);
  void advance_listeners();
  Result<void> check_dev(int dev) const;
  void log_summary() const;

  Config config_;
  Devices devices_;
  std::vector<Nic> nics_;
  std::uint64_t node_ = 0;
  std::uint32_t process_ = 0;

  std::mutex random_mutex_;
  Prng prng_{0};
  std::mutex pending_mutex_;
  std::vector<Pending> pending_;
  std::mutex listeners_mutex_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<std::size_t> open_objects_{0};
  Sessions sessions_;
  std::atomic<std::uint32_t> events_{0};
  std::unique_ptr<Service> service_;  // last: its thread uses all of the above
};

}  // namespace meshbed::net
