#pragma once
// Server: a Content over HTTP/1.1, and its snapshot once a second over WebSocket on the next port (Boost.Beast).
//
// Bounded in every direction: clients, the size of a request's head and body, the time that a request and a reply may
// take, and what a WebSocket client may send. One thread moves bytes, a second one makes replies, so that a slow page
// does not delay other clients.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "testbed/serve/content.h"

namespace meshbed::testbed::serve {

struct Limits {
  std::size_t clients = 64;            // HTTP; one more gets 503
  std::size_t websocket_clients = 32;  // one more gets 503
  std::size_t head_bytes = 8192;       // longer: 431
  std::size_t body_bytes = 4096;       // longer: 413; a shorter one is read and ignored
  std::size_t frame_bytes = 1024;      // of a WebSocket client; longer: closed
  std::int64_t request_ms = 5000;      // for one whole request, then 408; without any byte of it: closed
  std::int64_t reply_ms = 30'000;      // for the client to take a reply, then closed
  std::int64_t snapshot_every_ms = 1000;
};

struct Address {
  std::string host = "127.0.0.1";  // numeric
  std::uint16_t port = 9091;       // WebSocket: the next one; 0: two free ones
};
/// "ADDRESS:PORT", "[ADDRESS]:PORT" of IPv6, "ADDRESS" or ":PORT". Throws std::runtime_error.
Address parse_address(const std::string& text);

class Server {
 public:
  /// Listens. Throws std::runtime_error where it cannot, with the address, the cause and the fix. `content` must
  /// outlive it.
  Server(const Address& address, Content& content, const Limits& limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// "http://127.0.0.1:9091/"
  std::string http_url() const;
  /// "ws://127.0.0.1:9092/"
  std::string websocket_url() const;
  std::uint16_t port() const;
  std::uint16_t websocket_port() const;

  /// Serves until stop(). Call it once.
  void run();
  /// Ends run(); any thread.
  void stop();
  /// HTTP clients that are connected; any thread.
  std::size_t clients() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshbed::testbed::serve
