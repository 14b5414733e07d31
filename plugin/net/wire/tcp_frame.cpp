#include "plugin/net/wire/tcp_frame.h"

#include <string>

#include "plugin/net/process/bytes.h"
#include "plugin/net/process/peer_address.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kTcpFrameMagic = 0x4d534854;  // "MSHT"
constexpr std::size_t kTcpFrameChecksumAt = 28;

Error refuse_tcp_frame(std::string text) {
  return {.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0};
}

/// nullptr: the fields fit each other.
const char* problem_of(const TcpFrame& frame) {
  if (frame.length_bytes > kMaxMessageBytes) return "with a length beyond 1 GiB";
  if (frame.type == TcpFrameType::kHello) {
    return frame == TcpFrame{} ? nullptr : "with fields that its type does not have";
  }
  if (frame.parts < 1 || frame.parts > kMaxGroup) return "with a group of other than 1 to 8 parts";
  return frame.part < frame.parts ? nullptr : "with a part that its group does not have";
}

}  // namespace

void encode_frame(const TcpFrame& frame, std::span<std::uint8_t, kTcpFrameBytes> target) {
  ByteWriter writer(target);
  writer.u32(kTcpFrameMagic);
  writer.u8(kTcpFrameVersion);
  writer.u8(static_cast<std::uint8_t>(frame.type));
  writer.u8(frame.part);
  writer.u8(frame.parts);
  writer.u64(frame.number);
  writer.u64(frame.length_bytes);
  writer.u32(static_cast<std::uint32_t>(frame.tag));
  seal_frame(target);
}

void seal_frame(std::span<std::uint8_t, kTcpFrameBytes> frame) {
  ByteWriter(frame.subspan<kTcpFrameChecksumAt>()).u32(checksum_of(frame.first<kTcpFrameChecksumAt>()));
}

Result<TcpFrame> decode_frame(std::span<const std::uint8_t, kTcpFrameBytes> source) {
  ByteReader reader(source);
  if (reader.u32() != kTcpFrameMagic) return refuse_tcp_frame("a frame with another magic than ours");
  if (const std::uint8_t version = reader.u8(); version != kTcpFrameVersion) {
    return refuse_tcp_frame("a frame of version " + std::to_string(version) + ", but this library speaks version " +
                            std::to_string(kTcpFrameVersion) + ": install the same plugin on all nodes");
  }
  const std::uint8_t type = reader.u8();
  TcpFrame frame;
  frame.part = reader.u8();
  frame.parts = reader.u8();
  frame.number = reader.u64();
  frame.length_bytes = reader.u64();
  frame.tag = static_cast<std::int32_t>(reader.u32());
  if (reader.u32() != checksum_of(source.first<kTcpFrameChecksumAt>()))
    return refuse_tcp_frame("a frame whose checksum does not fit");
  if (type < 1 || type > static_cast<std::uint8_t>(TcpFrameType::kHello))
    return refuse_tcp_frame("a frame of unknown type");
  frame.type = static_cast<TcpFrameType>(type);
  if (const char* problem = problem_of(frame)) return refuse_tcp_frame(std::string("a frame ") + problem);
  return frame;
}

}  // namespace meshbed::net
