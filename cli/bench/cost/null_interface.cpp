// Replacements of getifaddrs() and freeifaddrs() for the plugin: one interface, to which the null wire's device
// belongs. Its addresses are in 127.0.0.0/8, so that handshakes go over real sockets; the machine's own interfaces are
// hidden. Exported by the program (ENABLE_EXPORTS), before libc's.

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>
#include <iterator>

#include "cli/bench/cost/null_wire.h"

namespace {

struct Interface {
  ifaddrs entries[std::size(meshbed::cost::kNullAddresses)]{};
  sockaddr_in addresses[std::size(meshbed::cost::kNullAddresses)]{};
  sockaddr_in mask{};
  char name[6] = "null0";
};

void fill(sockaddr_in& socket, const std::uint8_t (&bytes)[4]) {
  socket.sin_family = AF_INET;
  std::memcpy(&socket.sin_addr, bytes, sizeof bytes);
}

}  // namespace

extern "C" int getifaddrs(ifaddrs** list) noexcept {
  auto* only = new Interface;
  fill(only->mask, {255, 255, 255, 0});
  ifaddrs* next = nullptr;
  for (std::size_t index = std::size(only->entries); index-- > 0;) {
    ifaddrs& entry = only->entries[index];
    fill(only->addresses[index], meshbed::cost::kNullAddresses[index]);
    entry.ifa_next = next;
    entry.ifa_name = only->name;
    entry.ifa_flags = IFF_UP | IFF_RUNNING;
    entry.ifa_addr = reinterpret_cast<sockaddr*>(&only->addresses[index]);
    entry.ifa_netmask = reinterpret_cast<sockaddr*>(&only->mask);
    next = &entry;
  }
  *list = next;
  return 0;
}

extern "C" void freeifaddrs(ifaddrs* list) noexcept { delete reinterpret_cast<Interface*>(list); }
