#include "plugin/net/connect/rank_announcement.h"

#include <string>

#include "plugin/base/check.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kRankAnnouncementMagic = 0x4d534852;  // "MSHR"
constexpr std::uint8_t kVersion = 2;
constexpr std::uint8_t kDoneBit = 0x80;
constexpr std::size_t kRankAnnouncementAddressesAt = 58;
constexpr std::size_t kRankAnnouncementChecksumBytes = 4;

Error refuse_announcement(std::string text) {
  return {.code = ErrorCode::kRemote, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
}

std::size_t fitting(const RankAnnouncement& call, std::size_t room) {
  std::size_t count = 0, bytes = kRankAnnouncementAddressesAt + kRankAnnouncementChecksumBytes;
  for (const PeerAddress& address : call.addresses) {
    bytes += encoded_bytes(address);
    if (count == 255 || bytes > room) break;
    ++count;
  }
  return count;
}

}  // namespace

std::size_t encode_announcement(const RankAnnouncement& call,
                                std::span<std::uint8_t, kDiscoveryMessageLargestBytes> target) {
  const std::size_t addresses = fitting(call, target.size());
  ByteWriter writer(target);
  writer.u32(kRankAnnouncementMagic);
  writer.u8(kVersion);
  writer.u8(static_cast<std::uint8_t>(static_cast<unsigned>(call.stand) | (call.done ? kDoneBit : 0U)));
  writer.u8(call.hops);
  writer.u8(call.hop_limit);
  writer.u32(call.rules);
  writer.u16(call.key.nodes);
  writer.u32(call.key.ranks);
  writer.u64(call.key.communicator);
  writer.u64(call.node);
  writer.u32(call.process);
  writer.u16(0);
  writer.u32(call.sequence);
  writer.u16(call.ranks_here);
  writer.u64(call.mesh);
  writer.u8(static_cast<std::uint8_t>(addresses));
  writer.fill_to(kRankAnnouncementAddressesAt);
  for (std::size_t index = 0; index < addresses; ++index) write_address(writer, call.addresses[index]);
  writer.u32(checksum_of(target.first(writer.offset())));
  MESHBED_CHECK(writer.good());
  return writer.offset();
}

Result<RankAnnouncement> decode_announcement(std::span<const std::uint8_t> source) {
  if (source.size() < kRankAnnouncementAddressesAt + kRankAnnouncementChecksumBytes ||
      source.size() > kDiscoveryMessageLargestBytes) {
    return refuse_announcement("a rank announcement of wrong length");
  }
  const auto body = source.first(source.size() - kRankAnnouncementChecksumBytes);
  if (ByteReader(source.last(kRankAnnouncementChecksumBytes)).u32() != checksum_of(body))
    return refuse_announcement("a damaged rank announcement");
  ByteReader reader(body);
  if (reader.u32() != kRankAnnouncementMagic) return refuse_announcement("not a rank announcement");
  if (reader.u8() != kVersion)
    return refuse_announcement("a rank announcement of another version: install the same plugin on all nodes");
  const std::uint8_t stand = reader.u8();
  RankAnnouncement call;
  call.done = (stand & kDoneBit) != 0;
  if ((stand & ~kDoneBit) > static_cast<unsigned>(Stand::kComing))
    return refuse_announcement("a rank announcement with an unknown stand");
  call.stand = static_cast<Stand>(stand & ~kDoneBit);
  call.hops = reader.u8();
  call.hop_limit = reader.u8();
  call.rules = reader.u32();
  call.key.nodes = reader.u16();
  call.key.ranks = reader.u32();
  call.key.communicator = reader.u64();
  call.node = reader.u64();
  call.process = reader.u32();
  if (reader.u16() != 0) return refuse_announcement("a rank announcement with flags that this version does not know");
  call.sequence = reader.u32();
  call.ranks_here = reader.u16();
  call.mesh = reader.u64();
  const std::size_t count = reader.u8();
  if (reader.u8() != 0 || reader.u16() != 0)
    return refuse_announcement("a rank announcement with flags that this version does not know");
  for (std::size_t index = 0; index < count; ++index) {
    auto address = read_address(reader, "the rank announcement");
    if (!address) return refuse_announcement(address.error().text);
    call.addresses.push_back(*address);
  }
  if (reader.offset() != body.size()) return refuse_announcement("a rank announcement with bytes after its end");
  return call;
}

}  // namespace meshbed::net
