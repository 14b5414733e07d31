#include "plugin/net/process/process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "plugin/base/check.h"
#include "plugin/base/random.h"
#include "plugin/verbs/sysfs.h"

namespace meshbed::net {
namespace {

Result<std::uint64_t> unpredictable_number() {
  std::array<std::uint8_t, sizeof(std::uint64_t)> bytes{};
  if (auto filled = fill_unpredictable(bytes); !filled) return filled.error();
  return std::bit_cast<std::uint64_t>(bytes);
}

/// Most changes cause an event, but addresses change without one.
constexpr std::int64_t kNicsAgeMs = 20;
/// A working cable is joined within a few round trips; a missing one must not delay the start of a job for long.
constexpr std::int64_t kJoiningMs = 2000;
/// Nodes of chains that may be dialled in vain within the connect timeout, and the time for each if there is none.
constexpr std::int64_t kChainDialsMost = 4, kChainDialMs = 2500;

/// Files that show a peer memory client for NVIDIA's GPUs: the driver's own module, the two of MLNX_OFED, and the older
/// module.
constexpr std::array kPeerMemoryFiles{
    "/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version", "/sys/module/nv_peer_mem/version"};

std::string dma_buf_problem(const Devices& devices, const std::vector<Nic>& nics) {
  for (const Nic& nic : nics) {
    if (devices[static_cast<std::size_t>(nic.device)]->registers_dma_buf()) continue;
    return "the driver of " + nic.device_name + " does not register dma-bufs (ibv_reg_dmabuf_mr without a descriptor)";
  }
  return "";
}

std::string peer_memory_problem(const std::vector<Nic>& nics) {
  const bool is_there = std::any_of(kPeerMemoryFiles.begin(), kPeerMemoryFiles.end(),
                                    [](const char* file) { return verbs::read_line(file).has_value(); });
  if (!is_there) return "there is no peer memory client: load nvidia_peermem";
  for (const Nic& nic : nics) {
    // Devices in software reach memory by the CPU: /sys/devices/virtual.
    if (nic.pci_path.empty() || nic.pci_path.rfind("/sys/devices/virtual", 0) == 0) {
      return nic.device_name + " is no PCI device, and reaches memory by the CPU alone";
    }
  }
  return "";
}

/// A method is supported if all NICs support it, because the cables, not the user, decide which NIC a connection uses.
DeviceMemorySupport find_device_memory_support(const Devices& devices, const std::vector<Nic>& nics) {
  if (nics.empty()) return {.without_dma_buf = "there is no NIC", .without_peer_memory = "there is no NIC"};
  return {.without_dma_buf = dma_buf_problem(devices, nics), .without_peer_memory = peer_memory_problem(nics)};
}

}  // namespace

Result<void> Process::find_nics() {
  if (config_.flag(Variable::kDisableRdma)) return ok();
  auto devices = verbs::Device::open_all(config_.flag(Variable::kIbRelaxedOrdering));
  if (!devices) return devices.error();
  devices_ = std::move(*devices);
  auto nics = discover(devices_, config_);
  if (!nics) return nics.error();
  const auto rest = std::find_if(nics->begin(), nics->end(), [](const Nic& nic) { return nic.link_local.has_value(); });
  link_local_nics_.assign(rest, nics->end());
  nics->erase(rest, nics->end());
  nics_ = std::move(*nics);
  if (nics_.empty()) link_local_nics_.clear();  // they only carry rails of connections on nics_
  device_memory_ = find_device_memory_support(devices_, nics_);
  return ok();
}

Result<void> Process::learn_who_it_is() {
  auto interfaces = read_interfaces();
  if (!interfaces) return interfaces.error();
  node_ = node_identity(*interfaces);
  // The seed is mixed with the node's identity, so that the nodes of a job draw different numbers.
  const std::int64_t seed = config_.number(Variable::kSeed);
  if (seed != kUnset) {
    seeded_ = Prng(mix64(static_cast<std::uint64_t>(seed)) ^ node_);
  } else if (auto drawn = unpredictable_number(); !drawn) {  // a kernel that gives none is found here
    return drawn.error();
  }
  number_ = static_cast<std::uint32_t>(random());
  pid_ = ::getpid();
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  host_ = host;
  return ok();
}

std::vector<Nic> Process::current_nics() const {
  std::vector<Nic> nics = nics_;
  const auto interfaces = read_interfaces();
  for (Nic& nic : nics) {
    if (nic.device >= 0) refresh(nic, device_of(nic));
    if (interfaces) nic.addresses = addresses_of(nic, *interfaces, address_preference(config_));
  }
  return nics;
}

std::vector<Nic> Process::current_link_local_nics() const {
  std::vector<Nic> nics = link_local_nics_;
  if (nics.empty()) return nics;
  const auto interfaces = read_link_local_interfaces();
  for (Nic& nic : nics) {
    refresh(nic, device_of(nic));
    if (interfaces) nic.link_local = link_local_of(nic, *interfaces);
  }
  std::erase_if(nics, [](const Nic& nic) { return !nic.link_local; });
  return nics;
}

std::vector<Nic> Process::current_ports() const {
  std::vector<Nic> ports = current_nics();
  for (Nic& nic : current_link_local_nics()) ports.push_back(std::move(nic));
  return ports;
}

std::shared_ptr<const std::vector<Nic>> Process::recent_nics() {
  const std::lock_guard lock(recent_nics_mutex_);
  const std::uint32_t events = port_events();
  if (recent_nics_ == nullptr || events != recent_nics_events_ || recent_nics_age_.passed()) {
    recent_nics_ = std::make_shared<const std::vector<Nic>>(current_nics());
    recent_nics_events_ = events;
    recent_nics_age_ = Deadline::after_ms_or_never(kNicsAgeMs);
  }
  return recent_nics_;
}

std::shared_ptr<const std::vector<GatewayRoute>> Process::recent_routes() {
  const std::lock_guard lock(recent_routes_mutex_);
  if (recent_routes_ == nullptr || recent_routes_age_.passed()) {
    recent_routes_ = std::make_shared<const std::vector<GatewayRoute>>(read_gateway_routes());
    recent_routes_age_ = Deadline::after_ms_or_never(kNicsAgeMs);
  }
  return recent_routes_;
}

GidPreference Process::gid_preference() const {
  return {.roce_v2 = config_.number(Variable::kIbRoceVersion) == 2,
          .forced_index = static_cast<int>(config_.number(Variable::kIbGidIndex)),
          .last_resort = static_cast<int>(config_.number(Variable::kMeshGidIndex))};
}

std::int64_t Process::joining_ms() const {
  std::int64_t patience_ms = kJoiningMs;
  // The peer's accept() waits too and must not time out: it may have delayed us for three quarters of its time.
  for (const auto& [variable, share] : {std::pair(Variable::kConnectTimeoutSec, 1), {Variable::kAcceptTimeoutSec, 5}}) {
    const std::int64_t timeout_ms = config_.number(variable) * 1000 / share;
    if (timeout_ms > 0) patience_ms = std::min(patience_ms, timeout_ms);
  }
  return patience_ms;
}

std::int64_t Process::chain_dial_ms() const {
  const std::int64_t share_ms = config_.number(Variable::kConnectTimeoutSec) * 1000 / kChainDialsMost;
  return share_ms > 0 ? share_ms : kChainDialMs;
}

std::uint64_t Process::random() {
  if (!seeded_) {
    const auto drawn = unpredictable_number();
    MESHBED_CHECK(drawn.has_value());  // init() drew one successfully
    return *drawn;
  }
  const std::lock_guard lock(random_mutex_);
  return seeded_->next();
}

}  // namespace meshbed::net
