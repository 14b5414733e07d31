#include "plugin/net/process/discovery.h"

#include <endian.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/base/prng.h"
#include "plugin/net/process/nic_filter.h"
#include "plugin/verbs/sysfs.h"

namespace meshbed::net {
namespace {

constexpr unsigned kWorking = IFF_UP | IFF_RUNNING;

std::string class_path(const verbs::Device& device) { return "/sys/class/infiniband/" + device.name(); }

/// Whether a network interface of the device's PCI function is this port's. If a device has several ports, dev_port of
/// the interface holds its number, from 0 (Linux, Documentation/ABI/testing/sysfs-class-net).
bool is_of_port(const verbs::Device& device, const Nic& nic, const std::string& netdev) {
  if (device.attributes().phys_port_cnt == 1) return true;
  const auto number = verbs::read_line("/sys/class/net/" + netdev + "/dev_port");
  return !number || std::strtol(number->c_str(), nullptr, 10) == nic.port - 1;
}

/// The port's network interface: from the GID attributes, which distinguish ports; else from the PCI function, if it
/// has only one; else from soft-RoCE's "parent".
std::string netdev_of(const verbs::Device& device, const Nic& nic) {
  const std::string ndevs = class_path(device) + "/ports/" + std::to_string(nic.port) + "/gid_attrs/ndevs/";
  for (const verbs::GidEntry& gid : nic.gids) {
    if (auto name = verbs::read_line(ndevs + std::to_string(gid.index)); name && !name->empty()) return *name;
  }
  const auto functions = verbs::list_directory(class_path(device) + "/device/net");
  if (functions.size() == 1 && is_of_port(device, nic, functions.front())) return functions.front();
  return verbs::read_line(class_path(device) + "/parent").value_or("");
}

/// The PCI function below /sys/devices, found without realpath(3).
std::string pci_path_of(const verbs::Device& device) {
  // ".../0000:01:00.0/infiniband/mlx5_0": the function stands two levels up.
  const auto link = verbs::resolve_link(class_path(device));
  const std::size_t end = link ? link->rfind("/infiniband/") : std::string::npos;
  if (end != std::string::npos && link->compare(0, 13, "/sys/devices/") == 0) return link->substr(0, end);
  return verbs::resolve_link(class_path(device) + "/device").value_or("");
}

std::uint8_t prefix_length(const sockaddr* mask) {
  unsigned bits = 0;
  // The family field of a netmask is filled on Linux; its bytes are those of the address.
  if (const auto address = from_sockaddr(mask)) {
    for (const std::uint8_t byte : address->address.bytes) bits += static_cast<unsigned>(std::popcount(byte));
  }
  return static_cast<std::uint8_t>(bits);
}

void apply(Nic& nic, const verbs::PortState& port) {
  nic.link_up = port.active;
  nic.mtu = port.mtu;
  nic.max_message_bytes = port.max_message_bytes;
}

/// Why the port is not usable; empty: it is.
std::string unusable(const Nic& nic, const verbs::PortState& port, const Config& config) {
  const auto pinned_gid = static_cast<int>(config.number(Variable::kIbGidIndex));
  if (!hca_allowed(config.text(Variable::kIbHca), nic.device_name, nic.port)) return "NCCL_IB_HCA leaves it out";
  if (!port.ethernet) return "it is InfiniBand, not RoCE: NCCL's own IB transport serves it";
  if (nic.addresses.empty() && !nic.link_local) return "its network interface " + nic.netdev + " has no address";
  if (nic.addresses.empty() && pinned_gid >= 0) {
    return "it has only a link-local address, and NCCL_IB_GID_INDEX forces another GID index";
  }
  return "";
}

/// Warns of settings that match no port: a typing error, or written for another machine.
void warn_of_filters(const std::vector<PortName>& ports, const std::vector<Nic>& nics, const Config& config) {
  const std::string hca = hca_problem(config.text(Variable::kIbHca), ports);
  if (!hca.empty()) MESHBED_WARN("%s", hca.c_str());
  for (const std::string& problem :
       address_problems(config.text(Variable::kIbAddressFamily), config.text(Variable::kIbAddressRange),
                        address_preference(config), nics)) {
    MESHBED_WARN("%s", problem.c_str());
  }
}

/// Removes the ports of the management network unless the user asks for them: data over them would be ten times as slow
/// without any warning (D27).
void leave_out_management(std::vector<Nic>& nics, const Config& config) {
  if (takes_management(config.flag(Variable::kUseManagement), config.text(Variable::kIbHca))) return;
  const std::vector<Nic> all = nics;
  std::erase_if(nics, [&](const Nic& nic) {
    if (role_of(nic, all) != NicRole::kManagement) return false;
    MESHBED_INFO(
        "port %d of %s is left out: with %u Gb/s beside faster ports it is taken for the management network's; "
        "NCCL_MESH_USE_MANAGEMENT=1, or its name in NCCL_IB_HCA, takes it in",
        nic.port, nic.device_name.c_str(), nic.rate_mbps / 1000);
    return true;
  });
}

/// "0 (fe80::1, RoCE v1), 1 (...)"
std::string gids_text(const Nic& nic) {
  std::string text;
  for (const verbs::GidEntry& entry : nic.gids) {
    text += (text.empty() ? "" : ", ") + std::to_string(entry.index) + " (" + to_text(address_of(entry.gid)) + ", " +
            verbs::to_text(entry.type) + ")";
  }
  return text.empty() ? "none at all" : text;
}

/// Removes ports that are up but lack the forced GID index: their queue pairs could not be connected, and the time-out
/// would blame their cables. The job goes on over the others; an error if there are none.
Result<void> leave_out_without_gid(std::vector<Nic>& nics, const Config& config) {
  const auto index = static_cast<int>(config.number(Variable::kIbGidIndex));
  if (index < 0) return ok();
  std::string lacking;
  std::erase_if(nics, [&](const Nic& nic) {
    if (!nic.link_up || find_gid(nic, {}, {.forced_index = index})) return false;
    lacking += (lacking.empty() ? "" : "; ") + std::string("port ") + std::to_string(nic.port) + " of " +
               nic.device_name + " is up, but has " + gids_text(nic);
    return true;
  });
  if (lacking.empty()) return ok();
  const std::string text = "no GID at NCCL_IB_GID_INDEX=" + std::to_string(index) + ": " + lacking +
                           ". Leave NCCL_IB_GID_INDEX unset, so that each port takes the index of its own address";
  if (nics.empty()) return Error{ErrorCode::kInvalidArgument, Scope::kJob, text + ". No other port is left"};
  MESHBED_WARN("%s. The job goes on over the other ports", text.c_str());
  return ok();
}

/// The interface addresses that `wanted` accepts.
template <typename Predicate>
Result<std::vector<InterfaceAddress>> read_interfaces_if(Predicate wanted) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kJob,
                 .text = std::string("cannot list network interfaces: ") + std::strerror(errno),
                 .os_errno = errno};
  }
  std::vector<InterfaceAddress> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto address = from_sockaddr(entry->ifa_addr);
    if (!address || !wanted(address->address, entry->ifa_flags)) continue;
    interfaces.push_back({.netdev = entry->ifa_name,
                          .prefix = {.address = address->address, .length_bits = prefix_length(entry->ifa_netmask)},
                          .up = (entry->ifa_flags & kWorking) == kWorking});
  }
  ::freeifaddrs(list);
  return interfaces;
}

bool is_ipv6_link_local(const IpAddress& address) { return address.family == Family::kIpv6 && is_link_local(address); }

}  // namespace

Result<std::vector<InterfaceAddress>> read_interfaces(bool with_loopback) {
  return read_interfaces_if([with_loopback](const IpAddress& address, unsigned flags) {
    return !is_ipv6_link_local(address) && (with_loopback || (flags & IFF_LOOPBACK) == 0);
  });
}

Result<std::vector<InterfaceAddress>> read_link_local_interfaces() {
  return read_interfaces_if([](const IpAddress& address, unsigned) { return is_ipv6_link_local(address); });
}

Result<std::vector<Nic>> discover(const Devices& devices, const Config& config) {
  auto interfaces = read_interfaces();
  if (!interfaces) return interfaces.error();
  auto link_local = read_link_local_interfaces();
  if (!link_local) return link_local.error();
  std::vector<Nic> nics;
  std::vector<PortName> ports;
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const verbs::Device& device = *devices[index];
    for (int number = 1; number <= device.attributes().phys_port_cnt; ++number) {
      auto port = device.query_port(static_cast<std::uint8_t>(number));
      if (!port) {
        MESHBED_WARN("%s: left out", port.error().text.c_str());
        continue;
      }
      ports.push_back({.device = device.name(), .port = number});
      Nic nic;
      nic.device = static_cast<int>(index);
      nic.port = port->number;
      nic.device_name = device.name();
      nic.guid = be64toh(device.attributes().sys_image_guid);
      nic.max_queue_pairs = device.attributes().max_qp;
      nic.gids = device.gids(*port);
      nic.netdev = netdev_of(device, nic);
      nic.pci_path = pci_path_of(device);
      const std::uint32_t rate_mbps = port->rate_mbps > 0 ? port->rate_mbps : verbs::interface_speed_mbps(nic.netdev);
      nic.rate_known = rate_mbps > 0;
      nic.rate_mbps = nic.rate_known ? rate_mbps : kUnknownRateMbps;
      nic.addresses = addresses_of(nic, *interfaces, address_preference(config));
      nic.netdev = addressed_netdev(nic, *interfaces);
      if (nic.addresses.empty()) nic.link_local = link_local_of(nic, *link_local);
      apply(nic, *port);
      const HcaChoice choice = hca_choice(config.text(Variable::kIbHca), nic.device_name, nic.port);
      nic.rail = choice.rail;
      nic.plane = choice.plane;
      if (const std::string reason = unusable(nic, *port, config); !reason.empty()) {
        MESHBED_INFO("port %d of %s is left out: %s", number, device.name().c_str(), reason.c_str());
        continue;
      }
      nics.push_back(std::move(nic));
    }
  }
  warn_of_filters(ports, nics, config);
  leave_out_management(nics, config);
  std::stable_partition(nics.begin(), nics.end(), [](const Nic& nic) { return !nic.link_local; });
  if (auto usable = leave_out_without_gid(nics, config); !usable) return usable.error();
  return nics;
}

AddressPreference address_preference(const Config& config) {
  AddressPreference preference;
  if (const std::string& family = config.text(Variable::kIbAddressFamily); !family.empty()) {
    preference.family = family == "AF_INET6" ? Family::kIpv6 : Family::kIpv4;
  }
  preference.range = parse_prefix(config.text(Variable::kIbAddressRange));
  return preference;
}

void refresh(Nic& nic, const verbs::Device& device) {
  auto port = device.query_port(nic.port);
  if (!port) {
    MESHBED_WARN("%s: treated as down", port.error().text.c_str());
    nic.link_up = false;
    return;
  }
  apply(nic, *port);
  nic.gids = device.gids(*port);
}

std::uint64_t node_identity(const std::vector<InterfaceAddress>& interfaces) {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  std::uint64_t identity = 0;
  for (const char* letter = name; *letter != '\0'; ++letter) {
    identity = mix64(identity ^ static_cast<std::uint8_t>(*letter));
  }
  for (const InterfaceAddress& address : interfaces) {
    std::uint64_t halves[2];
    std::memcpy(halves, address.prefix.address.bytes.data(), sizeof halves);
    identity = mix64(mix64(identity ^ be64toh(halves[0])) ^ be64toh(halves[1]));
  }
  return identity;
}

}  // namespace meshbed::net
