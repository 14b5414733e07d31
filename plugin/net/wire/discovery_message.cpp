#include "plugin/net/wire/discovery_message.h"

#include <algorithm>
#include <string>

#include "plugin/base/check.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kDiscoveryMessageMagic = 0x4d534851;  // "MSHQ"
constexpr std::size_t kDiscoveryMessageAddressesAt = 32, kLeaveChecksumAt = 28;
constexpr std::size_t kSessionBytes = 8;
constexpr std::size_t kDiscoveryMessageChecksumBytes = 4;
constexpr std::size_t kInFlightBytes = 4;
constexpr unsigned kKibShift = 10;

Error refuse_discovery_message(std::string text) {
  return {.code = ErrorCode::kRemote, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
}

}  // namespace

std::size_t encode_discovery_message(const DiscoveryMessage& discovery_message,
                                     std::span<std::uint8_t, kDiscoveryMessageLargestBytes> target) {
  const bool asks_for_session = has_session(discovery_message.type);
  const bool leaves = discovery_message.type == DiscoveryMessageType::kLeave;
  std::size_t fitting = 0, bytes = (leaves ? kLeaveChecksumAt : kDiscoveryMessageAddressesAt) +
                                   kDiscoveryMessageChecksumBytes + (asks_for_session ? kSessionBytes : 0);
  MESHBED_CHECK(!leaves || discovery_message.addresses.empty());
  for (const PeerAddress& address : discovery_message.addresses) {
    if (fitting == 255 || bytes + encoded_bytes(address) + kInFlightBytes > target.size()) break;
    bytes += encoded_bytes(address) + kInFlightBytes;
    ++fitting;
  }
  ByteWriter writer(target);
  writer.u32(kDiscoveryMessageMagic);
  writer.u8(kDiscoveryMessageVersion);
  writer.u8(static_cast<std::uint8_t>(discovery_message.type));
  writer.u8(discovery_message.hops);
  writer.u8(discovery_message.hop_limit);
  writer.u64(discovery_message.query);
  writer.u64(discovery_message.node);
  writer.u32(discovery_message.process);
  if (!leaves) {
    writer.u16(discovery_message.circuit_port);
    writer.u8(static_cast<std::uint8_t>(fitting));
    writer.u8(0);
  }
  for (std::size_t index = 0; index < fitting; ++index) {
    write_address(writer, discovery_message.addresses[index]);
    const bool known = index < discovery_message.in_flight_bytes.size();
    const std::uint64_t kib = known ? discovery_message.in_flight_bytes[index] >> kKibShift : 0;
    writer.u32(static_cast<std::uint32_t>(std::min<std::uint64_t>(kib, UINT32_MAX)));
  }
  if (asks_for_session) writer.u64(discovery_message.session);
  writer.u32(checksum_of(target.first(writer.offset())));
  MESHBED_CHECK(writer.good() && writer.offset() == bytes);
  return bytes;
}

Result<DiscoveryMessage> decode_discovery_message(std::span<const std::uint8_t> source) {
  if (source.size() < kLeaveChecksumAt + kDiscoveryMessageChecksumBytes ||
      source.size() > kDiscoveryMessageLargestBytes) {
    return refuse_discovery_message("a discovery message of wrong length");
  }
  const auto body = source.first(source.size() - kDiscoveryMessageChecksumBytes);
  if (ByteReader(source.last(kDiscoveryMessageChecksumBytes)).u32() != checksum_of(body))
    return refuse_discovery_message("a damaged discovery message");
  ByteReader reader(body);
  if (reader.u32() != kDiscoveryMessageMagic) return refuse_discovery_message("not a discovery message");
  if (reader.u8() != kDiscoveryMessageVersion)
    return refuse_discovery_message("a discovery message of another version: install the same plugin on all nodes");
  const std::uint8_t type = reader.u8();
  if (type < static_cast<std::uint8_t>(DiscoveryMessageType::kQuery) ||
      type > static_cast<std::uint8_t>(DiscoveryMessageType::kLeave)) {
    return refuse_discovery_message("a discovery message of unknown type");
  }
  DiscoveryMessage discovery_message;
  discovery_message.type = static_cast<DiscoveryMessageType>(type);
  discovery_message.hops = reader.u8();
  discovery_message.hop_limit = reader.u8();
  discovery_message.query = reader.u64();
  discovery_message.node = reader.u64();
  discovery_message.process = reader.u32();
  if (discovery_message.type == DiscoveryMessageType::kLeave) {
    if (reader.offset() != body.size()) return refuse_discovery_message("a departure with bytes after its end");
    return discovery_message;
  }
  discovery_message.circuit_port = reader.u16();
  const std::size_t count = reader.u8();
  if (reader.u8() != 0)
    return refuse_discovery_message("a discovery message with flags that this version does not know");
  for (std::size_t index = 0; index < count; ++index) {
    auto address = read_address(reader, "the discovery message");
    if (!address) return refuse_discovery_message(address.error().text);
    discovery_message.addresses.push_back(*address);
    discovery_message.in_flight_bytes.push_back(std::uint64_t{reader.u32()} << kKibShift);
  }
  if (!reader.good()) return refuse_discovery_message("the discovery message's last load is cut off");
  if (has_session(discovery_message.type)) {
    if (count != 0 || discovery_message.process != 0 || discovery_message.circuit_port != 0) {
      return refuse_discovery_message("an inquiry about a session with other fields");
    }
    discovery_message.session = reader.u64();
    if (!reader.good()) return refuse_discovery_message("the session of a discovery message is cut off");
  }
  if (reader.offset() != body.size()) return refuse_discovery_message("a discovery message with bytes after its end");
  if (discovery_message.type == DiscoveryMessageType::kAnswer && discovery_message.circuit_port == 0)
    return refuse_discovery_message("an answer without a port");
  return discovery_message;
}

}  // namespace meshbed::net
