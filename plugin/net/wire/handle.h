#pragma once
// The 128 bytes that NCCL passes from listen() to connect(): the listener's identity, its port and its addresses.
// Neither side gets any other information about the other one.
//
// clang-format off
// Layout of a handle: big-endian, sizes in bytes.
//   offset  size  name           meaning
//        0     4  magic          "MSHB"
//        4     1  version        1
//        5     1  flags          1: the listener offers TCP for data at its addresses whose nic is 127 (kTcpNic)
//        6     1  dev            the listener's device
//        7     1  count          addresses listed
//        8     8  node           identity of the node
//       16     8  cookie         number of the listener
//       24     2  tcp_port       port of the control connection
//       26     1  address_bytes  bytes of the address list
//       27     1  not_listed     addresses that did not fit
//       28     4  process        number of the process
//       32     *  addresses      see peer_address.h; then zeros
//      116     4  checksum       FNV-1a over bytes 0 to 115
//      120     8  token          a note of the connecting side between two calls of connect(); 0 in a new handle
// clang-format on
// Without the flag the handle has no TCP addresses. The token is not part of the checksum.

#include <cstdint>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/peer_address.h"

namespace meshbed::net {

inline constexpr std::size_t kHandleBytes = 128;
inline constexpr std::uint8_t kHandleVersion = 1;
/// In place of a NIC: an address for TCP.
inline constexpr std::uint8_t kTcpNic = 127;

struct Handle {
  std::uint64_t node = 0;     // equal for all processes of a node
  std::uint32_t process = 0;  // random
  std::uint64_t cookie = 0;   // identifies the listener; a connecting side must repeat it
  std::uint16_t tcp_port = 0;
  std::uint8_t dev = 0;  // the listener's device
  std::uint8_t not_listed = 0;
  std::vector<PeerAddress> addresses;
  std::vector<PeerAddress> tcp_addresses;  // the best one first; not empty: TCP is offered
  bool operator==(const Handle&) const = default;
};

/// Writes `handle` with a zero token. The first four TCP addresses come first, then the addresses of handle.dev, then
/// IPv4 before IPv6. Addresses that do not fit are left out and counted in `not_listed`.
void encode_handle(const Handle& handle, std::span<std::uint8_t, kHandleBytes> target);
/// Errors: a foreign handle, another version, damage.
Result<Handle> decode_handle(std::span<const std::uint8_t, kHandleBytes> source);

std::uint64_t handle_token(std::span<const std::uint8_t, kHandleBytes> handle);
void set_handle_token(std::span<std::uint8_t, kHandleBytes> handle, std::uint64_t token);
/// Sets the checksum.
void seal_handle(std::span<std::uint8_t, kHandleBytes> handle);

}  // namespace meshbed::net
