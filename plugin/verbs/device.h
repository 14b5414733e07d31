#pragma once
// One RDMA device: context, protection domain, attributes, ports, and the registrations made on it.
// Opened once per process by the transport; shared by all connections, any thread.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/verbs/gid.h"
#include "plugin/verbs/registration.h"

namespace meshbed::verbs {

/// A port as it is now. man ibv_query_port(3).
struct PortState {
  std::uint8_t number = 1;
  bool ethernet = false;  // RoCE; false: InfiniBand
  bool active = false;
  std::uint8_t mtu = IBV_MTU_1024;  // ibv_mtu: 1 is 256 bytes, 5 is 4096
  std::uint32_t rate_mbps = 0;
  std::uint32_t max_message_bytes = 0;
  int gid_entries = 0;
};

/// An asynchronous event, which is acknowledged already.
struct DeviceEvent {
  ibv_event_type type = IBV_EVENT_PORT_ACTIVE;
  std::uint8_t port = 0;  // of events about a port; else 0
};

class Device {
 public:
  /// All devices that open; those that do not are logged and left out. An error where the list itself fails.
  static Result<std::vector<std::unique_ptr<Device>>> open_all(bool relaxed_ordering);

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const ibv_device_attr& attributes() const { return attributes_; }
  RegistrationCache& registrations() { return *registrations_; }
  /// The driver registers dma-bufs.
  bool registers_dma_buf() const { return registers_dma_buf_; }

  /// Readable while events wait. ibv_get_async_event(3).
  int event_descriptor() const { return context_->async_fd; }
  /// nullopt: none waits. Never blocks. Any event is taken, those of queue pairs too: one reader a process.
  std::optional<DeviceEvent> next_event() const;

  Result<PortState> query_port(std::uint8_t port) const;
  std::vector<GidEntry> gids(const PortState& port) const;

 private:
  struct CloseContext {
    void operator()(ibv_context* context) const { ibv_close_device(context); }
  };
  struct FreePd {
    void operator()(ibv_pd* pd) const { ibv_dealloc_pd(pd); }
  };
  Device() = default;
  static Result<std::unique_ptr<Device>> open(ibv_device* device, bool relaxed_ordering);

  std::string name_;
  std::unique_ptr<ibv_context, CloseContext> context_;
  std::unique_ptr<ibv_pd, FreePd> pd_;
  ibv_device_attr attributes_{};
  std::unique_ptr<RegistrationCache> registrations_;
  bool registers_dma_buf_ = false;
};

/// "IBV_MTU_4096" -> 4096; 0 for a value that is none.
std::uint32_t mtu_bytes(std::uint8_t mtu);

}  // namespace meshbed::verbs
