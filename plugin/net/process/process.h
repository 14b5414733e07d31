#pragma once
// What a process is to the transport, apart from its connections: its configuration, its devices and NICs, who it is,
// and its random numbers.
//
// Set up once, before anybody else sees it; any thread may ask it afterwards.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/prng.h"
#include "plugin/base/result.h"
#include "plugin/net/process/config.h"
#include "plugin/net/process/discovery.h"
#include "plugin/net/process/nic.h"
#include "plugin/net/process/route_table.h"

namespace meshbed::net {

/// What this machine can do with a GPU's memory, as far as adapters go: two ways to register it; empty: it is there,
/// else what is missing.
struct DeviceMemorySupport {
  std::string without_dma_buf = "not looked for";
  std::string without_peer_memory = "not looked for";  // by its address: nvidia_peermem
};

class Process {
 public:
  explicit Process(const Config& config) : config_(config) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Config& config() const { return config_; }
  const std::vector<Nic>& nics() const { return nics_; }
  /// Ports with a link-local address alone. No device of the ncclNet table: which cable they are on is known only to a
  /// peer that answers over it, so that they carry stripes of connections that stand on nics() (rail_layer.h).
  const std::vector<Nic>& link_local_nics() const { return link_local_nics_; }
  /// The NICs with link state, MTU, GIDs and addresses as they are now.
  std::vector<Nic> current_nics() const;
  /// link_local_nics() likewise; without those that have lost that address.
  std::vector<Nic> current_link_local_nics() const;
  /// current_nics(), then current_link_local_nics().
  std::vector<Nic> current_ports() const;
  /// current_nics(), as they were a moment ago at most: to ask for them is many system calls, and some ask very often.
  std::shared_ptr<const std::vector<Nic>> recent_nics();
  /// Likewise this machine's routes by way of routers.
  std::shared_ptr<const std::vector<GatewayRoute>> recent_routes();
  verbs::Device& device_of(const Nic& nic) const { return *devices_[static_cast<std::size_t>(nic.device)]; }
  const Devices& devices() const { return devices_; }
  /// What can be done with GPU memory, over any of the NICs: a connection may come to stand on each of them.
  const DeviceMemorySupport& device_memory() const { return device_memory_; }
  GidPreference gid_preference() const;

  /// Equal for all processes of a machine: node_identity().
  std::uint64_t node() const { return node_; }
  /// Drawn at random: tells the processes of a node apart, also in other containers.
  std::uint32_t number() const { return number_; }
  std::int64_t pid() const { return pid_; }
  const std::string& host() const { return host_; }
  /// The kernel's, each time anew: a stranger that has seen some cannot tell the next one. Where NCCL_MESH_SEED is set,
  /// of a generator that it seeds.
  std::uint64_t random();

  /// Changes whenever a device told of something: a port, a GID.
  std::uint32_t port_events() const { return events_.load(std::memory_order_relaxed); }
  void note_event() { events_.fetch_add(1, std::memory_order_relaxed); }

  /// How long one node of a chain is dialled. It may be where the map says no more, and there must be time left to draw
  /// the map anew, and for another chain.
  std::int64_t chain_dial_ms() const;
  /// How long connect() waits for further cables to the same peer.
  std::int64_t joining_ms() const;

 protected:
  /// Opens every device, or none where NCCL_MESH_DISABLE_RDMA is set.
  Result<void> find_nics();
  /// In place of those found: of a process that sends over TCP alone.
  void use_instead(std::vector<Nic> nics) { nics_ = std::move(nics); }
  Result<void> learn_who_it_is();

 private:
  Config config_;
  Devices devices_;
  std::vector<Nic> nics_, link_local_nics_;
  DeviceMemorySupport device_memory_;
  std::uint64_t node_ = 0;
  std::uint32_t number_ = 0;
  std::int64_t pid_ = 0;
  std::string host_;

  std::mutex recent_nics_mutex_;
  std::shared_ptr<const std::vector<Nic>> recent_nics_;
  std::uint32_t recent_nics_events_ = 0;  // port_events(), then
  Deadline recent_nics_age_;
  std::mutex recent_routes_mutex_;
  std::shared_ptr<const std::vector<GatewayRoute>> recent_routes_;
  Deadline recent_routes_age_;
  std::mutex random_mutex_;
  std::optional<Prng> seeded_;  // where NCCL_MESH_SEED is set
  std::atomic<std::uint32_t> events_{0};
};

}  // namespace meshbed::net
