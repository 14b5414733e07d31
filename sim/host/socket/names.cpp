// Names of hosts: numeric addresses, "localhost", and the cluster's nodes, whose names stand for their management
// address (or the first of a NIC where they have none). There is no DNS.
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/endpoint.h"

namespace meshbed::sim {
namespace {

/// One element of the list that getaddrinfo() gives, with what it points to.
struct NameElement {
  addrinfo entry{};  // first: freeaddrinfo() gets its address
  sockaddr_storage address{};
  std::string canonical_name;
};

std::optional<models::IpAddress> address_of_node(std::string_view name) {
  for (const models::Node& node : World::get().cluster().nodes) {
    if (node.name != name) continue;
    if (node.management) return node.management->address.address;
    for (const auto& nic : node.nics) {
      if (!nic.addresses.empty()) return nic.addresses.front().address;
    }
  }
  return std::nullopt;
}

models::IpAddress loopback_address(int family) {
  models::IpAddress address = any_address(family);
  if (family == AF_INET6) {
    address.bytes[15] = 1;
  } else {
    address.bytes = {127, 0, 0, 1};
  }
  return address;
}

/// 0 or an EAI_ code.
int find_address(const char* name, const addrinfo& hints, models::IpAddress& address) {
  const int family = hints.ai_family == AF_INET6 ? AF_INET6 : AF_INET;
  if (name == nullptr) {
    address = (hints.ai_flags & AI_PASSIVE) != 0 ? any_address(family) : loopback_address(family);
    return 0;
  }
  if (const auto parsed = models::parse_ip(name)) {
    address = *parsed;
    return 0;
  }
  if ((hints.ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (std::string_view(name) == "localhost") {
    address = loopback_address(family);
    return 0;
  }
  const auto node = address_of_node(name);
  if (!node) return EAI_NONAME;
  address = *node;
  return 0;
}

int parse_port(const char* service, std::uint16_t& port) {
  if (service == nullptr) return 0;
  const char* end = service + std::strlen(service);
  const auto [stop, error] = std::from_chars(service, end, port);
  return error == std::errc() && stop == end ? 0 : EAI_SERVICE;
}

int get_address_info(const char* name, const char* service, const addrinfo* asked, addrinfo** result) {
  if (outside()) return ::getaddrinfo(name, service, asked, result);
  const addrinfo hints = asked != nullptr ? *asked : addrinfo{};
  if (name == nullptr && service == nullptr) return EAI_NONAME;
  if (hints.ai_socktype != 0 && hints.ai_socktype != SOCK_STREAM) return EAI_SOCKTYPE;
  Endpoint endpoint;
  if (const int error = parse_port(service, endpoint.port); error != 0) return error;
  if (const int error = find_address(name, hints, endpoint.address); error != 0) return error;
  const int family = endpoint.address.family == models::Family::kIpv4 ? AF_INET : AF_INET6;
  const bool mapped = family == AF_INET && hints.ai_family == AF_INET6 && (hints.ai_flags & AI_V4MAPPED) != 0;
  if (hints.ai_family != AF_UNSPEC && hints.ai_family != family && !mapped) return EAI_ADDRFAMILY;

  auto element = std::make_unique<NameElement>();
  addrinfo& entry = element->entry;
  entry.ai_family = mapped ? AF_INET6 : family;
  entry.ai_socktype = SOCK_STREAM;
  entry.ai_protocol = IPPROTO_TCP;
  entry.ai_addr = reinterpret_cast<sockaddr*>(&element->address);
  entry.ai_addrlen = sizeof(element->address);
  write_sockaddr(entry.ai_family, endpoint, entry.ai_addr, &entry.ai_addrlen);
  if ((hints.ai_flags & AI_CANONNAME) != 0 && name != nullptr) {
    element->canonical_name = name;
    entry.ai_canonname = element->canonical_name.data();
  }
  *result = &element.release()->entry;
  return 0;
}

void free_address_info(addrinfo* list) {
  if (outside()) {
    ::freeaddrinfo(list);
    return;
  }
  while (list != nullptr) {
    const std::unique_ptr<NameElement> element(reinterpret_cast<NameElement*>(list));
    list = list->ai_next;
  }
}

/// Always the numbers: a node has several addresses, and none of them is defined to have its name.
int get_name_info(const sockaddr* address, socklen_t length, char* name, socklen_t name_size, char* service,
                  socklen_t service_size, int flags) {
  if (outside()) return ::getnameinfo(address, length, name, name_size, service, service_size, flags);
  if ((flags & NI_NAMEREQD) != 0) return EAI_NONAME;
  return ::getnameinfo(address, length, name, name_size, service, service_size,
                       flags | NI_NUMERICHOST | NI_NUMERICSERV);
}

}  // namespace

std::span<const Redirection> name_redirections() {
  static const std::array table{redirect("getaddrinfo", &get_address_info),
                                redirect("freeaddrinfo", &free_address_info), redirect("getnameinfo", &get_name_info)};
  return table;
}

}  // namespace meshbed::sim
