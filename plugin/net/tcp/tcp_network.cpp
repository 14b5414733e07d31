#include "plugin/net/tcp/tcp_network.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/process/clock.h"
#include "plugin/net/process/discovery.h"
#include "plugin/verbs/sysfs.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kTcpLingerMs = 30'000;
constexpr std::int64_t kUnreachedNs = 60'000'000'000;
/// A socket is all that a connection costs.
constexpr int kConnectionsMost = 65'536;
constexpr std::uint8_t kMtu4096 = 5;

std::optional<Family> family_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "AF_INET") return Family::kIpv4;
  if (text == "AF_INET6") return Family::kIpv6;
  MESHBED_WARN("NCCL_SOCKET_FAMILY=%s is neither AF_INET nor AF_INET6: both families are used", text.c_str());
  return std::nullopt;
}

/// Of the function that the interface belongs to: "/sys/devices/pci0000:00/0000:01:00.0/net/eth0" without its end.
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

std::vector<InterfaceAddress> TcpNetwork::interfaces() const {
  const auto all = read_interfaces();
  if (!all) return {};
  return usable_interfaces(*all, {.list = list_, .family = family_, .cables = &cables_});
}

std::optional<std::string> TcpNetwork::interface_with(const IpAddress& address) const {
  for (const InterfaceAddress& interface : interfaces()) {
    if (interface.prefix.address == address) return interface.netdev;
  }
  return std::nullopt;
}

std::string TcpNetwork::describe() const {
  std::string text;
  for (const InterfaceAddress& interface : interfaces()) {
    text += (text.empty() ? "" : ", ") + to_text(interface.prefix) + " on " + interface.netdev;
  }
  if (text.empty()) text = "no interface that is up";
  return text + (list_.empty() ? "" : " (NCCL_SOCKET_IFNAME=" + list_ + ")");
}

void TcpNetwork::linger(Socket socket) {
  if (!socket.is_open() || ::shutdown(socket.descriptor(), SHUT_WR) != 0) return;
  {
    const std::lock_guard lock(mutex_);
    lingering_.push_back({.socket = std::move(socket), .deadline = Deadline::in_ms(kTcpLingerMs)});
  }
  sweep();
}

void TcpNetwork::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(lingering_, [](Lingering& one) {
    std::array<std::uint8_t, 4096> unwanted;
    // Nothing: it lingers on. An error, or the end: the receiver has closed.
    const auto bytes = one.socket.receive(unwanted);
    return !bytes || one.deadline.passed();
  });
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
