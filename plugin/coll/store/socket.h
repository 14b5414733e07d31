#pragma once
// Socket: an owned, non-blocking TCP socket on the management network, and the addresses that it takes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "plugin/base/address.h"
#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"
#include "plugin/base/result.h"

namespace meshbed::coll {

/// "10.0.0.1:29500" or "[fd00::1]:29500". Addresses, not names: the caller chooses the management network.
Result<SocketAddress> parse_address(const std::string& text);
using meshbed::to_text;  // the same text again
/// The address with port 0, for a socket that listens at any free port.
SocketAddress at_any_port(SocketAddress address);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// A socket that listens at `address`.
  static Result<Socket> listen(const SocketAddress& address);
  /// Tries again until a connection succeeds or the deadline passes; the error is that of the last attempt.
  static Result<Socket> connect(const SocketAddress& address, Deadline deadline);
  /// A socket that an accept queue accepted.
  static Socket of_client(Descriptor descriptor);
  Descriptor release() { return Descriptor(std::exchange(descriptor_, -1)); }

  /// Our end's.
  Result<SocketAddress> own_address() const;

  bool valid() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

  enum class Outcome { kMoved, kWouldBlock, kClosed };
  /// Appends what has arrived, at most 64 KiB a call.
  Outcome read_into(std::string* buffer) const;
  /// Sends from the front of `buffer` and removes what was taken.
  Outcome write_from(std::string* buffer) const;
  /// Waits for `events` (poll(2)); false where the time was up first.
  bool wait_for(short events, int timeout_ms) const;

 private:
  int descriptor_ = -1;
};

}  // namespace meshbed::coll
