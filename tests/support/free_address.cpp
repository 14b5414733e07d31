#include "tests/support/free_address.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <random>

namespace meshbed::test {

namespace {

bool is_free(std::uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool bound = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(descriptor);
  return bound;
}

}  // namespace

// Any connection of any process may be given a port of the kernel's own range: the ports below it are asked for by
// name.
std::string free_address() {
  constexpr int kLowest = 10240;
  int end = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> end;
  REQUIRE(end > kLowest);
  std::random_device any;  // test programs run side by side
  for (;;) {
    const int port = std::uniform_int_distribution<int>(kLowest, end - 1)(any);
    if (is_free(static_cast<std::uint16_t>(port))) return "127.0.0.1:" + std::to_string(port);
  }
}

}  // namespace meshbed::test
