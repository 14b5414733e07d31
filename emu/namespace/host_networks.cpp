#include "emu/namespace/host_networks.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "emu/cluster.h"
#include "emu/namespace/namespace_plan.h"
#include "plugin/base/address.h"

namespace meshbed::emu {
namespace {

int prefix_of(const sockaddr* mask) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(mask);
  std::size_t size = sizeof(in_addr);
  std::size_t from = offsetof(sockaddr_in, sin_addr);
  if (mask->sa_family == AF_INET6) {
    size = sizeof(in6_addr);
    from = offsetof(sockaddr_in6, sin6_addr);
  }
  int bits = 0;
  for (std::size_t at = from; at < from + size; ++at) bits += __builtin_popcount(bytes[at]);
  return bits;
}

/// Do the networks of two addresses with prefix lengths overlap? The longer one then begins like the shorter.
bool overlap(const std::string& one, const std::string& other) {
  if (is_ipv6(one) != is_ipv6(other)) return false;
  const auto length = [](const std::string& text) { return std::stoi(text.substr(text.find('/') + 1)); };
  const int shorter = std::min(length(one), length(other));
  const auto cut = [&](const std::string& text) {
    return network_text(fmt::format("{}/{}", text.substr(0, text.find('/')), shorter));
  };
  return cut(one) == cut(other);
}

}  // namespace

void require_free_networks(const std::vector<std::string>& addresses) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw std::runtime_error("the host's addresses cannot be read");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    const std::string own =
        fmt::format("{}/{}", to_text(from_sockaddr(entry->ifa_addr)->address), prefix_of(entry->ifa_netmask));
    for (const std::string& address : addresses) {
      if (!overlap(own, address)) continue;
      throw std::runtime_error(fmt::format(
          "the address {} of the scenario meets the network of this host's {} ({}); give the scenario other networks, "
          "or use virtual machines, which do not share the host's: --backend microvm",
          address, entry->ifa_name, own));
    }
  }
}

void require_plain_rules(const std::string& rules, const std::string& command) {
  std::istringstream lines(rules);
  bool local_first = false;
  for (std::string line; std::getline(lines, line);) {
    int preference = -1;
    std::from_chars(line.data(), line.data() + line.size(), preference);
    const bool local = line.find("lookup local") != std::string::npos;
    if (preference == 0 && local) {
      local_first = true;
      continue;
    }
    if (preference >= 0 && preference <= kNamespaceLocalPreference) {
      throw std::runtime_error(fmt::format(
          "the host has a routing rule of its own before preference {} (`{}`: {}), which policy routing would disturb; "
          "use virtual machines: --backend microvm",
          kNamespaceLocalPreference, command, line));
    }
  }
  if (local_first) return;
  throw std::runtime_error(
      fmt::format("the host's first routing rule is not that of its local addresses (`{}`); use "
                  "virtual machines: --backend microvm",
                  command));
}

}  // namespace meshbed::emu
