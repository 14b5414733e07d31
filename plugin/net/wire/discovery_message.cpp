#include "plugin/net/wire/discovery_message.h"

#include <algorithm>
#include <string>

#include "plugin/base/check.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kBeaconMagic = 0x4d534851;  // "MSHQ"
constexpr std::size_t kBeaconAddressesAt = 32;
constexpr std::size_t kSessionBytes = 8;
constexpr std::size_t kBeaconChecksumBytes = 4;
constexpr std::size_t kInFlightBytes = 4;
constexpr unsigned kKibShift = 10;

Error refuse_beacon(std::string text) {
  return {.code = ErrorCode::kRemote, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
}

}  // namespace

std::size_t encode_beacon(const Beacon& beacon, std::span<std::uint8_t, kBeaconLargestBytes> target) {
  const bool asks_for_session = has_session(beacon.type);
  std::size_t fitting = 0, bytes = kBeaconAddressesAt + kBeaconChecksumBytes + (asks_for_session ? kSessionBytes : 0);
  for (const PeerAddress& address : beacon.addresses) {
    if (fitting == 255 || bytes + encoded_bytes(address) + kInFlightBytes > target.size()) break;
    bytes += encoded_bytes(address) + kInFlightBytes;
    ++fitting;
  }
  ByteWriter writer(target);
  writer.u32(kBeaconMagic);
  writer.u8(kBeaconVersion);
  writer.u8(static_cast<std::uint8_t>(beacon.type));
  writer.u8(beacon.hops);
  writer.u8(beacon.hop_limit);
  writer.u64(beacon.query);
  writer.u64(beacon.node);
  writer.u32(beacon.process);
  writer.u16(beacon.circuit_port);
  writer.u8(static_cast<std::uint8_t>(fitting));
  writer.u8(0);
  for (std::size_t index = 0; index < fitting; ++index) {
    write_address(writer, beacon.addresses[index]);
    const bool known = index < beacon.in_flight_bytes.size();
    const std::uint64_t kib = known ? beacon.in_flight_bytes[index] >> kKibShift : 0;
    writer.u32(static_cast<std::uint32_t>(std::min<std::uint64_t>(kib, UINT32_MAX)));
  }
  if (asks_for_session) writer.u64(beacon.session);
  writer.u32(checksum_of(target.first(writer.offset())));
  MESHBED_CHECK(writer.good() && writer.offset() == bytes);
  return bytes;
}

Result<Beacon> decode_beacon(std::span<const std::uint8_t> source) {
  if (source.size() < kBeaconAddressesAt + kBeaconChecksumBytes || source.size() > kBeaconLargestBytes) {
    return refuse_beacon("a beacon of wrong length");
  }
  const auto body = source.first(source.size() - kBeaconChecksumBytes);
  if (ByteReader(source.last(kBeaconChecksumBytes)).u32() != checksum_of(body))
    return refuse_beacon("a damaged beacon");
  ByteReader reader(body);
  if (reader.u32() != kBeaconMagic) return refuse_beacon("this is no beacon");
  if (reader.u8() != kBeaconVersion)
    return refuse_beacon("a beacon of another version: install the same plugin on all nodes");
  const std::uint8_t type = reader.u8();
  if (type < static_cast<std::uint8_t>(BeaconType::kQuery) || type > static_cast<std::uint8_t>(BeaconType::kFound)) {
    return refuse_beacon("a beacon of unknown type");
  }
  Beacon beacon;
  beacon.type = static_cast<BeaconType>(type);
  beacon.hops = reader.u8();
  beacon.hop_limit = reader.u8();
  beacon.query = reader.u64();
  beacon.node = reader.u64();
  beacon.process = reader.u32();
  beacon.circuit_port = reader.u16();
  const std::size_t count = reader.u8();
  if (reader.u8() != 0) return refuse_beacon("a beacon with flags that this version does not know");
  for (std::size_t index = 0; index < count; ++index) {
    auto address = read_address(reader, "the beacon");
    if (!address) return refuse_beacon(address.error().text);
    beacon.addresses.push_back(*address);
    beacon.in_flight_bytes.push_back(std::uint64_t{reader.u32()} << kKibShift);
  }
  if (!reader.good()) return refuse_beacon("the beacon's last load is cut off");
  if (has_session(beacon.type)) {
    if (count != 0 || beacon.process != 0 || beacon.circuit_port != 0) {
      return refuse_beacon("a question after a session says more than that");
    }
    beacon.session = reader.u64();
    if (!reader.good()) return refuse_beacon("the session of a beacon is cut off");
  }
  if (reader.offset() != body.size()) return refuse_beacon("a beacon with bytes behind its end");
  if (beacon.type == BeaconType::kAnswer && beacon.circuit_port == 0) return refuse_beacon("an answer without a port");
  return beacon;
}

}  // namespace meshbed::net
