// getifaddrs() and freeifaddrs() as the plugin finds them in a program that has this: one interface, which the null
// wire's device stands on. Its address is one of 127.0.0.0/8, so that handshakes go over real sockets; the machine's
// own interfaces do not show. Exported by the program (ENABLE_EXPORTS), before libc's.

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

#include "cli/cost/null_wire.h"

namespace {

struct Interface {
  ifaddrs entry{};
  sockaddr_in address{}, mask{};
  char name[6] = "null0";
};

void fill(sockaddr_in& socket, const std::uint8_t (&bytes)[4]) {
  socket.sin_family = AF_INET;
  std::memcpy(&socket.sin_addr, bytes, sizeof bytes);
}

}  // namespace

extern "C" int getifaddrs(ifaddrs** list) noexcept {
  auto* only = new Interface;
  fill(only->address, meshbed::cost::kNullAddress);
  fill(only->mask, {255, 255, 255, 0});
  only->entry.ifa_name = only->name;
  only->entry.ifa_flags = IFF_UP | IFF_RUNNING;
  only->entry.ifa_addr = reinterpret_cast<sockaddr*>(&only->address);
  only->entry.ifa_netmask = reinterpret_cast<sockaddr*>(&only->mask);
  *list = &only->entry;
  return 0;
}

extern "C" void freeifaddrs(ifaddrs* list) noexcept { delete reinterpret_cast<Interface*>(list); }
