#pragma once
// The frames on a data connection of the TCP path, after its handshake (wire.h). Both ends send them; only DATA is
// followed by a payload.
//
// clang-format off
//   ANNOUNCE  receiver -> sender  one part of a posted receive: `number` is its entry, `length` the size of its buffer
//   DATA      sender -> receiver  the message for that entry: `length` bytes follow
//   REFUSE    sender -> receiver  the message for that entry is longer than the receive; nothing follows
//   HELLO     both                empty: it makes the kernel find out whether the other machine is alive
// Layout of a frame: big-endian, sizes in bytes.
//   offset  size  name           meaning
//        0     4  magic          "MSHT"
//        4     1  version        1
//        5     1  type           1: ANNOUNCE, 2: DATA, 3: REFUSE, 4: HELLO
//        6     1  part           part of the group, below parts
//        7     1  parts          parts of the group, 1 to 8
//        8     8  number         the entry
//       16     8  length         bytes
//       24     4  tag            signed
//       28     4  checksum       FNV-1a over bytes 0 to 27
// clang-format on
// Frames are not acknowledged, as TCP does so. Entries are counted from 0 without end, as in the clear-to-send ring
// (ring.h).

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
  std::uint8_t parts = 0;  // 1..8 if the frame names an entry, else 0
  std::uint64_t number = 0;
  std::uint64_t length_bytes = 0;
  std::int32_t tag = 0;
  bool operator==(const TcpFrame&) const = default;
};

void encode_frame(const TcpFrame& frame, std::span<std::uint8_t, kTcpFrameBytes> target);
/// Every field is checked; fields without a meaning must be zero.
Result<TcpFrame> decode_frame(std::span<const std::uint8_t, kTcpFrameBytes> source);
/// Sets the checksum.
void seal_frame(std::span<std::uint8_t, kTcpFrameBytes> frame);

}  // namespace meshbed::net
