#include "plugin/net/wire/handle.h"

#include <algorithm>
#include <string>

#include "plugin/net/process/bytes.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kHandleMagic = 0x4d534842;  // "MSHB"
constexpr std::size_t kHandleAddressesAt = 32;
constexpr std::size_t kHandleChecksumAt = 116;
constexpr std::size_t kTokenAt = 120;
constexpr std::uint8_t kOffersTcp = 1;
constexpr std::size_t kTcpAddressesMost = 4;

std::uint32_t checksum(std::span<const std::uint8_t, kHandleBytes> handle) {
  return checksum_of(handle.first<kHandleChecksumAt>());
}

Error refuse_handle(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
}

/// The order in which addresses are listed: the listener's NIC first, IPv4 before IPv6, otherwise unchanged.
std::vector<PeerAddress> by_importance(const Handle& handle) {
  std::vector<PeerAddress> addresses = handle.addresses;
  std::stable_sort(addresses.begin(), addresses.end(), [&](const PeerAddress& a, const PeerAddress& b) {
    const bool a_first = a.nic == handle.dev;
    const bool b_first = b.nic == handle.dev;
    if (a_first != b_first) return a_first;
    return a.prefix.address.family < b.prefix.address.family;
  });
  return addresses;
}

/// The list as if there were room for everything.
std::vector<PeerAddress> wanted_addresses(const Handle& handle) {
  std::vector<PeerAddress> addresses;
  const std::size_t tcp = std::min(handle.tcp_addresses.size(), kTcpAddressesMost);
  for (std::size_t index = 0; index < tcp; ++index) {
    addresses.push_back({.prefix = handle.tcp_addresses[index].prefix, .nic = kTcpNic});
  }
  for (PeerAddress address : by_importance(handle)) {
    if (tcp > 0) address.nic = std::min<std::uint8_t>(address.nic, kTcpNic - 1);
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

void encode_handle(const Handle& handle, std::span<std::uint8_t, kHandleBytes> target) {
  std::vector<PeerAddress> listed;
  std::size_t bytes = 0;
  std::size_t not_listed = handle.not_listed;
  for (const PeerAddress& address : wanted_addresses(handle)) {
    if (bytes + encoded_bytes(address) <= kHandleChecksumAt - kHandleAddressesAt) {
      bytes += encoded_bytes(address);
      listed.push_back(address);
    } else {
      ++not_listed;
    }
  }
  ByteWriter writer(target);
  writer.u32(kHandleMagic);
  writer.u8(kHandleVersion);
  writer.u8(handle.tcp_addresses.empty() ? 0 : kOffersTcp);
  writer.u8(handle.dev);
  writer.u8(static_cast<std::uint8_t>(listed.size()));
  writer.u64(handle.node);
  writer.u64(handle.cookie);
  writer.u16(handle.tcp_port);
  writer.u8(static_cast<std::uint8_t>(bytes));
  writer.u8(static_cast<std::uint8_t>(std::min<std::size_t>(not_listed, 255)));
  writer.u32(handle.process);
  for (const PeerAddress& address : listed) write_address(writer, address);
  writer.fill_to(kHandleBytes);
  seal_handle(target);
}

Result<Handle> decode_handle(std::span<const std::uint8_t, kHandleBytes> source) {
  ByteReader reader(source);
  if (reader.u32() != kHandleMagic) {
    return refuse_handle(
        "this is not a handle of the Mesh plugin: the peer uses another net plugin, use NCCL_NET=Mesh on all nodes");
  }
  if (const std::uint8_t version = reader.u8(); version != kHandleVersion) {
    return refuse_handle("handle version " + std::to_string(version) + ", but this library speaks version " +
                         std::to_string(kHandleVersion) + ": install the same plugin on all nodes");
  }
  ByteReader check(source.subspan<kHandleChecksumAt>());
  if (check.u32() != checksum(source)) return refuse_handle("the handle is damaged: its checksum does not fit");

  Handle handle;
  const std::uint8_t flags = reader.u8();
  if ((flags & ~kOffersTcp) != 0) return refuse_handle("the handle has flags that this version does not know");
  handle.dev = reader.u8();
  const std::size_t count = reader.u8();
  handle.node = reader.u64();
  handle.cookie = reader.u64();
  handle.tcp_port = reader.u16();
  const std::size_t bytes = reader.u8();
  handle.not_listed = reader.u8();
  handle.process = reader.u32();
  if (bytes > kHandleChecksumAt - kHandleAddressesAt)
    return refuse_handle("the handle's address list is longer than the handle");
  if (handle.tcp_port == 0) return refuse_handle("the handle has no TCP port");

  ByteReader list(source.subspan(kHandleAddressesAt, bytes));
  for (std::size_t index = 0; index < count; ++index) {
    auto address = read_address(list, "the handle");
    if (!address) return address.error();
    const bool tcp = flags == kOffersTcp && address->nic == kTcpNic;
    (tcp ? handle.tcp_addresses : handle.addresses).push_back(*address);
  }
  if (flags == kOffersTcp && handle.tcp_addresses.empty()) return refuse_handle("the handle offers TCP at no address");
  if (list.offset() != bytes) return refuse_handle("the handle's address list does not fill its length");
  return handle;
}

std::uint64_t handle_token(std::span<const std::uint8_t, kHandleBytes> handle) {
  return ByteReader(handle.subspan<kTokenAt>()).u64();
}

void set_handle_token(std::span<std::uint8_t, kHandleBytes> handle, std::uint64_t token) {
  ByteWriter(handle.subspan<kTokenAt>()).u64(token);
}

void seal_handle(std::span<std::uint8_t, kHandleBytes> handle) {
  ByteWriter(handle.subspan<kHandleChecksumAt>()).u32(checksum(handle));
}

}  // namespace meshbed::net
