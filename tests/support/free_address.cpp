#include "tests/support/free_address.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace meshbed::test {

std::string free_address() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(descriptor);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

}  // namespace meshbed::test
