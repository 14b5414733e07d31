#include "plugin/coll/store/environment.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "plugin/base/check.h"
#include "plugin/base/interface_list.h"

namespace meshbed::coll {
namespace {

constexpr char kInterfaces[] = "NCCL_SOCKET_IFNAME", kFamily[] = "NCCL_SOCKET_FAMILY";

/// AF_UNSPEC: either.
Result<int> wanted_family() {
  const auto text = variable(kFamily);
  if (!text) return AF_UNSPEC;
  if (*text == "AF_INET") return AF_INET;
  if (*text == "AF_INET6") return AF_INET6;
  return Error{ErrorCode::kInvalidArgument, Scope::kJob,
               std::string(kFamily) + " is \"" + *text + "\"; set AF_INET or AF_INET6, or unset it"};
}

/// Of an interface that may be used: the lower, the better.
int reluctance(const ifaddrs& interface) {
  const std::string name = interface.ifa_name;
  if ((interface.ifa_flags & IFF_LOOPBACK) != 0) return 3;
  if (::access(("/sys/class/net/" + name + "/device/infiniband").c_str(), F_OK) == 0) return 2;
  return name.rfind("docker", 0) == 0 ? 1 : 0;
}

bool has_address(const ifaddrs& interface, int family) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return false;
  const int own = interface.ifa_addr->sa_family;
  if ((own != AF_INET && own != AF_INET6) || (family != AF_UNSPEC && own != family)) return false;
  // A link-local address is one only together with an interface of the machine that calls it.
  return own == AF_INET ||
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr)->sin6_addr);
}

}  // namespace

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Result<SocketAddress> management_address() {
  const auto family = wanted_family();
  if (!family) return family.error();
  const std::string names = variable(kInterfaces).value_or("");
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return Error{ErrorCode::kSystem, Scope::kJob, std::string("getifaddrs: ") + std::strerror(errno), errno};
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, &freeifaddrs);
  const ifaddrs* best = nullptr;
  int least = 0;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (!has_address(*at, *family) || !interface_place(names, at->ifa_name)) continue;
    const int cost = 2 * reluctance(*at) + (at->ifa_addr->sa_family == AF_INET6 ? 1 : 0);
    if (best != nullptr && cost >= least) continue;
    best = at;
    least = cost;
  }
  if (best == nullptr) {
    return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                 std::string("no interface that is up has an address that fits ") + kInterfaces + " \"" + names +
                     "\" and " + kFamily + " \"" + variable(kFamily).value_or("") + "\""};
  }
  const auto address = from_sockaddr(best->ifa_addr);
  MESHBED_CHECK(address.has_value());  // has_address() looked at the family
  return at_any_port(*address);
}

}  // namespace meshbed::coll
