#include "testbed/serve/server.h"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <chrono>
#include <functional>
#include <stdexcept>

#include "testbed/serve/http_session.h"
#include "testbed/serve/hub.h"
#include "testbed/serve/websocket_session.h"

namespace meshbed::testbed::serve {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kFreePortTries = 64;
constexpr std::int64_t kAcceptPauseMs = 100;
constexpr std::uint16_t kLastHttpPort = 65534;

std::runtime_error bad_address(const std::string& text, const char* why) {
  return std::runtime_error(
      fmt::format("--listen {}: {}; give ADDRESS:PORT, as in 127.0.0.1:9091 or [::1]:9091", text, why));
}

tcp::endpoint endpoint_of(const Address& address, int port) {
  return {boost::asio::ip::make_address(address.host), static_cast<std::uint16_t>(port)};
}

/// 0, or what is wrong.
error_code listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  if (acceptor.is_open()) acceptor.close(error);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  return error;
}

std::string url_of(const char* scheme, const tcp::acceptor& acceptor) {
  const tcp::endpoint local = acceptor.local_endpoint();
  const std::string host = local.address().to_string();
  return fmt::format("{}://{}:{}/", scheme, local.address().is_v6() ? "[" + host + "]" : host, local.port());
}

}  // namespace

Address parse_address(const std::string& text) {
  Address address;
  std::string host = text, port;
  if (text.starts_with("[")) {
    const std::size_t end = text.find(']');
    if (end == std::string::npos) throw bad_address(text, "a ] is missing");
    host = text.substr(1, end - 1);
    if (end + 1 < text.size() && text[end + 1] != ':') throw bad_address(text, "after ] comes :PORT");
    port = end + 1 < text.size() ? text.substr(end + 2) : "";
    if (end + 1 < text.size() && port.empty()) throw bad_address(text, "the port is missing");
  } else if (const std::size_t colon = text.rfind(':'); colon != std::string::npos) {
    if (text.find(':') != colon) throw bad_address(text, "an IPv6 address must be in brackets");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) throw bad_address(text, "the port is missing");
  }
  if (!host.empty()) address.host = host;
  error_code error;
  boost::asio::ip::make_address(address.host, error);
  if (error) throw bad_address(text, "not a numeric address");
  if (!port.empty()) {
    unsigned number = 0;
    const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (problem != std::errc() || end != port.data() + port.size() || number > kLastHttpPort) {
      throw bad_address(text, "the port is a number from 0 to 65534 (the next one is for WebSocket clients)");
    }
    address.port = static_cast<std::uint16_t>(number);
  }
  return address;
}

struct Server::State {
  State(Content& content, const Limits& limits) : hub(content, limits) {}

  using Serve = void (*)(Hub&, tcp::socket);

  void accept(tcp::acceptor& acceptor, Serve serve) {
    acceptor.async_accept([this, &acceptor, serve](error_code error, tcp::socket socket) {
      if (error == boost::asio::error::operation_aborted) return;
      if (!error) {
        serve(hub, std::move(socket));
        return accept(acceptor, serve);
      }
      // No descriptor is left, most likely: others close theirs soon.
      auto pause = std::make_shared<boost::asio::steady_timer>(hub.io, std::chrono::milliseconds(kAcceptPauseMs));
      pause->async_wait([this, &acceptor, serve, pause](error_code) { accept(acceptor, serve); });
    });
  }

  /// Only while a WebSocket client is there.
  void make_snapshots() {
    if (hub.websocket_clients == 0) {
      hub.snapshot = std::make_shared<std::string>();
      return wait_for_snapshot();
    }
    hub.ask([this] { return hub.content.snapshot(); },
            [this](std::string made) {
              if (!made.empty()) hub.snapshot = std::make_shared<std::string>(std::move(made));
              wait_for_snapshot();
            });
  }

  void wait_for_snapshot() {
    snapshots.expires_after(std::chrono::milliseconds(hub.limits.snapshot_every_ms / 4));
    snapshots.async_wait([this](error_code error) {
      if (!error) make_snapshots();
    });
  }

  Hub hub;
  tcp::acceptor http{hub.io}, websocket{hub.io};
  boost::asio::steady_timer snapshots{hub.io};
};

Server::Server(const Address& address, Content& content, const Limits& limits)
    : state_(std::make_unique<State>(content, limits)) {
  for (int attempt = 0;; ++attempt) {
    error_code error = listen_on(state_->http, endpoint_of(address, address.port));
    int port = address.port;
    if (!error) {
      const std::uint16_t first = state_->http.local_endpoint().port();
      port = first + 1;
      error = first > kLastHttpPort ? make_error_code(boost::asio::error::address_in_use)
                                    : listen_on(state_->websocket, endpoint_of(address, port));
    }
    if (!error) return;
    if (address.port == 0 && attempt < kFreePortTries) continue;  // the next port is another program's
    throw std::runtime_error(
        fmt::format("cannot listen on {} port {}: {}; give another --listen ADDRESS:PORT (the port and the next one "
                    "must be free)",
                    address.host, port, error.message()));
  }
}

Server::~Server() { state_->hub.maker.join(); }

std::string Server::http_url() const { return url_of("http", state_->http); }
std::string Server::websocket_url() const { return url_of("ws", state_->websocket); }
std::uint16_t Server::port() const { return state_->http.local_endpoint().port(); }
std::uint16_t Server::websocket_port() const { return state_->websocket.local_endpoint().port(); }
std::size_t Server::clients() const { return state_->hub.clients; }

void Server::run() {
  state_->accept(state_->http, &serve_http);
  state_->accept(state_->websocket, &serve_websocket);
  state_->make_snapshots();
  state_->hub.io.run();
}

void Server::stop() { state_->hub.io.stop(); }

}  // namespace meshbed::testbed::serve
