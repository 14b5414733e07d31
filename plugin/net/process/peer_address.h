#pragma once
// An address of another node with the NIC that holds it, and its bytes in handles and discovery messages:
//   nic u8 (| 0x80 for IPv6), prefix length u8, then 4 or 16 bytes.

#include <cstdint>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/address.h"
#include "plugin/net/process/bytes.h"

namespace meshbed::net {

/// `nic` is the node's own `dev`, 0..127.
struct PeerAddress {
  IpPrefix prefix;
  std::uint8_t nic = 0;
  bool operator==(const PeerAddress&) const = default;
};

std::size_t encoded_bytes(const PeerAddress& address);
void write_address(ByteWriter& writer, const PeerAddress& address);
/// Errors: cut off, a prefix longer than its address. `where` names the message in the error: "the handle".
Result<PeerAddress> read_address(ByteReader& reader, const char* where);

/// What is known of a node after it said `heard`, the addresses of its links that are up: those replace what the same
/// NICs had; other NICs keep theirs, for their links are down.
std::vector<PeerAddress> updated(const std::vector<PeerAddress>& known, const std::vector<PeerAddress>& heard);

/// FNV-1a, 32 bits: against damage, not against malice.
std::uint32_t checksum_of(std::span<const std::uint8_t> bytes);

}  // namespace meshbed::net
