#pragma once
// The parts of the probe: each source fills its entries of the table.

#include <sys/socket.h>

#include "tests/host/probe/probe.h"

namespace probe {

void add_threads(ProbeTable& table);
void add_sockets(ProbeTable& table);
void add_datagrams(ProbeTable& table);
void add_files(ProbeTable& table);

std::int64_t now_ns();

/// A numeric address and a port (host order) as a call takes them.
struct Name {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family = AF_INET;
};
Name name_of(const char* address, int port);
inline const sockaddr* raw(const Name& name) { return reinterpret_cast<const sockaddr*>(&name.storage); }
/// "address:port"
void write_name(const sockaddr_storage& storage, char* text, std::size_t size);

}  // namespace probe
