#include "plugin/net/wire/wire.h"

#include <algorithm>

#include "plugin/base/check.h"
#include "plugin/net/process/bytes.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kHandshakeMagic = 0x4d534857;  // "MSHW"
constexpr std::size_t kNicNameBytes = 28;
constexpr std::size_t kReasonBytes = kWireRefuseBytes - kWireHeaderBytes;
constexpr std::uint32_t k24Bits = 0xffffff;

bool has_end(WireType type) {
  return type == WireType::kRequest || type == WireType::kReply || type == WireType::kResume ||
         type == WireType::kResumed || type == WireType::kRail || type == WireType::kRailed || type == WireType::kMoved;
}

bool has_tcp_end(WireType type) { return type == WireType::kTcpRequest || type == WireType::kTcpReply; }

bool has_reason(WireType type) { return type == WireType::kRefuse || type == WireType::kGone; }

std::size_t length_of(WireType type) {
  switch (type) {
    case WireType::kRequest:
    case WireType::kReply:
    case WireType::kResume:
    case WireType::kRailed:
    case WireType::kMoved:
      return kWireEndBytes;
    case WireType::kRail:
      return kWireRailBytes;
    case WireType::kResumed:
      return kWireResumedBytes;
    case WireType::kRefuse:
      return kWireRefuseBytes;
    case WireType::kGone:
      return kWireGoneBytes;
    case WireType::kReady:
    case WireType::kLivenessCheck:
    case WireType::kThere:
      return kWireHeaderBytes;
    case WireType::kRoute:
      return kWireRouteBytes;
    case WireType::kEnd:
      return kWireNumberBytes;
    case WireType::kTcpRequest:
    case WireType::kTcpReply:
      return kWireTcpBytes;
  }
  return 0;
}

void write_text(ByteWriter& writer, const std::string& text, std::size_t field_bytes) {
  const std::size_t end = writer.offset() + field_bytes;
  const auto* first = reinterpret_cast<const std::uint8_t*>(text.data());
  writer.bytes({first, std::min(text.size(), field_bytes - 1)});
  writer.fill_to(end);
}

/// Text up to the first zero. Bytes that are not printable ASCII become '?', because the text goes into a log line.
std::string read_text(ByteReader& reader, std::size_t field_bytes) {
  std::string text;
  bool ended = false;
  for (std::size_t at = 0; at < field_bytes; ++at) {
    const std::uint8_t byte = reader.u8();
    ended = ended || byte == 0;
    if (!ended) text.push_back(byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '?');
  }
  return text;
}

void write_end(ByteWriter& writer, const WireEnd& end) {
  writer.u32(end.qp_number);
  writer.u32(end.psn);
  writer.bytes(end.gid);
  writer.u8(static_cast<std::uint8_t>(end.gid_type));
  writer.u8(end.mtu);
  writer.u8(end.max_recvs);
  writer.u8(static_cast<std::uint8_t>(end.address.address.family));
  writer.u8(end.address.length_bits);
  writer.u8(end.wants_notice ? 1 : 0);
  writer.u16(end.service_port);
  writer.bytes(end.address.address.bytes);
  writer.u64(end.memory_address);
  writer.u32(end.memory_rkey);
  writer.u32(end.memory_entries);
  writer.u64(end.node);
  write_text(writer, end.nic, kNicNameBytes);
  writer.u32(end.lane_qp_number);
}

Result<WireEnd> read_end(ByteReader& reader) {
  WireEnd end;
  end.qp_number = reader.u32();
  end.psn = reader.u32();
  reader.bytes(end.gid);
  const std::uint8_t gid_type = reader.u8();
  end.mtu = reader.u8();
  end.max_recvs = reader.u8();
  const std::uint8_t family = reader.u8();
  end.address.length_bits = reader.u8();
  const std::uint8_t notice = reader.u8();
  end.service_port = reader.u16();
  reader.bytes(end.address.address.bytes);
  end.memory_address = reader.u64();
  end.memory_rkey = reader.u32();
  end.memory_entries = reader.u32();
  end.node = reader.u64();
  end.nic = read_text(reader, kNicNameBytes);
  end.lane_qp_number = reader.u32();

  if (end.qp_number == 0 || end.qp_number > k24Bits)
    return handshake_error("handshake with a queue pair number beyond 24 bits");
  if (end.lane_qp_number > k24Bits) return handshake_error("handshake with a second queue pair beyond 24 bits");
  if (end.psn > k24Bits) return handshake_error("handshake with a packet sequence number beyond 24 bits");
  if (gid_type != 1 && gid_type != 2) return handshake_error("handshake with an unknown GID type");
  if (end.mtu < 1 || end.mtu > 5) return handshake_error("handshake with an MTU that does not exist");
  if (end.max_recvs < 1 || end.max_recvs > 8) return handshake_error("handshake with a bad count of grouped receives");
  if (family != 4 && family != 6) return handshake_error("handshake with an unknown address family");
  if (notice > 1) return handshake_error("handshake with flags that this version does not know");
  end.wants_notice = notice == 1;
  end.gid_type = static_cast<verbs::GidType>(gid_type);
  end.address.address.family = static_cast<Family>(family);
  if (end.address.length_bits > address_bits(end.address.address.family)) {
    return handshake_error("handshake with a prefix longer than its address");
  }
  return end;
}

void write_route(ByteWriter& writer, const WireRoute& route) {
  writer.u64(route.origin);
  writer.u8(route.hop);
  writer.u8(route.hop_limit);
  writer.u8(static_cast<std::uint8_t>(route.onward.size()));
  writer.u8(route.resumes ? 1 : 0);
  writer.bytes(route.handle);
  for (const Hop& hop : route.onward) {
    writer.u64(hop.node);
    writer.u16(hop.port);
    write_address(writer, {.prefix = hop.address, .nic = 0});
  }
  writer.fill_to(kWireRouteBytes);
}

Result<WireRoute> read_route(ByteReader& reader) {
  WireRoute route;
  route.origin = reader.u64();
  route.hop = reader.u8();
  route.hop_limit = reader.u8();
  const std::size_t count = reader.u8();
  const std::uint8_t resumes = reader.u8();
  if (resumes > 1) return handshake_error("a route with flags that this version does not know");
  route.resumes = resumes == 1;
  reader.bytes(route.handle);
  if (count > kWireHopsMax) return handshake_error("a route of more than 8 relays");
  for (std::size_t index = 0; index < count; ++index) {
    Hop hop;
    hop.node = reader.u64();
    hop.port = reader.u16();
    auto address = read_address(reader, "the route");
    if (!address) return handshake_error(address.error().text);
    hop.address = address->prefix;
    if (hop.port == 0) return handshake_error("a route to a relay without a port");
    route.onward.push_back(hop);
  }
  // `count` relays follow the `hop` ones that were passed, and one more cable.
  if (route.hop < 1 || route.hop + count + 1 > route.hop_limit) return handshake_error("a route beyond its hop limit");
  return route;
}

void write_rail(ByteWriter& writer, const WireRail& rail) {
  writer.u8(rail.number);
  writer.fill_to(kWireEndBytes + 4);
  writer.u32(rail.sender_qp_link);
}

Result<WireRail> read_rail(ByteReader& reader) {
  WireRail rail;
  rail.number = reader.u8();
  reader.skip_to(kWireEndBytes + 4);
  rail.sender_qp_link = reader.u32();
  if (rail.number >= kMaxRails) return handshake_error("a rail of a number that does not exist");
  if (rail.sender_qp_link == 0 || rail.sender_qp_link > k24Bits) return handshake_error("a rail beside no QP link");
  return rail;
}

}  // namespace

Error handshake_error(std::string text) {
  return {.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0};
}

std::size_t encode_message(const WireMessage& message, std::span<std::uint8_t> target) {
  const std::size_t length = length_of(message.type);
  MESHBED_CHECK(length <= target.size());
  ByteWriter writer(target.first(length));
  writer.u32(kHandshakeMagic);
  writer.u16(kWireVersion);
  writer.u16(static_cast<std::uint16_t>(message.type));
  writer.u32(static_cast<std::uint32_t>(length));
  writer.u32(0);
  writer.u64(message.cookie);
  if (has_end(message.type)) write_end(writer, message.end);
  if (message.type == WireType::kResumed) {
    writer.u64(message.served);
    writer.u64(message.session);
    writer.u16(message.session_port);
    writer.fill_to(kWireResumedBytes);
  }
  if (has_reason(message.type)) write_text(writer, message.reason, kReasonBytes);
  if (message.type == WireType::kGone) writer.u64(message.served);
  if (message.type == WireType::kRoute) write_route(writer, message.route);
  if (message.type == WireType::kEnd) writer.u64(message.pieces);
  if (message.type == WireType::kRail) write_rail(writer, message.rail);
  if (has_tcp_end(message.type)) {
    writer.u64(message.tcp.node);
    write_text(writer, message.tcp.netdev, kNicNameBytes);
    writer.fill_to(kWireTcpBytes);
  }
  MESHBED_CHECK(writer.good() && writer.offset() == length);
  return length;
}

Result<std::size_t> message_bytes(std::span<const std::uint8_t, kWireHeaderBytes> header) {
  ByteReader reader(header);
  if (reader.u32() != kHandshakeMagic) return handshake_error("the received bytes are not a Mesh handshake");
  if (const std::uint16_t version = reader.u16(); version != kWireVersion) {
    return handshake_error("the peer's handshake has version " + std::to_string(version) +
                           ", this library speaks version " + std::to_string(kWireVersion) +
                           ": install the same plugin on all nodes");
  }
  const std::uint16_t type = reader.u16();
  if (type < 1 || type > static_cast<std::uint16_t>(WireType::kMoved))
    return handshake_error("handshake message of unknown type " + std::to_string(type));
  const std::uint32_t length = reader.u32();
  if (length != length_of(static_cast<WireType>(type))) return handshake_error("handshake message of wrong length");
  if (reader.u32() != 0) return handshake_error("handshake message with unknown flags");
  return static_cast<std::size_t>(length);
}

Result<WireMessage> decode_message(std::span<const std::uint8_t> source) {
  if (source.size() < kWireHeaderBytes) return handshake_error("handshake message is cut off");
  auto length = message_bytes(source.first<kWireHeaderBytes>());
  if (!length) return length.error();
  if (*length != source.size()) return handshake_error("handshake message is cut off");

  ByteReader reader(source);
  WireMessage message;
  reader.skip_to(6);
  message.type = static_cast<WireType>(reader.u16());
  reader.skip_to(16);
  message.cookie = reader.u64();
  if (has_end(message.type)) {
    auto end = read_end(reader);
    if (!end) return end.error();
    message.end = std::move(*end);
  }
  if (message.type == WireType::kResumed) {
    message.served = reader.u64();
    message.session = reader.u64();
    message.session_port = reader.u16();
  }
  if (has_reason(message.type)) message.reason = read_text(reader, kReasonBytes);
  if (message.type == WireType::kGone) message.served = reader.u64();
  if (message.type == WireType::kRoute) {
    auto route = read_route(reader);
    if (!route) return route.error();
    message.route = std::move(*route);
  }
  if (message.type == WireType::kEnd) message.pieces = reader.u64();
  if (message.type == WireType::kRail) {
    auto rail = read_rail(reader);
    if (!rail) return rail.error();
    message.rail = *rail;
  }
  if (has_tcp_end(message.type)) {
    message.tcp.node = reader.u64();
    message.tcp.netdev = read_text(reader, kNicNameBytes);
  }
  return message;
}

}  // namespace meshbed::net
