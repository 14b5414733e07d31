#include "plugin/net/tcp/tcp_network.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/net/process/discovery.h"
#include "plugin/verbs/sysfs.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kTcpLingerMs = 30'000;
/// Wait before the end of the transport for the peers of closed connections to close too: longer than their last
/// messages need, and short enough for a job's end if a peer hangs.
constexpr std::int64_t kTcpEndMs = 2'000;
constexpr int kTcpEndPauseMs = 1;
/// Bytes of one socket that are read and discarded in one turn, before the other sockets have theirs.
constexpr std::size_t kDrainedBytes = std::size_t{64} << 10U;
constexpr int kDrainsAtOnce = 64;
constexpr std::int64_t kUnreachedNs = 60'000'000'000;
/// A connection costs only a socket.
constexpr int kConnectionsMost = 65'536;
constexpr std::uint8_t kMtu4096 = 5;

std::optional<Family> family_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "AF_INET") return Family::kIpv4;
  if (text == "AF_INET6") return Family::kIpv6;
  MESHBED_WARN("NCCL_SOCKET_FAMILY=%s is neither AF_INET nor AF_INET6: both families are used", text.c_str());
  return std::nullopt;
}

/// The PCI path of the function that the interface belongs to: "/sys/devices/pci0000:00/0000:01:00.0/net/eth0" without
/// its last two parts.
std::string pci_path_of(const std::string& netdev) {
  const std::string link = verbs::resolve_link("/sys/class/net/" + netdev).value_or("");
  const std::size_t end = link.rfind("/net/");
  return link.rfind("/sys/devices/", 0) == 0 && end != std::string::npos ? link.substr(0, end) : "";
}

}  // namespace

std::vector<Nic> tcp_devices(const std::vector<InterfaceAddress>& usable) {
  std::vector<Nic> devices;
  for (const InterfaceAddress& interface : usable) {
    auto known =
        std::find_if(devices.begin(), devices.end(), [&](const Nic& nic) { return nic.netdev == interface.netdev; });
    if (known == devices.end()) {
      Nic nic;
      nic.device = -1;
      nic.device_name = nic.netdev = interface.netdev;
      nic.pci_path = pci_path_of(interface.netdev);
      nic.link_up = true;
      nic.mtu = kMtu4096;
      const std::uint32_t speed_mbps = verbs::interface_speed_mbps(interface.netdev);
      nic.rate_mbps = speed_mbps > 0 ? speed_mbps : kUnknownRateMbps;
      nic.max_queue_pairs = kConnectionsMost;
      known = devices.insert(devices.end(), std::move(nic));
    }
    known->addresses.push_back(interface.prefix);
  }
  return devices;
}

TcpNetwork::TcpNetwork(const Config& config, std::set<std::string> cables)
    : hybrid_(config.flag(Variable::kHybridTcp)),
      everything_(config.flag(Variable::kDisableRdma)),
      list_(config.text(Variable::kSocketIfname)),
      cables_(std::move(cables)) {
  if (wanted()) family_ = family_of(config.text(Variable::kSocketFamily));
}

Result<std::vector<InterfaceAddress>> TcpNetwork::interfaces() const {
  const auto all = read_interfaces(/*with_loopback=*/true);
  if (!all) return all.error();
  return usable_interfaces(*all, {.list = list_, .family = family_, .cables = &cables_});
}

std::optional<std::string> TcpNetwork::interface_with(const IpAddress& address) const {
  const auto usable = interfaces();
  if (!usable) return std::nullopt;
  for (const InterfaceAddress& interface : *usable) {
    if (interface.prefix.address == address) return interface.netdev;
  }
  return std::nullopt;
}

std::string TcpNetwork::up() const {
  std::set<std::string> names;
  if (const auto all = read_interfaces(/*with_loopback=*/true)) {
    for (const InterfaceAddress& interface : *all) {
      if (interface.up) names.insert(interface.netdev);
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "there are none" : text;
}

std::string TcpNetwork::describe() const {
  const auto usable = interfaces();
  if (!usable) return "interfaces that are not known (" + usable.error().text + ")";
  std::string text;
  for (const InterfaceAddress& interface : *usable) {
    text += (text.empty() ? "" : ", ") + to_text(interface.prefix) + " on " + interface.netdev;
  }
  if (text.empty() && list_.empty()) text = "no interface that is up";
  if (text.empty()) text = "none of the interfaces that are up (" + up() + ")";
  return text + (list_.empty() ? "" : " (NCCL_SOCKET_IFNAME=" + list_ + ")");
}

void TcpNetwork::linger(Socket socket) {
  if (!socket.is_open() || ::shutdown(socket.descriptor(), SHUT_WR) != 0) return;
  Lingering one{.socket = std::move(socket), .deadline = Deadline::after_ms_or_never(kTcpLingerMs)};
  const std::lock_guard lock(mutex_);
  if (is_over(one)) return;
  lingering_.push_back(std::move(one));
  if (wake_) wake_();
}

void TcpNetwork::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(lingering_, [this](Lingering& one) { return is_over(one); });
}

/// Under the lock. Received bytes are discarded.
bool TcpNetwork::is_over(Lingering& one) {
  unwanted_.resize(kDrainedBytes);
  for (int drain = 0; drain < kDrainsAtOnce; ++drain) {
    const auto bytes = receive(one.socket, unwanted_);
    if (!bytes) return true;  // an error, or the end: the other side has closed
    if (*bytes == 0) break;
  }
  return one.deadline.passed();
}

bool TcpNetwork::lingers() const {
  const std::lock_guard lock(mutex_);
  return !lingering_.empty();
}

void TcpNetwork::watch(std::vector<pollfd>& watched) const {
  const std::lock_guard lock(mutex_);
  for (const Lingering& one : lingering_) {
    watched.push_back({.fd = one.socket.descriptor(), .events = POLLIN, .revents = 0});
  }
}

void TcpNetwork::announce_closed_to(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void TcpNetwork::wait_for_peers() {
  const Deadline end = Deadline::after_ms_or_never(kTcpEndMs);
  for (sweep(); lingers() && !end.passed(); sweep()) ::poll(nullptr, 0, kTcpEndPauseMs);
}

void TcpNetwork::remember_unreached(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  unreached_ns_[node] = now_ns();
}

bool TcpNetwork::is_unreached(std::uint64_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = unreached_ns_.find(node);
  return found != unreached_ns_.end() && now_ns() - found->second < kUnreachedNs;
}

bool TcpNetwork::first_time(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  return told_.insert(node).second;
}

}  // namespace meshbed::net
