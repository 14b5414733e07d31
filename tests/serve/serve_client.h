#pragma once
// A client that sends any bytes, well-formed or not.

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace meshbed::test {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { ::close(descriptor_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& bytes) const { ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void end() const { ::shutdown(descriptor_, SHUT_WR); }
  bool has_reply_within(int patience_ms) const {
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, patience_ms) == 1;
  }
  /// Until the server closes, or `patience_ms` without a byte.
  std::string receive_all(int patience_ms = 20'000) const {
    std::string all;
    char bytes[65536];
    for (pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0}; ::poll(&wait, 1, patience_ms) == 1;) {
      const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      all.append(bytes, static_cast<std::size_t>(count));
    }
    return all;
  }
  /// Until `size` bytes are there, the server closes, or 20 s pass without a byte.
  std::string receive(std::size_t size) const {
    std::string all;
    char bytes[4096];
    for (pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
         all.size() < size && ::poll(&wait, 1, 20'000) == 1;) {
      const ssize_t count = ::recv(descriptor_, bytes, std::min(sizeof bytes, size - all.size()), 0);
      if (count <= 0) break;
      all.append(bytes, static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

/// "HTTP/1.1 404 ..." -> 404; 0: no reply.
inline int status_of(const std::string& reply) {
  return reply.rfind("HTTP/1.", 0) == 0 && reply.size() > 12 ? std::atoi(reply.c_str() + 9) : 0;
}
inline std::string body_of(const std::string& reply) {
  const std::size_t end = reply.find("\r\n\r\n");
  return end == std::string::npos ? "" : reply.substr(end + 4);
}
/// One request, on a connection of its own.
inline std::string ask(std::uint16_t port, const std::string& request) {
  const RawClient client(port);
  client.send(request);
  return client.receive_all();
}
inline std::string get(std::uint16_t port, const std::string& target, const std::string& method = "GET") {
  return ask(port, method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

}  // namespace meshbed::test
