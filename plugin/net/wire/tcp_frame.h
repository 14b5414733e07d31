#pragma once
// What goes over a data connection of the TCP path, after its handshake (wire.h). Both ways; every frame has 32 bytes,
// big-endian, and only DATA is followed by a payload:
//   0  magic "MSHT" u32     8  number u64         28  checksum u32 (FNV-1a over bytes 0..27)
//   4  version u8          16  length u64
//   5  type u8             24  tag i32
//   6  part u8
//   7  parts u8
//   ANNOUNCE  receiver -> sender  one part of a posted receive: number is its entry, length what it takes at most
//   DATA      sender -> receiver  the message for that entry: length bytes follow
//   REFUSE    sender -> receiver  the message for that entry is longer than the receive; nothing follows, ever
//   HELLO     both                nothing: it makes the kernel find out whether the other machine is still there
// Nothing is acknowledged, for TCP does it. Entries are counted from 0 for ever, as in the clear-to-send ring (ring.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plugin/base/result.h"

namespace meshbed::net {

inline constexpr std::size_t kTcpFrameBytes = 32;
inline constexpr std::uint8_t kTcpFrameVersion = 1;

enum class TcpFrameType : std::uint8_t { kAnnounce = 1, kData = 2, kRefuse = 3, kHello = 4 };

struct TcpFrame {
  TcpFrameType type = TcpFrameType::kHello;
  std::uint8_t part = 0;   // of the group, below `parts`
  std::uint8_t parts = 0;  // 1..8 where the frame names an entry, else 0
  std::uint64_t number = 0;
  std::uint64_t length_bytes = 0;
  std::int32_t tag = 0;
  bool operator==(const TcpFrame&) const = default;
};

void encode_frame(const TcpFrame& frame, std::span<std::uint8_t, kTcpFrameBytes> target);
/// Every field is checked, also that those without a meaning are zero.
Result<TcpFrame> decode_frame(std::span<const std::uint8_t, kTcpFrameBytes> source);
/// Makes the checksum fit the other bytes.
void seal_frame(std::span<std::uint8_t, kTcpFrameBytes> frame);

}  // namespace meshbed::net
