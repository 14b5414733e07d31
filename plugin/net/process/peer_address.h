#pragma once
// An address of another node with the NIC that holds it, and its encoding in handles, routes and datagrams.
//
// clang-format off
// Layout of a peer address: big-endian, sizes in bytes.
//   offset  size  name           meaning
//        0     1  nic            the node's dev; 0x80 is added for IPv6
//        1     1  prefix         prefix length in bits
//        2     *  address        4 bytes, IPv6: 16
// clang-format on

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

/// The known addresses of a node after it sent `heard`, the addresses of its links that are up. They replace the
/// addresses of the same NICs; other NICs keep theirs, because their links are down.
std::vector<PeerAddress> updated(const std::vector<PeerAddress>& known, const std::vector<PeerAddress>& heard);

/// FNV-1a, 32 bits: detects damage, not forgery.
std::uint32_t checksum_of(std::span<const std::uint8_t> bytes);

}  // namespace meshbed::net
