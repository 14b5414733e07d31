#pragma once
// Non-blocking TCP sockets on the management network, and the addresses that they take.

#include <string>

#include "plugin/base/address.h"
#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"
#include "plugin/base/result.h"
#include "plugin/base/socket.h"

namespace meshbed::coll {

/// "10.0.0.1:29500" or "[fd00::1]:29500". Addresses, not names: the caller chooses the management network.
Result<SocketAddress> parse_address(const std::string& text);
using meshbed::to_text;  // the same text again
/// The address with port 0, for a socket that listens at any free port.
SocketAddress at_any_port(SocketAddress address);

/// A socket that listens at `address`.
Result<Socket> listen_at(const SocketAddress& address);
/// Tries again until a connection succeeds or the deadline passes; the error is that of the last attempt.
Result<Socket> connect_to(const SocketAddress& address, Deadline deadline);
/// One that an accept queue accepted.
Socket socket_of_client(Descriptor descriptor);
/// Our end's.
Result<SocketAddress> own_address(const Socket& socket);

enum class SocketOutcome { kMoved, kWouldBlock, kClosed };
/// Appends what has arrived, at most 64 KiB a call.
SocketOutcome read_into(const Socket& socket, std::string* buffer);
/// Sends from the front of `buffer` and removes what was taken.
SocketOutcome write_from(const Socket& socket, std::string* buffer);

}  // namespace meshbed::coll
