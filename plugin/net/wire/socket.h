#pragma once
// Non-blocking TCP sockets for the control connections. Nothing here waits; the caller polls and sets deadlines.

#include <cstdint>
#include <optional>
#include <span>

#include "plugin/base/result.h"
#include "plugin/base/socket.h"
#include "plugin/net/process/address.h"
#include "plugin/net/wire/wire.h"

namespace meshbed::net {

/// Listens on every address of this machine (IPv6 too where `ipv6`), on a port that the system chooses.
Result<Socket> listen_anywhere(bool ipv6);
/// Begins a connection from our address `local` to `remote`; the source address keeps it on the chosen subnet.
/// Link-local ones are both on the interface of the remote one's scope.
Result<Socket> begin_connect(const IpAddress& local, const SocketAddress& remote);
/// False: still connecting. An error carries errno.
Result<bool> finish_connect(const Socket& socket);

/// Bytes moved, 0: none now. An error also for the peer's end of file.
Result<std::size_t> receive(const Socket& socket, std::span<std::uint8_t> target);
Result<std::size_t> send(const Socket& socket, std::span<const std::uint8_t> source);

/// Assembles one message at a time from the bytes of a socket.
class MessageReader {
 public:
  /// nullopt: not complete yet.
  Result<std::optional<WireMessage>> read(Socket& socket);
  /// No byte of a message has arrived.
  bool untouched() const { return have_ == 0; }

 private:
  std::array<std::uint8_t, kWireLargestBytes> buffer_{};
  std::size_t have_ = 0;
};

/// Sends one message in as many parts as the socket needs.
class MessageWriter {
 public:
  void start(const WireMessage& message);
  /// True: all of it is written.
  Result<bool> write(Socket& socket);

 private:
  std::array<std::uint8_t, kWireLargestBytes> buffer_{};
  std::size_t length_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace meshbed::net
