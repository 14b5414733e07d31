#pragma once
// A process without its connections: its configuration, its devices and NICs, its identity, and its random numbers.
//
// Set up once, before any other thread uses it; any thread may read it afterwards.

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

/// The adapters' support for GPU memory, by two methods of registration; empty: supported, else what is missing.
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
  /// Ports that have only a link-local address. They are no devices of the ncclNet table, because their cable is known
  /// only when a peer replies over it; they carry stripes of connections on nics() (rail_layer.h).
  const std::vector<Nic>& link_local_nics() const { return link_local_nics_; }
  /// The NICs with their present link state, MTU, GIDs and addresses.
  std::vector<Nic> current_nics() const;
  /// link_local_nics() likewise; without those that have lost that address.
  std::vector<Nic> current_link_local_nics() const;
  /// current_nics(), then current_link_local_nics().
  std::vector<Nic> current_ports() const;
  /// current_nics(), at most a moment old: current_nics() costs many system calls, and some callers call very often.
  std::shared_ptr<const std::vector<Nic>> recent_nics();
  /// Likewise this machine's routes through routers.
  std::shared_ptr<const std::vector<GatewayRoute>> recent_routes();
  verbs::Device& device_of(const Nic& nic) const { return *devices_[static_cast<std::size_t>(nic.device)]; }
  const Devices& devices() const { return devices_; }
  /// The support for GPU memory of all NICs: a connection may use any of them.
  const DeviceMemorySupport& device_memory() const { return device_memory_; }
  GidPreference gid_preference() const;

  /// Equal for all processes of a machine: node_identity().
  std::uint64_t node() const { return node_; }
  /// Random: distinguishes the processes of a node, also in other containers.
  std::uint32_t number() const { return number_; }
  std::int64_t pid() const { return pid_; }
  const std::string& host() const { return host_; }
  /// From the kernel, so that the next number cannot be guessed from earlier ones; from a seeded generator if
  /// NCCL_MESH_SEED is set.
  std::uint64_t random();

  /// Changes with each event of a device about a port or a GID.
  std::uint32_t port_events() const { return events_.load(std::memory_order_relaxed); }
  void note_event() { events_.fetch_add(1, std::memory_order_relaxed); }

  /// How long one node of a chain is dialled. The map may be outdated, so there must be time left to draw a new map and
  /// try another chain.
  std::int64_t chain_dial_ms() const;
  /// How long connect() waits for further cables to the same peer.
  std::int64_t joining_ms() const;

 protected:
  /// Opens every device, or none where NCCL_MESH_DISABLE_RDMA is set.
  Result<void> find_nics();
  /// Replaces the NICs that were found, for a process that uses only TCP.
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
  std::uint32_t recent_nics_events_ = 0;  // port_events() when they were read
  Deadline recent_nics_age_;
  std::mutex recent_routes_mutex_;
  std::shared_ptr<const std::vector<GatewayRoute>> recent_routes_;
  Deadline recent_routes_age_;
  std::mutex random_mutex_;
  std::optional<Prng> seeded_;  // where NCCL_MESH_SEED is set
  std::atomic<std::uint32_t> events_{0};
};

}  // namespace meshbed::net
