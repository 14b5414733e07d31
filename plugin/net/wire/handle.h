#pragma once
// The 128 bytes that travel from listen() to connect(): who listens, where, and every address that it has.
//
// NCCL tells neither side who the other is; only these bytes go across. Layout, big-endian:
//   0  magic "MSHB" u32        16  cookie u64                 32  addresses, up to byte 116:
//   4  version u8              24  TCP port u16                   IPv4: nic u8, prefix u8, 4 bytes
//   5  flags u8                26  bytes of addresses u8          IPv6: nic | 0x80 u8, prefix u8, 16 bytes
//   6  listener's dev u8       27  addresses not listed u8    116 checksum u32 (FNV-1a over bytes 0..115)
//   7  addresses listed u8     28  process u32                120 token u64
//   8  node identity u64
// Flag 1: the listener takes TCP for data, too, at its addresses whose nic is 127 (kTcpNic); without it the handle has
// none of those. Other flags are 0. The token is the connecting side's own note between two calls of connect(); zero in
// a fresh handle, not checksummed.

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
  std::uint64_t cookie = 0;   // names the listener; a connecting side must repeat it
  std::uint16_t tcp_port = 0;
  std::uint8_t dev = 0;  // that listen() was asked for
  std::uint8_t not_listed = 0;
  std::vector<PeerAddress> addresses;
  std::vector<PeerAddress> tcp_addresses;  // the best one first; not empty: TCP is offered
  bool operator==(const Handle&) const = default;
};

/// Writes `handle` with a zero token. What does not fit is left out and counted in `not_listed`: addresses of
/// handle.dev claim their place first, then IPv4 before IPv6. Before all others come the first four for TCP.
void encode_handle(const Handle& handle, std::span<std::uint8_t, kHandleBytes> target);
/// Errors: not ours, another version, damaged.
Result<Handle> decode_handle(std::span<const std::uint8_t, kHandleBytes> source);

std::uint64_t handle_token(std::span<const std::uint8_t, kHandleBytes> handle);
void set_handle_token(std::span<std::uint8_t, kHandleBytes> handle, std::uint64_t token);
/// Makes the checksum fit the other bytes.
void seal_handle(std::span<std::uint8_t, kHandleBytes> handle);

}  // namespace meshbed::net
